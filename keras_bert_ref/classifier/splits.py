"""Tasks, those of GLUE or of one's own, made ready for a model."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref.classifier import features as classifier_features
from keras_bert_ref.classifier import files as classifier_files
from keras_bert_ref.classifier import tfds as glue_tfds
from keras_bert_ref.classifier.features import (
    file_based_convert_examples_to_features,
)
from keras_bert_ref.classifier.tasks import Split, Task
from keras_bert_ref.records.batches import Records
from keras_bert_ref.records.parallel import run_apart
from keras_bert_ref.tokenization import FullTokenizer

LABELS_FILE = "labels.txt"


class Data(NamedTuple):
    """A split.

    Attributes:
        split: which it is.
        labels: int32 [N] classes, or float32 [N] scores.
        records: its examples, in the same order.
    """

    split: Split
    labels: np.ndarray
    records: Records


def prepare(
    task: Task,
    tokenizer: FullTokenizer,
    max_seq_length: int,
    data_dir: str,
    output_dir: str,
    names: Sequence[str],
) -> dict[str, list[Data]]:
    """Writes records of splits to <name>.tf_record in output_dir.

    Args:
        names: what is to be done, of `train`, `eval` and `predict`. Splits
            that are optional and not there are left out.
    """
    schema = classifier_features.make_schema(max_seq_length, task.is_regression)
    vocab_size = 1 + max(tokenizer.vocab.values())
    splits = {"train": task.train, "eval": task.dev, "predict": task.test}
    prepared = {name: [] for name in splits}
    for name in names:
        if not splits[name]:
            raise ValueError(
                f"{task.name} has test data only; set --do_predict alone, "
                "with a model that was trained on MNLI."
            )
    wanted = [(name, split) for name in names for split in splits[name]]
    all_examples = _read_splits(task, [s for _, s in wanted], data_dir)
    for (name, split), examples in zip(wanted, all_examples, strict=True):
        if examples is None:
            continue
        suffix = f"_{split.suffix}" if split.suffix else ""
        path = os.path.join(output_dir, f"{name}{suffix}.tf_record")
        labels = file_based_convert_examples_to_features(
            examples, task.labels, max_seq_length, tokenizer, path
        )
        count = len(examples)
        records = Records(
            [path], schema, count, vocab_size, shuffle_buffer=count
        )
        prepared[name].append(Data(split, labels, records))
    return prepared


def _read_splits(task: Task, splits: Sequence[Split], data_dir: str) -> list:
    if glue_tfds.is_tfds(data_dir):
        return run_apart(glue_tfds.read_splits, task, splits, data_dir)
    return [classifier_files.read_examples(task, s, data_dir) for s in splits]


def make_own_task(
    kind: str,
    columns: Sequence[str | None],
    is_regression: bool,
    data_dir: str,
    output_dir: str,
    is_training: bool,
) -> Task:
    """A task in files of one's own: train, dev and test.tsv or .jsonl.

    Args:
        kind: `tsv` or `jsonl`.
        columns: of text_a, text_b (None for single sentences) and label: their
            names; of a tsv without header, their numbers.
        is_training: bool. Find the labels in the training data and keep them
            in output_dir; otherwise look them up there.
    """
    places = [int(c) if c and re.fullmatch(r"-?\d+", c) else c for c in columns]
    has_header = any(isinstance(place, str) for place in places)
    train, dev, test = (
        Split(name, f"{name}.{kind}", *places[:count], has_header=has_header)
        for name, count in (("train", 3), ("dev", 3), ("test", 2))
    )
    labels, metrics = (), ("pearson", "spearman")
    if not is_regression:
        find = _find_labels if is_training else _load_labels
        labels, metrics = find(train, data_dir, output_dir), ("accuracy",)
    return Task(kind, labels, metrics, (train,), (dev,), (test,))


def _find_labels(train: Split, data_dir: str, output_dir: str):
    """Labels found in the training data; kept for later runs."""
    found = classifier_files.find_labels(train, data_dir)
    if len(found) < 2:
        raise ValueError(
            f"{train.file} has {len(found)} different label(s) in column "
            f"{train.label!r}, but a classifier needs 2; set --label_column, "
            "or --regression for scores."
        )
    path = os.path.join(output_dir, LABELS_FILE)
    if tf.io.gfile.exists(path):
        kept = _load_labels(train, data_dir, output_dir)
        if kept != found:
            raise ValueError(
                f"{train.file} has the labels {', '.join(found)}, but the "
                f"model in {output_dir} was trained with {', '.join(kept)}; "
                "use another --output_dir."
            )
    keep_labels(output_dir, found)
    return found


def keep_labels(output_dir: str, labels: Sequence[str]) -> None:
    """Keeps labels that were found beside the model that learns them."""
    tf.io.gfile.makedirs(output_dir)
    path = os.path.join(output_dir, LABELS_FILE)
    with tf.io.gfile.GFile(path, "w") as file:
        file.write("".join(label + "\n" for label in labels))


def _load_labels(train: Split, data_dir: str, output_dir: str):
    """Labels of a model that was trained before."""
    path = os.path.join(output_dir, LABELS_FILE)
    if not tf.io.gfile.exists(path):
        raise ValueError(
            f"There is no {path}, which training writes; set --do_train, or "
            "--output_dir to where the model was trained."
        )
    with tf.io.gfile.GFile(path, "rb") as file:
        return tuple(file.read().decode().removesuffix("\n").split("\n"))
