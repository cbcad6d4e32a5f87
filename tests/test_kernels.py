"""Hand-written gradients against TensorFlow's own."""

import math

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import kernels


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


def finite_numbers(dtype):
    """Every finite number of a type of 16 bits."""
    bits = np.arange(2**16, dtype=np.uint16)
    numbers = bits.view(tf.as_dtype(dtype).as_numpy_dtype)
    return numbers[np.isfinite(numbers.astype(np.float32))]


def value_and_slope(function, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = function(x)
    return value, tape.gradient(value, x)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float16", 0.01), ("bfloat16", 0.05)]
)
@pytest.mark.parametrize(
    ("ours", "plain"),
    [(kernels.gelu, plain_gelu), (kernels.gelu_erf, plain_gelu_erf)],
)
def test_gelu_in_half_precision(ours, plain, dtype, tolerance, jit_compile):
    x = tf.constant(finite_numbers(dtype))
    compiled = tf.function(
        lambda x: value_and_slope(ours, x), jit_compile=jit_compile
    )
    value, slope = (tf.cast(y, tf.float64) for y in compiled(x))
    x = tf.cast(x, tf.float64)
    # Farther out than 30, gelu(x) is x or 0 in every precision.
    _, expected = value_and_slope(plain, tf.clip_by_value(x, -30.0, 30.0))
    np.testing.assert_allclose(slope, expected, rtol=0, atol=tolerance)
    is_far = tf.abs(x) > 30.0
    np.testing.assert_array_equal(value[is_far], tf.nn.relu(x)[is_far])


@pytest.mark.parametrize("shape", [(5, 7), (2, 5, 7)])
def test_layer_norm(shape):
    random = np.random.default_rng(0)
    x, gamma, beta = (
        tf.constant(random.normal(size=size)) for size in (shape, 7, 7)
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
