"""Tasks, those of GLUE or of one's own, made ready for a model."""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref import prepared
from keras_bert_ref.classifier import features, files, tfds
from keras_bert_ref.classifier.tasks import Split, Task
from keras_bert_ref.files import read, replace
from keras_bert_ref.records.batches import Records
from keras_bert_ref.records.parallel import run_apart
from keras_bert_ref.text_files import decode
from keras_bert_ref.tokenization import FullTokenizer

LABELS_FILE = "labels.txt"


class PreparedSplit(NamedTuple):
    """A split, written as records.

    Attributes:
        split: which it is.
        labels: int32 [N] classes, or float32 [N] scores.
        records: its examples, in the same order.
        examples: as they were read; of `eval` only.
    """

    split: Split
    labels: np.ndarray
    records: Records
    examples: Sequence[files.InputExample] = ()


def prepare(
    task: Task,
    tokenizer: FullTokenizer,
    *,
    max_seq_length: int,
    data_dir: str,
    output_dir: str,
    names: Sequence[str],
) -> dict[str, list[PreparedSplit]]:
    """Writes records of splits to <name>.tf_record in output_dir.

    Args:
        names: what is to be done, of `train`, `eval` and `predict`. Splits
            that are optional and not there are left out.
    """
    schema = features.make_schema(max_seq_length, task.is_regression)
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
        labels = features.file_based_convert_examples_to_features(
            examples, task.labels, max_seq_length, tokenizer, path
        )
        count = len(examples)
        records = Records(
            [path],
            schema,
            count,
            vocab_size,
            shuffle_buffer=count,
            num_labels=len(task.labels) or None,
        )
        kept = examples if name == "eval" else ()
        prepared[name].append(PreparedSplit(split, labels, records, kept))
    return prepared


def _read_splits(task: Task, splits: Sequence[Split], data_dir: str) -> list:
    if prepared.is_tfds(data_dir):
        return run_apart(tfds.read_splits, task, splits, data_dir)
    return [files.read_examples(task, s, data_dir) for s in splits]


def make_own_task(
    kind: str,
    *,
    columns: Sequence[str | None],
    is_regression: bool,
    data_dir: str,
    output_dir: str,
    kept_labels: Sequence[str] | None,
    is_training: bool,
) -> Task:
    """A task in files of one's own: train, dev and test.tsv or .jsonl.

    Args:
        kind: `tsv` or `jsonl`.
        columns: of text_a, text_b (None for single sentences) and label: their
            names; of a tsv without header, their numbers.
        kept_labels: those of a model that was trained in output_dir before.
        is_training: bool. Find the labels in the training data; otherwise
            they must have been kept.
    """
    places = [int(c) if c and re.fullmatch(r"-?\d+", c) else c for c in columns]
    has_header = any(isinstance(place, str) for place in places)
    train, dev, test = (
        Split(name, f"{name}.{kind}", *places[:count], has_header=has_header)
        for name, count in (("train", 3), ("dev", 3), ("test", 2))
    )
    if is_regression:
        labels, metrics = (), ("pearson", "spearman")
    else:
        labels, metrics = kept_labels, ("accuracy",)
        if is_training:
            labels = _find_labels(train, data_dir)
        _check_labels(labels, kept_labels, train.file, output_dir)
    return Task(kind, tuple(labels), metrics, (train,), (dev,), (test,))


def _find_labels(train: Split, data_dir: str) -> tuple[str, ...]:
    """Labels of the training data."""
    found = files.find_labels(train, data_dir)
    if len(found) < 2:
        raise ValueError(
            f"{train.file} has {len(found)} different label(s) in column "
            f"{train.label!r}, but a classifier needs 2; set --label_column, "
            "or --regression for scores."
        )
    return found


def _check_labels(labels, kept, train_file: str, output_dir: str) -> None:
    if labels is None:
        raise ValueError(
            f"There is no {LABELS_FILE} in {output_dir}, which training "
            "writes; set --do_train, or --output_dir to where the model was "
            "trained."
        )
    if kept is not None and tuple(kept) != tuple(labels):
        raise ValueError(
            f"{train_file} has the labels {', '.join(labels)}, but the model "
            f"in {output_dir} was trained with {', '.join(kept)}; use another "
            "--output_dir."
        )


def write_labels(output_dir: str, labels: Sequence[str]) -> None:
    """Keeps labels that were found beside the models that learn them."""
    path = os.path.join(output_dir, LABELS_FILE)
    replace(path, "".join(label + "\n" for label in labels))


def read_labels(output_dir: str) -> tuple[str, ...] | None:
    """Labels of a model that was trained before, if there are any."""
    path = os.path.join(output_dir, LABELS_FILE)
    if not tf.io.gfile.exists(path):
        return None
    text = decode(read(path), path, first_line=1)
    return tuple(text.removesuffix("\n").split("\n"))
