"""The data sets of the catalogue: their files, and whether they are whole."""

import glob
import os
from collections.abc import Iterator, Sequence

from keras_bert_ref.choice import files as choice_files
from keras_bert_ref.choice.tasks import SWAG
from keras_bert_ref.classifier import files as classifier_files
from keras_bert_ref.classifier import tasks
from keras_bert_ref.ner import files as ner_files
from keras_bert_ref.ner import tags
from keras_bert_ref.reproduce.catalogue import Catalogue, Row
from keras_bert_ref.squad.examples import read_articles

# Below --data_dir.
FOLDERS = {"XNLI": "xnli", "CoNLL-2003": "conll2003", "SWAG": "swag"}
# Training set, then dev set.
SQUAD_FILES = {
    "SQuAD v1.1": ("squad/train-v1.1.json", "squad/dev-v1.1.json"),
    "SQuAD v2.0": ("squad/train-v2.0.json", "squad/dev-v2.0.json"),
}
OTHER_FILES = {
    "CoNLL-2003": tuple(
        f"conll2003/eng.{part}" for part in ("train", "testa", "testb")
    ),
    "SWAG": ("swag/train.csv", "swag/val.csv"),
    "BLEURT scores": ("bleurt/scores.tsv",),
    "STS-B with test labels": ("glue/STS-B/sts-test-labelled.tsv",),
}
TRIVIAQA_FILE = "triviaqa/triviaqa.json"


def folder_of(row: Row) -> str:
    """Where its files are, below --data_dir."""
    return FOLDERS.get(row.data, f"glue/{row.data}")


def files_of(row: Row, data_dir: str) -> list[str]:
    """The files that a row needs."""
    names = {**SQUAD_FILES, **OTHER_FILES}.get(row.data, ())
    if row.runner == "squad_predictions":
        return [os.path.join(data_dir, names[1]), predictions(row, data_dir)]
    if row.runner == "run_classifier":
        task = _task(row)
        splits = [*task.train, *task.dev, *task.test]
        needed = [split.file for split in splits if not split.is_optional]
        names = tuple(f"{folder_of(row)}/{file}" for file in needed)
    return [os.path.join(data_dir, name) for name in names]


def predictions(row: Row, data_dir: str) -> str:
    """The file with published predictions; if there is none, its pattern."""
    version = row.data.removeprefix("SQuAD v")
    pattern = os.path.join(data_dir, f"squad/predictions-v{version}*.json")
    return next(iter(sorted(glob.glob(pattern))), pattern)


def tfds_folder(row: Row, data_dir: str) -> str | None:
    """Where TensorFlow Datasets keeps a data set, if it does. Its CoNLL-2003
    is of no use here: it does not say where documents begin."""
    name = f"glue/{_tfds_name(row)}"
    if row.data in SQUAD_FILES:
        name = f"squad/v{row.data[-3:]}"
    folder = os.path.join(data_dir, "tfds")
    has = glob.glob(os.path.join(folder, name, "*", "dataset_info.json"))
    return folder if has else None


def source_of(row: Row) -> str:
    """What to do where it is missing."""
    if row.data == "SWAG":
        return "the CSV files of github.com/rowanz/swagaf"
    if row.data == "CoNLL-2003":
        return "the shared task's files; TensorFlow Datasets' mark no documents"
    if row.is_check:
        return "docs/REPRODUCE.md says where it was published"
    name = f"glue/{_tfds_name(row)}"
    if row.data in SQUAD_FILES:
        name = "squad"
    if row.data == "XNLI":
        name = folder_of(row)
    return f"python -m keras_bert_ref.download {name}"


def wrong_sizes(row: Row, catalogue: Catalogue, data_dir: str) -> list[str]:
    """Files that do not have as many examples as were published. What
    TensorFlow Datasets has prepared, it has checked itself."""
    published = catalogue.sizes.get(row.data, {})
    if row.is_check or tfds_folder(row, data_dir):
        return []
    return [
        f"{row.data} has {found:,} examples in {path}, not the "
        f"{published[split]:,} of the published {split} set"
        for split, path, found in count(row, data_dir)
        if published.get(split, found) != found
    ]


def count(row: Row, data_dir: str) -> Iterator[tuple[str, str, int]]:
    """The examples of the training set and the dev set: sentences, pairs,
    questions; of CoNLL-2003 entities."""
    folder = os.path.join(data_dir, folder_of(row))
    if row.runner == "run_classifier":
        task = _task(row)
        for split, (file, *_) in (("train", task.train), ("dev", task.dev)):
            examples = classifier_files.read_examples(task, file, folder)
            yield split, os.path.join(folder, file.file), len(examples)
    elif row.runner == "run_squad":
        paths = files_of(row, data_dir)
        for split, path in zip(("train", "dev"), paths, strict=True):
            yield split, path, count_questions(read_articles(path))
    elif row.runner == "run_ner":
        for split in ("train", "dev", "test"):
            path = ner_files.find_file(folder, split)
            found = map(tags.find_chunks, ner_files.read_file(path).tags)
            yield split, path, sum(map(len, found))
    elif row.runner == "run_multiple_choice":
        for split in ("train", "dev"):
            path = os.path.join(folder, *SWAG.names[split])
            examples = choice_files.read_examples(SWAG, split, folder)
            yield split, path, len(examples)


def count_questions(articles: Sequence[dict]) -> int:
    """Of SQuAD."""
    return sum(
        len(paragraph["qas"])
        for article in articles
        for paragraph in article["paragraphs"]
    )


def _task(row: Row) -> tasks.Task:
    """The task; of XNLI in the language that the row trains on."""
    flag = "--xnli_language="
    languages = [f.removeprefix(flag) for f in row.flags if flag in f]
    if "xnli_en_multilingual" in row.flagfiles:
        languages = ["en"]
    return tasks.get_task(row.data, *languages)


def _tfds_name(row: Row) -> str:
    return row.data.lower().replace("-", "")
