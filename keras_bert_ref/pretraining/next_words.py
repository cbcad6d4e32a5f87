"""Batches for models that read in one direction, from the same records.

Nothing is masked: the words that were are put back. Every token predicts the
one that follows in the direction of reading, as if that one were masked:

                          left to right    right to left
    input_ids             [CLS] a b .      [CLS] a b .
    masked_lm_positions   0     1 0 0      0     1 2 0
    masked_lm_ids         a     b 0 0      0     [CLS] a 0
    masked_lm_weights     1     1 0 0      0     1 1 0

where b ends the sequence and . is padding.
"""

import tensorflow as tf


def restore_words(batch: dict):
    """input_ids [B, T] without masks."""
    is_masked = batch["masked_lm_weights"] > 0  # [B, P]
    places = tf.stack(
        [
            tf.cast(tf.where(is_masked)[:, 0], tf.int32),
            batch["masked_lm_positions"][is_masked],
        ],
        axis=1,
    )
    return tf.tensor_scatter_nd_update(
        batch["input_ids"], places, batch["masked_lm_ids"][is_masked]
    )


def predict_next(batch: dict) -> dict:
    """A batch that has every token predict the one behind it."""
    return _predict(batch, offset=1)


def predict_previous(batch: dict) -> dict:
    """A batch that has every token predict the one before it."""
    return _predict(batch, offset=-1)


PREPARATIONS = {"ltr": predict_next, "rtl": predict_previous}


def _predict(batch: dict, offset: int) -> dict:
    ids, mask = restore_words(batch), batch["input_mask"]
    length = tf.shape(ids)[1]
    positions = tf.range(length)
    is_inside = (positions + offset >= 0) & (positions + offset < length)
    has_neighbour = (
        mask * tf.roll(mask, -offset, axis=1) * tf.cast(is_inside, mask.dtype)
    )
    if "sequence_ids" in batch:  # a neighbour in another sequence is none
        rows = batch["sequence_ids"]
        is_same = rows == tf.roll(rows, -offset, axis=1)
        has_neighbour *= tf.cast(is_same, mask.dtype)
    return {
        **batch,
        "input_ids": ids,
        "masked_lm_positions": positions * has_neighbour,
        "masked_lm_ids": tf.roll(ids, -offset, axis=1) * has_neighbour,
        "masked_lm_weights": tf.cast(has_neighbour, tf.float32),
    }
