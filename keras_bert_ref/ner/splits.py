"""The files of a task, read and cut into windows."""

import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_ref import prepared
from keras_bert_ref.commands import Options
from keras_bert_ref.ner import files, records, tags, tfds, windows
from keras_bert_ref.records.batches import Records
from keras_bert_ref.tokenization import FullTokenizer


class PreparedSplit(NamedTuple):
    """A file, made ready for a model.

    Attributes:
        data: its sentences.
        windows: what the model sees of them.
        label_ids: int32 [words]; 0 where the file has no tags.
        records: the windows as records, in order.
    """

    data: files.TaggedFile
    windows: list[windows.TaggedWindow]
    label_ids: np.ndarray
    records: Records


def read_files(
    options: Options, names: Sequence[str]
) -> dict[str, files.TaggedFile]:
    """Reads splits by name, of `train`, `dev` and `test`."""
    if prepared.is_tfds(options.data_dir) and options.context != "sentence":
        raise ValueError(
            f"--context={options.context} needs documents, but TensorFlow "
            "Datasets does not know where they begin; set --data_dir to a "
            "folder with the files, or --context=sentence."
        )
    found = {}
    for name in names:
        if prepared.is_tfds(options.data_dir):
            found[name] = tfds.read_file(options.data_dir, name)
        else:
            path = files.find_file(options.data_dir, name)
            found[name] = files.read_file(path, is_scored(options, name))
        if options.context != "sentence":
            files.check_documents(found[name])
    return found


def is_scored(options: Options, name: str) -> bool:
    """Whether the tags of a split are needed."""
    return name != "test" or (options.do_eval and options.eval_on_test)


def find_labels(
    train: files.TaggedFile | None, record: dict | None, output_dir: str
) -> tuple[str, ...]:
    """The classes, in the order of the model's outputs.

    Args:
        train: what is trained on, if anything.
        record: run.json of a model that was trained in output_dir before.
    """
    record = record or {}
    task = record.get("task", "ner")
    if task != "ner":
        raise ValueError(
            f"The model in {output_dir} was trained for the task {task!r}, "
            "not to tag words; use another --output_dir."
        )
    kept = record.get("labels", ())
    if train is None and not kept:
        raise ValueError(
            f"There is no run.json in {output_dir} that names the labels of a "
            "model, which training writes; set --do_train, or --output_dir to "
            "where the model was trained."
        )
    found = tags.find_labels(train.tags) if train else tuple(kept)
    if len(found) < 2:
        raise ValueError(
            f"All tags of {train.path} are O; training needs others, such as "
            "B-PER, in the last column."
        )
    if kept and found != tuple(kept):
        raise ValueError(
            f"{train.path} has the labels {', '.join(found)}, but the model in "
            f"{output_dir} was trained with {', '.join(kept)}; use another "
            "--output_dir."
        )
    return found


def prepare(
    options: Options,
    name: str,
    data: files.TaggedFile,
    labels: Sequence[str],
    tokenizer: FullTokenizer,
    output_dir: str,
) -> PreparedSplit:
    """Writes a split's windows to <name>.tf_record."""
    found = windows.make_windows(
        data.sentences,
        tokenizer,
        max_seq_length=options.max_seq_length,
        context=options.context,
        doc_stride=options.doc_stride,
    )
    label_ids = make_label_ids(data, labels)
    written = records.write_records(
        os.path.join(output_dir, f"{name}.tf_record"),
        found,
        label_ids,
        max_seq_length=options.max_seq_length,
        vocab_size=1 + max(tokenizer.vocab.values()),
    )
    return PreparedSplit(data, found, label_ids, written)


def make_label_ids(data: files.TaggedFile, labels: Sequence[str]) -> np.ndarray:
    """The class of each word, in IOB2."""
    if not data.has_tags:
        return np.zeros(data.num_words, np.int32)
    places = {label: i for i, label in enumerate(labels)}
    ids = (places[tag] for s in data.tags for tag in tags.to_iob2(s))
    return np.fromiter(ids, np.int32, data.num_words)
