"""Hand-written gradients against TensorFlow's own."""

import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import kernels, layers


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


@pytest.mark.parametrize("function", [kernels.gelu, kernels.gelu_erf])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_gelu_within_a_matmul(function, dtype):
    """What inference computes: the same values and gradients, all finite."""
    within = kernels.WITHIN_MATMUL[function]
    x = tf.constant(finite_numbers("float16"))
    if dtype == "float64":
        x = tf.linspace(tf.constant(-9.0, tf.float64), 9.0, 361)
    value, slope = value_and_slope(within, x)
    expected, expected_slope = value_and_slope(function, x)
    atol = 1e-8 if dtype == "float64" else 0.01
    np.testing.assert_allclose(value, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(slope, expected_slope, rtol=0, atol=atol)


@pytest.mark.parametrize("training", [False, True])
def test_inference_takes_the_form_within_a_matmul(training):
    dense = layers.Dense(3, activation=kernels.gelu)
    run = tf.function(lambda x: dense(x, training=training))
    graph = run.get_concrete_function(tf.zeros((2, 4, 5))).graph
    kinds = {op.type for op in graph.get_operations()}
    assert ("Sigmoid" in kinds, "Tanh" in kinds) == (training, not training)


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


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_cross_entropy(scale):
    random = np.random.default_rng(0)
    logits = tf.constant(random.normal(size=(5, 7)) * scale)
    labels = tf.constant([0, 6, 3, 3, 1])

    def run(function):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            y = function(logits)
        return y, tape.gradient(y, logits, tf.cos(y))

    def plain(logits):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)

    assert_all_close(
        run(lambda x: kernels.cross_entropy(x, labels)), run(plain)
    )


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dropout(dtype, jit_compile):
    x = tf.ones((1001, 999), dtype)  # an odd number of numbers

    @tf.function(jit_compile=jit_compile)
    def run(seed):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = kernels.dropout(x, 0.1, seed)
        return y, tape.gradient(y, x)

    y, d_x = run(tf.constant([1, 2], tf.int64))
    assert y.dtype == dtype
    np.testing.assert_array_equal(d_x, y)
    y = tf.cast(y, tf.float32).numpy()
    assert set(np.unique(y)) == {0.0, tf.cast(1 / 0.9, dtype).numpy()}
    is_dropped = y == 0
    # Five standard deviations; far less than 8 bits a number would be off.
    assert is_dropped.mean() == pytest.approx(0.1, abs=0.0015)
    # Both halves of a draw, neighbours in rows and in columns: independent.
    for a, b in (
        (is_dropped[:, 0:998:2], is_dropped[:, 1:999:2]),
        (is_dropped[:, 1:998:2], is_dropped[:, 2:999:2]),
        (is_dropped[1:], is_dropped[:-1]),
    ):
        assert (a & b).mean() == pytest.approx(0.01, abs=0.001)
    again, _ = run(tf.constant([1, 2], tf.int64))
    np.testing.assert_array_equal(tf.cast(again, tf.float32), y)
    other, _ = run(tf.constant([1, 3], tf.int64))
    is_dropped_too = tf.cast(other, tf.float32).numpy() == 0
    assert (is_dropped & is_dropped_too).mean() == pytest.approx(
        0.01, abs=0.001
    )


@pytest.mark.parametrize("rate", [0.1, 0.15, 0.9, 1e-3])
def test_dropout_rate(rate):
    """Where a number is dropped is a matter of a threshold of 16 bits."""
    threshold = round(rate * 2**16)
    assert threshold / 2**16 == pytest.approx(rate, abs=1e-4)
    y = kernels.dropout(tf.ones(2**20), rate, tf.constant([0, 7])).numpy()
    assert (y == 0).mean() == pytest.approx(rate, abs=0.003)
    assert y.mean() == pytest.approx(1.0, abs=0.03)


def test_dropout_layer():
    keras.utils.set_random_seed(0)
    layer = layers.Dropout(0.5)
    x = tf.ones((8, 9))
    np.testing.assert_array_equal(layer(x), x)
    first, second = layer(x, training=True), layer(x, training=True)
    assert (first.numpy() != second.numpy()).any()
    assert layers.Dropout(0.0)(x, training=True) is x
