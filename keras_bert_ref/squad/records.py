"""Windows -> TFRecords, and what reading these back must know."""

import contextlib
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_ref.records.batches import Records
from keras_bert_ref.records.damage import count_records
from keras_bert_ref.records.files import open_outputs
from keras_bert_ref.records.serialization import pad_rows, serialize
from keras_bert_ref.squad.examples import SquadExample
from keras_bert_ref.squad.windows import (
    InputFeatures,
    convert_examples_to_features,
)
from keras_bert_ref.tokenization import FullTokenizer

RECORDS_PER_WRITE = 1024


def write_records(
    path: str,
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    *,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    keep: Callable[[InputFeatures], object] | None = None,
) -> Records:
    """Writes the windows of all examples; hands each to `keep` as well.

    For the other arguments see `convert_examples_to_features`.
    """
    with open_feature_writer(path, is_training, max_seq_length) as write:

        def write_and_keep(feature: InputFeatures) -> None:
            write(feature)
            keep(feature)

        convert_examples_to_features(
            examples,
            tokenizer,
            max_seq_length=max_seq_length,
            doc_stride=doc_stride,
            max_query_length=max_query_length,
            is_training=is_training,
            output_fn=write_and_keep if keep else write,
        )
    num_records = count_records(path)
    return Records(
        [path],
        make_schema(max_seq_length, is_training),
        num_records,
        vocab_size=1 + max(tokenizer.inv_vocab),
        shuffle_buffer=num_records,
    )


@contextlib.contextmanager
def open_feature_writer(
    output_file: str, is_training: bool, max_seq_length: int
) -> Iterator[Callable[[InputFeatures], None]]:
    """Yields a function that writes one feature after the other as records.

    Pass it to `convert_examples_to_features` as `output_fn`; features need
    not be held in memory. The file appears when all are written.
    """
    with open_outputs([output_file]) as write:
        pending = []

        def flush() -> None:
            if pending:
                batch = pad_features(pending, is_training, max_seq_length)
                write(serialize(batch))
                pending.clear()

        def process_feature(feature: InputFeatures) -> None:
            pending.append(feature)
            if len(pending) == RECORDS_PER_WRITE:
                flush()

        yield process_feature
        flush()


def pad_features(
    features: Sequence[InputFeatures], is_training: bool, max_seq_length: int
) -> dict[str, np.ndarray]:
    """Makes a batch: arrays [N, max_seq_length], and [N, 1] of one number."""
    batch = pad_rows(features, max_seq_length)
    numbers = {"unique_ids": [f.unique_id for f in features]}
    if is_training:
        numbers["start_positions"] = [f.start_position for f in features]
        numbers["end_positions"] = [f.end_position for f in features]
        numbers["is_impossible"] = [f.is_impossible for f in features]
    for name, values in numbers.items():
        batch[name] = np.array(values, np.int32)[:, None]
    return batch


def make_schema(
    max_seq_length: int, is_training: bool
) -> dict[str, tf.io.FixedLenFeature]:
    """What `tf.io.parse_example` must know of the records."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    number = tf.io.FixedLenFeature([], tf.int64)
    schema = {
        "unique_ids": number,
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
    }
    if is_training:
        for name in ("start_positions", "end_positions", "is_impossible"):
            schema[name] = number
    return schema
