"""The encoder without padding computes what it computes with padding."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import heads, modeling, unpadding
from keras_bert_ref.config import BertConfig

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=12,
)


def test_the_drawn_example():
    """The one in the docstring of the module."""
    tokens = unpadding.RealTokens(tf.constant([[1, 1, 0, 0], [1, 1, 1, 0]]))
    x = tf.strings.bytes_split(["ab..", "cde."]).to_tensor()[..., None]
    packed = tokens.pack(x)
    assert b"".join(packed.numpy().ravel()) == b"abcde"
    rows = tokens.unpack(packed).numpy()[..., 0]
    assert [b"".join(row) for row in rows] == [b"abbb", b"cdee"]


def test_real_tokens_there_and_back():
    mask = tf.constant([[1, 1, 0, 0], [1, 0, 1, 1], [1, 0, 0, 0]])
    tokens = unpadding.RealTokens(mask)
    x = tf.reshape(tf.range(24.0), (3, 4, 2))
    packed = tokens.pack(x)
    np.testing.assert_array_equal(packed, x.numpy()[mask.numpy() == 1])
    back = tokens.unpack(packed).numpy()
    np.testing.assert_array_equal(
        back[mask.numpy() == 1], x.numpy()[mask.numpy() == 1]
    )


def batch_with(mask):
    random = np.random.default_rng(1)
    ids = random.integers(1, 30, mask.shape) * mask
    segments = random.integers(0, 2, mask.shape)
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask, tf.int32),
        "segment_ids": tf.constant(segments, tf.int32),
    }


def mask_of(*lengths):
    return np.arange(12) < np.array(lengths)[:, None]


def logits_and_gradients(skip_padding, batch, rows):
    """Of a loss that reads the logits of these rows."""
    keras.utils.set_random_seed(0)
    model = heads.BertClassifier(
        CONFIG, num_labels=3, skip_padding=skip_padding
    )
    model.build()

    @tf.function
    def run():
        with tf.GradientTape() as tape:
            logits = model(batch)
            loss = tf.reduce_sum(tf.sin(logits[rows]))
        grads = tape.gradient(loss, model.trainable_variables)
        return logits, [tf.convert_to_tensor(grad) for grad in grads]

    return run()


@pytest.mark.parametrize(
    "mask",
    [
        mask_of(12, 3, 7, 1),
        mask_of(0, 3, 7, 1),
        mask_of(0, 0, 7, 0),
        mask_of(12, 0, 5, 0),
        ~mask_of(5, 0, 11, 2),
    ],
    ids=["usual", "first empty", "two empty", "last empty", "padding first"],
)
def test_without_padding_all_is_the_same(mask):
    batch = batch_with(mask)
    rows = mask.any(axis=1)
    logits, grads = logits_and_gradients(False, batch, rows)
    our_logits, our_grads = logits_and_gradients(True, batch, rows)
    np.testing.assert_allclose(
        our_logits[rows], logits[rows], rtol=1e-4, atol=1e-6
    )
    for ours, full in zip(our_grads, grads, strict=True):
        np.testing.assert_allclose(ours, full, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lengths", [(0, 3, 7), (0, 0, 0)])
def test_rows_of_padding_alone_are_the_same(lengths):
    """But for rounding: their scores all have MASK_BIAS, -10000, added."""
    batch = batch_with(mask_of(*lengths))
    logits, grads = logits_and_gradients(False, batch, slice(None))
    our_logits, our_grads = logits_and_gradients(True, batch, slice(None))
    np.testing.assert_allclose(our_logits, logits, atol=1e-3)
    for ours, full in zip(our_grads, grads, strict=True):
        np.testing.assert_allclose(ours, full, atol=1e-2)


def test_padding_is_skipped():
    """The blocks see the 23 real tokens, not all 48."""
    batch = batch_with(mask_of(12, 3, 7, 1))
    tokens = unpadding.RealTokens(batch["input_mask"])
    bert = modeling.BertModel(CONFIG)
    bert.build()
    x = bert.embeddings(batch["input_ids"], batch["segment_ids"], tokens=tokens)
    layers, _ = bert.encoder(x, tokens=tokens)
    assert [layer.shape for layer in layers] == [(23, 16), (23, 16)]


@pytest.mark.parametrize("dtype", ["int32", "float32", "bool"])
def test_masks_of_any_type(dtype):
    mask = mask_of(2, 0).astype(dtype)
    x = tf.random.normal((2, 12, 4), seed=0)
    packed = unpadding.RealTokens(mask).pack(x)
    np.testing.assert_array_equal(packed, tf.concat([x[0, :2], x[1]], axis=0))
