"""Hand-written gradients against TensorFlow's own, and work without padding."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import heads, kernels, modeling
from keras_bert_ref.config import BertConfig

CONFIG = BertConfig(
    vocab_size=30,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=12,
)


def plain_gelu(x):
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1.0 + tf.tanh(inner))


def plain_gelu_erf(x):
    return 0.5 * x * (1.0 + tf.math.erf(x / math.sqrt(2.0)))


def value_and_gradients(function, *args):
    weights = tf.cos(tf.range(tf.size(args[0]), dtype=tf.float64))
    with tf.GradientTape() as tape:
        tape.watch(args)
        value = function(*args)
        total = tf.reduce_sum(value * tf.reshape(weights, value.shape))
    return value, tape.gradient(total, args)


def assert_all_close(actual, expected):
    for a, b in zip(
        tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    ("ours", "plain"),
    [(kernels.gelu, plain_gelu), (kernels.gelu_erf, plain_gelu_erf)],
)
def test_gelu(ours, plain):
    x = tf.linspace(tf.constant(-9.0, tf.float64), 9.0, 361)
    assert_all_close(
        value_and_gradients(ours, x), value_and_gradients(plain, x)
    )
    far = tf.constant([-1e4, 1e4])
    assert ours(far).numpy().tolist() == [0.0, 1e4]


def test_layer_norm():
    random = np.random.default_rng(0)
    x, gamma, beta = (
        tf.constant(random.normal(size=shape)) for shape in ((5, 7), 7, 7)
    )

    def plain(x, gamma, beta):
        mean = tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean((x - mean) ** 2, axis=-1, keepdims=True)
        return (x - mean) / tf.sqrt(variance + 1e-12) * gamma + beta

    def ours(x, gamma, beta):
        return kernels.layer_norm(x, gamma, beta, 1e-12)

    assert_all_close(
        value_and_gradients(ours, x, gamma, beta),
        value_and_gradients(plain, x, gamma, beta),
    )


def test_real_tokens_there_and_back():
    mask = tf.constant([[1, 1, 0, 0], [1, 0, 1, 1], [1, 0, 0, 0]])
    tokens = kernels.RealTokens(mask)
    x = tf.reshape(tf.range(24.0), (3, 4, 2))
    packed = tokens.pack(x)
    np.testing.assert_array_equal(packed, x.numpy()[mask.numpy() == 1])
    back = tokens.unpack(packed).numpy()
    np.testing.assert_array_equal(
        back[mask.numpy() == 1], x.numpy()[mask.numpy() == 1]
    )


def batch_with_padding():
    random = np.random.default_rng(1)
    lengths = np.array([12, 3, 7, 1])
    mask = (np.arange(12) < lengths[:, None]).astype("int32")
    ids = random.integers(1, 30, (4, 12)) * mask
    return {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.constant(mask),
        "segment_ids": tf.constant(random.integers(0, 2, (4, 12)), tf.int32),
    }


def test_without_padding_all_is_the_same():
    batch = batch_with_padding()
    results = []
    for skip_padding in (False, True):
        keras.utils.set_random_seed(0)
        model = heads.BertClassifier(
            CONFIG, num_labels=3, skip_padding=skip_padding
        )
        model.build()
        with tf.GradientTape() as tape:
            logits = model(batch)
            loss = tf.reduce_sum(tf.sin(logits))
        grads = tape.gradient(loss, model.trainable_variables)
        results.append([logits, *map(tf.convert_to_tensor, grads)])
    for full, skipping in zip(*results, strict=True):
        np.testing.assert_allclose(skipping, full, rtol=1e-4, atol=1e-6)


def test_padding_is_skipped():
    """The blocks see the 23 real tokens, not all 48."""
    batch = batch_with_padding()
    tokens = kernels.RealTokens(batch["input_mask"])
    bert = modeling.BertModel(CONFIG)
    bert.build()
    x = bert.embeddings(batch["input_ids"], batch["segment_ids"], tokens=tokens)
    layers, _ = bert.encoder(x, tokens=tokens)
    assert [layer.shape for layer in layers] == [(23, 16), (23, 16)]
