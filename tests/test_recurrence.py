"""Our LSTM equals Keras' own, and what it does not compute is padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from helpers import configs
from keras_bert_ref import recurrence
from keras_bert_ref.bilstm import BiLSTM

ROWS, TOKENS, SIZE, UNITS = 5, 9, 7, 6
RNG = np.random.default_rng(0)
# Numbers of 8 bits, which half precision keeps.
X = RNG.integers(-127, 128, (ROWS, TOKENS, SIZE)).astype(np.float32) / 64


def right_padded(*lengths) -> np.ndarray:
    return (np.arange(TOKENS) < np.array(lengths)[:, None]).astype(np.int32)


MASKS = {
    "no padding": right_padded(9, 9, 9, 9, 9),
    "lengths": right_padded(3, 9, 1, 9, 4),
    "longest row is short": right_padded(3, 5, 1, 2, 4),
    "a row of padding": right_padded(3, 5, 0, 2, 0),
    "nothing but padding": right_padded(0, 0, 0, 0, 0),
    "padding anywhere": RNG.integers(0, 2, (ROWS, TOKENS), np.int32),
}


def make(skip_padding: bool, **kwargs) -> BiLSTM:
    layer = BiLSTM(
        configs.tiny(),
        UNITS,
        input_size=SIZE,
        skip_padding=skip_padding,
        **kwargs,
    )
    layer.build()
    values = np.random.default_rng(1)
    for weight in layer.weights:
        weight.assign(values.normal(size=weight.shape) * 0.5)
    return layer


class Model(keras.layers.Layer):
    """Something that holds a BiLSTM."""

    def __init__(self, lstm: BiLSTM, **kwargs):
        super().__init__(**kwargs)
        self.lstm = lstm

    def call(self, x, mask):
        return self.lstm(x, mask)


def run(layer: keras.layers.Layer, mask: np.ndarray):
    """Outputs where the mask is 1, both ends, and all gradients."""
    x = tf.constant(X)
    towards = np.random.default_rng(2).normal(size=(ROWS, TOKENS, 2 * UNITS))
    towards = (towards * mask[..., None]).astype(np.float32)

    @tf.function
    def compute(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, ends = layer(x, mask)
            loss = tf.reduce_sum(y * towards)
        return y, ends, tape.gradient(loss, [x, *layer.trainable_variables])

    y, ends, gradients = compute(x, tf.constant(mask))
    return [y * mask[..., None], ends, *gradients]


@pytest.mark.parametrize("name", MASKS)
def test_equals_keras(name):
    mask = MASKS[name]
    ours, theirs = (run(make(skip), mask) for skip in (True, False))
    if not mask[:, 0].all():  # ends are those of rows that begin with a token
        ours[1] = theirs[1] = 0.0
    assert len(ours) == 9
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("skip_padding", [True, False])
def test_is_never_half_precision(policy, skip_padding):
    mask = MASKS["lengths"]
    in_half = Model(make(skip_padding, dtype=policy), dtype=policy)
    ours, theirs = run(in_half, mask), run(make(skip_padding=False), mask)
    del ours[2], theirs[2]  # the gradient of x, which the model rounds
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


def test_padding_is_not_computed():
    mask = MASKS["lengths"]
    forward, backward = recurrence.schedules(mask)
    np.testing.assert_array_equal(forward.counts, [5, 4, 4, 3] + [2] * 5)
    places = np.flatnonzero(mask.reshape(-1))
    for schedule in (forward, backward):
        assert sorted(schedule.positions.numpy()) == list(places)
    # Rows 1 and 3 are the longest; in the first step come their ends.
    np.testing.assert_array_equal(
        forward.positions[:5], [1 * 9, 3 * 9, 4 * 9, 0 * 9, 2 * 9]
    )
    np.testing.assert_array_equal(
        backward.positions[:5], [1 * 9 + 8, 3 * 9 + 8, 4 * 9 + 3, 2, 2 * 9]
    )
    x = np.where(mask[..., None], X, np.nan).astype(np.float32)
    y, ends = make(skip_padding=True)(x, mask)
    assert np.isfinite(y).all() and np.isfinite(ends).all()
