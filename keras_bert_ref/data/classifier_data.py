"""A split of a task, ready for a model: labels, and records in a file."""

import os
from typing import NamedTuple

import numpy as np

from keras_bert_ref.data import (
    classifier_features,
    classifier_files,
    glue_tfds,
)
from keras_bert_ref.data.batches import Records
from keras_bert_ref.data.glue import Split, Task
from keras_bert_ref.tokenization import FullTokenizer


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
    splits: tuple[Split, ...],
    data_dir: str,
    max_seq_length: int,
    tokenizer: FullTokenizer,
    output_dir: str,
    name: str,
) -> list[Data]:
    """Writes the records of splits to <output_dir>/<name>.tf_record.

    Splits that are optional and not there are left out.
    """
    is_tfds = glue_tfds.is_tfds(data_dir)
    read = (glue_tfds if is_tfds else classifier_files).read_examples
    schema = classifier_features.make_schema(max_seq_length, task.is_regression)
    vocab_size = 1 + max(tokenizer.vocab.values())
    prepared = []
    for split in splits:
        is_there = is_tfds or classifier_files.has_file(split, data_dir)
        if split.is_optional and not is_there:
            continue
        examples = read(task, split, data_dir)
        suffix = f"_{split.suffix}" if split.suffix else ""
        path = os.path.join(output_dir, f"{name}{suffix}.tf_record")
        classifier_features.file_based_convert_examples_to_features(
            examples, task.labels, max_seq_length, tokenizer, path
        )
        labels = classifier_features.label_array(
            task.labels.index(e.label) if task.labels else e.label
            for e in examples
        )
        records = Records([path], schema, len(examples), vocab_size)
        prepared.append(Data(split, labels, records))
    return prepared


def own_labels(
    train: Split, data_dir: str, output_dir: str, do_train: bool
) -> tuple[str, ...]:
    """The labels of a task of one's own: found in the training data, and kept
    in output_dir for later runs."""
    kept = classifier_files.load_labels(output_dir)
    if not do_train:
        if kept is None:
            raise ValueError(
                f"There is no {classifier_files.LABELS_FILE} in {output_dir}: "
                "only a model that was trained there with --do_train can be "
                "used."
            )
        return kept
    found = classifier_files.find_labels(train, data_dir)
    if len(found) < 2:
        raise ValueError(
            f"{train.file} has {len(found)} different label(s) in column "
            f"{train.label!r}, but a classifier needs 2; set --label_column, "
            "or --regression for scores."
        )
    if kept not in (None, found):
        raise ValueError(
            f"{train.file} has the labels {', '.join(found)}, but the model "
            f"in {output_dir} was trained with {', '.join(kept)}; use another "
            "--output_dir."
        )
    classifier_files.save_labels(output_dir, found)
    return found
