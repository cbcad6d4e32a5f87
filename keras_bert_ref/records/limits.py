"""What a record must have, what its numbers may be, which one has others.

Features are looked for in the first record of a file. Numbers are checked in
every batch; which record it was is only looked for where one does not pass.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from keras_bert_ref.records.files import open_file

MESSAGE = "A record has a value that is out of range"


def find_limits(
    schema: Mapping[str, tf.io.FixedLenFeature],
    vocab_size: int,
    type_vocab_size: int,
    num_labels: int | None,
) -> dict[str, int]:
    """For each feature of whole numbers, what they must be smaller than."""
    length = schema["input_ids"].shape[-1]
    limits = {
        "input_ids": vocab_size,
        "input_mask": 2,
        "segment_ids": type_vocab_size,
        "masked_lm_ids": vocab_size,
        "masked_lm_positions": length,
        "next_sentence_labels": 2,
        "label_ids": num_labels,
        "tag_ids": num_labels,
        "tag_mask": 2,
        "start_positions": length,
        "end_positions": length,
        "is_impossible": 2,
    }
    return {
        name: limits[name]
        for name, feature in schema.items()
        if limits.get(name) is not None and feature.dtype == tf.int64
    }


def check_first_record(path: str, schema: Mapping) -> None:
    """Raises unless the first record of a file has what the schema asks."""
    serialized = next(iter(open_file(tf.constant(path)).take(1)))
    features = tf.train.Example.FromString(serialized.numpy()).features.feature
    for name, feature in schema.items():
        if name not in features:
            raise ValueError(
                f"The records of {path} have no feature {name}; they have "
                f"{', '.join(sorted(features))}. Were they made for another "
                "task?"
            )
        kind = features[name].WhichOneof("kind")
        found = len(getattr(features[name], kind).value)
        wanted = math.prod(feature.shape)  # 1 for a scalar, whose shape is []
        if found != wanted:
            raise ValueError(
                f"{name} has {found} values in {path}, but the flags ask for "
                f"{wanted}; set --max_seq_length and "
                "--max_predictions_per_seq to what the records were made with."
            )


def check(batch: Mapping[str, tf.Tensor], limits: Mapping[str, int]):
    """An operation that fails if a number is out of range."""
    fits = [
        # Read as unsigned, negative numbers are the largest of all.
        tf.reduce_max(tf.bitcast(batch[name], tf.uint64))
        < tf.constant(limit, tf.uint64)
        for name, limit in limits.items()
    ]
    fits += [
        tf.reduce_all(tf.math.is_finite(values))
        for values in batch.values()
        if values.dtype.is_floating
    ]
    return tf.debugging.Assert(tf.reduce_all(fits), [MESSAGE])


def find_misfit(paths: Sequence[str], limits: Mapping[str, int]) -> str:
    """Says which record of which file has what."""
    for path in paths:
        for count, record in enumerate(open_file(tf.constant(path))):
            example = tf.train.Example.FromString(record.numpy())
            for name, feature in example.features.feature.items():
                where = f"record {count} of {path} has {name}="
                if name in limits:
                    for value in feature.int64_list.value:
                        if not 0 <= value < limits[name]:
                            return (
                                f"{where}{value}, where the model and the "
                                f"flags allow 0 to {limits[name] - 1}"
                            )
                for value in feature.float_list.value:
                    if not np.isfinite(value):
                        return f"{where}{value}, which is not finite"
    return f"{MESSAGE} in {', '.join(paths)}"
