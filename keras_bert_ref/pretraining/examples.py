"""Pre-training examples, as they are read back from records."""

from collections.abc import Mapping

import tensorflow as tf


def make_schema(
    max_seq_length: int, max_predictions_per_seq: int
) -> dict[str, tf.io.FixedLenFeature]:
    """What `tf.io.parse_example` must know of the records."""
    sequence = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    weights = tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32)
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": weights,
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }


def describe(record: bytes, inv_vocab: Mapping[int, str]) -> str:
    """Shows a pre-training example, each label behind the token it masks."""
    features = tf.train.Example.FromString(record).features.feature
    names = "input_ids", "masked_lm_positions", "masked_lm_ids"
    ids, positions, labels = (features[name].int64_list.value for name in names)
    length = sum(features["input_mask"].int64_list.value)
    tokens = [inv_vocab[index] for index in ids[:length]]
    weights = features["masked_lm_weights"].float_list.value
    for position, label, weight in zip(positions, labels, weights, strict=True):
        if weight:
            tokens[position] += f"({inv_vocab[label]})"
    is_random = features["next_sentence_labels"].int64_list.value[0]
    return f"{' '.join(tokens)} [random next: {'yes' if is_random else 'no'}]"
