"""Which tokens a token attends to, and which one has seen all others.

Shapes: B batch, T tokens, R tokens whose final vectors are read.
"""

import functools

from keras import ops

from keras_bert_ref.config import BertConfig


def hidden_keys(
    config: BertConfig,
    input_ids,
    input_mask=None,
    sequence_ids=None,
    dtype="float32",
):
    """Where a query does not see a key.

    Args:
        config: BertConfig. Its direction hides the tokens ahead.
        input_ids: int [B, T].
        input_mask: int [B, T]; 0 hides padding. None: no padding.
        sequence_ids: int [B, T]; hides what has another number. None: one
            sequence a row.

    Returns:
        1 where hidden, 0 elsewhere, of the given dtype: [B, 1, 1, T], or
        [B, 1, T, T] where queries see different keys, or [1, 1, T, T] where
        rows do not differ. None: every query sees every key.
    """
    hidden = []
    if input_mask is not None:
        padding = 1.0 - ops.cast(input_mask, dtype)
        hidden.append(ops.expand_dims(ops.expand_dims(padding, 1), 1))
    if sequence_ids is not None:
        queries = ops.expand_dims(ops.expand_dims(sequence_ids, 1), -1)
        keys = ops.expand_dims(ops.expand_dims(sequence_ids, 1), 1)
        hidden.append(ops.cast(queries != keys, dtype))
    if config.direction != "bidi":
        places = ops.arange(ops.shape(input_ids)[1])
        keys, queries = places[None, :], ops.expand_dims(places, -1)
        if config.direction == "ltr":
            is_ahead = keys > queries
        else:
            is_ahead = keys < queries
        is_ahead = ops.cast(is_ahead, dtype)  # [T, T]
        hidden.append(ops.expand_dims(ops.expand_dims(is_ahead, 0), 0))
    return functools.reduce(ops.maximum, hidden) if hidden else None


def read_mask_bias(mask_bias, positions):
    """The bias of the queries at positions [B, R]: [B, 1, R, T], or [B, 1, 1,
    T] if it is the same for all queries."""
    if mask_bias is None or mask_bias.shape[2] == 1:
        return mask_bias
    rows = ops.expand_dims(ops.expand_dims(positions, 1), -1)  # [B, 1, R, 1]
    return ops.take_along_axis(mask_bias, rows, axis=2)


def pooled_positions(config: BertConfig, input_ids, input_mask=None):
    """Where the token stands that is pooled: int [B, 1].

    It is [CLS], unless the model reads from left to right: then [CLS] has
    seen nothing but itself, and the last token all others.
    """
    if config.direction != "ltr":
        return ops.zeros_like(input_ids[:, :1], dtype="int32")
    if input_mask is None:
        input_mask = ops.ones_like(input_ids)
    return last_positions(input_mask)


def last_positions(input_mask):
    """Where the last real token stands: int [B, 1]."""
    mask = ops.cast(input_mask, "int32")
    places = mask * ops.arange(ops.shape(mask)[1], dtype="int32")
    return ops.max(places, axis=1, keepdims=True)
