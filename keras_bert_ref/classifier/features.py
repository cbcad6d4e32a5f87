"""Examples of sentences or pairs -> features -> records.

A model sees `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]` with b and what
follows it as segment 1.
"""

import functools
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref.classifier.files import InputExample
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.records.serialization import pad_rows, serialize
from keras_bert_ref.sentence_pairs import encode_pair
from keras_bert_ref.tokenization import FullTokenizer

EXAMPLES_PER_TASK = 2_000
# With fewer, processes cost more than they save.
MIN_PARALLEL_EXAMPLES = 20_000


class InputFeatures(NamedTuple):
    """An example as numbers, without padding.

    Attributes:
        input_ids: ids of L tokens.
        segment_ids: 0 or 1, L of them.
        label_id: int for a class, float for a score.
    """

    input_ids: list[int]
    segment_ids: list[int]
    label_id: int | float


def convert_single_example(
    example: InputExample,
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: FullTokenizer,
) -> InputFeatures:
    """Makes the features of one example; without labels, of a score."""
    ids, segments = encode_pair(
        example.text_a, example.text_b, max_seq_length, tokenizer
    )
    return InputFeatures(ids, segments, label_id(example, label_list))


def label_id(example: InputExample, label_list: Sequence[str]) -> int | float:
    """The number of a label; without a list, the score."""
    label = example.label
    return label_list.index(label) if label_list else float(label)


def file_based_convert_examples_to_features(
    examples: Sequence[InputExample],
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: FullTokenizer,
    output_file: str,
) -> np.ndarray:
    """Writes the features of all examples, in order, as records.

    Returns:
        The label ids: int32 [N] classes, or float32 [N] scores.
    """
    is_large = len(examples) >= MIN_PARALLEL_EXAMPLES
    convert = functools.partial(
        _make_records,
        label_list=label_list,
        max_seq_length=max_seq_length,
        tokenizer=tokenizer,
    )
    tasks = (
        examples[i : i + EXAMPLES_PER_TASK]
        for i in range(0, len(examples), EXAMPLES_PER_TASK)
    )
    with open_outputs([output_file]) as write:
        num_workers = os.cpu_count() if is_large else 1
        for records in map_in_order(convert, tasks, num_workers):
            write(records)
    return label_array(label_id(e, label_list) for e in examples)


def _make_records(examples, label_list, max_seq_length, tokenizer):
    features = (
        convert_single_example(example, label_list, max_seq_length, tokenizer)
        for example in examples
    )
    return serialize(pad_features(list(features), max_seq_length))


def pad_features(
    features: Sequence[InputFeatures], max_seq_length: int
) -> dict[str, np.ndarray]:
    """Makes a batch: arrays [N, max_seq_length], and [N, 1] of one number."""
    batch = pad_rows(features, max_seq_length)
    batch["label_ids"] = label_array(f.label_id for f in features)[:, None]
    batch["is_real_example"] = np.ones((len(features), 1), np.int32)
    return batch


def label_array(label_ids: Iterable[int | float]) -> np.ndarray:
    """Classes as int32, scores as float32."""
    labels = np.array(list(label_ids))
    return labels.astype(np.float32 if labels.dtype.kind == "f" else np.int32)


def make_schema(max_seq_length: int, is_regression: bool) -> dict:
    """What `tf.io.parse_example` must know of the records."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    label_type = tf.float32 if is_regression else tf.int64
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "label_ids": tf.io.FixedLenFeature([], label_type),
    }
