"""Activations, dropout, normalization and a loss, made fast.

TensorFlow computes a formula one operation at a time, each a pass over
memory, and differentiates it the same way. The functions below keep fewer
arrays for the backward pass, which is written by hand, and make fewer passes.

`d_x` is the gradient of the loss with respect to x. Each backward pass takes
d_y and returns the gradients of the inputs.
"""

import math

import tensorflow as tf

# gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
#         = x * sigmoid(A x + B x^3), since (1 + tanh(u)) / 2 = sigmoid(2u).
GELU_A = 2.0 * math.sqrt(2.0 / math.pi)
GELU_B = GELU_A * 0.044715


def take_rows(table, ids):
    """Rows of a table [N, D] by ids [...], with a gradient of its shape.

    TensorFlow's own gradient is a list of rows, which the norm of gradients
    counts one by one (see optimization.clip_gradients).
    """

    @tf.custom_gradient
    def gather(table):
        def backward(d_y):
            rows = tf.reshape(d_y, (-1, table.shape[-1]))
            places = tf.reshape(ids, [-1])
            return tf.math.unsorted_segment_sum(rows, places, table.shape[0])

        return tf.gather(table, ids), backward

    return gather(tf.identity(table))


@tf.custom_gradient
def gelu(x):
    """Gaussian error linear unit in its tanh form, the original's.

    Forward, with u = A x + B x^3:
        gate = sigmoid(u)
        y = x * gate

    Backward, with du/dx = A + 3B x^2:
        d_x = d_y * gate * (1 + x * du/dx * (1 - gate))
    """
    gate = tf.sigmoid(x * (GELU_A + GELU_B * (x * x)))

    def backward(d_y):
        x_du_dx = x * (GELU_A + (3.0 * GELU_B) * (x * x))
        # Far from zero, gate is 0 or 1 and x^3 may overflow (in float16 from
        # 67 on): 0 * inf has to be 0, not NaN.
        slope = 1.0 + tf.math.multiply_no_nan(x_du_dx, 1.0 - gate)
        return tf.math.multiply_no_nan(slope, d_y * gate)

    return x * gate, backward


@tf.custom_gradient
def gelu_erf(x):
    """The exact Gaussian error linear unit; Hugging Face calls it gelu.

    Forward, with the standard normal distribution:
        cdf = (1 + erf(x / sqrt(2))) / 2
        y = x * cdf

    Backward:
        pdf = exp(-x^2 / 2) / sqrt(2 pi)
        d_x = d_y * (cdf + x * pdf)
    """
    cdf = 0.5 + 0.5 * tf.math.erf(x * math.sqrt(0.5))

    def backward(d_y):
        pdf = math.sqrt(0.5 / math.pi) * tf.exp(-0.5 * (x * x))
        return d_y * (cdf + x * pdf)

    return x * cdf, backward


def _within_matmul(function, formula):
    @tf.custom_gradient
    def compute(x):
        def backward(d_y):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tape.gradient(y, x, d_y)

        return formula(x), backward

    return compute


# The same functions in the form that TensorFlow recognises behind a matmul;
# oneDNN then computes both at once. In training it could not: the backward
# pass needs what lies between them.
WITHIN_MATMUL = {
    gelu: _within_matmul(gelu, lambda x: tf.nn.gelu(x, approximate=True)),
    gelu_erf: _within_matmul(gelu_erf, tf.nn.gelu),
}


def dropout(x, rate: float, seed):
    """Sets numbers to 0 at a rate, and scales the others up.

    Args:
        x: float [...].
        rate: float. The share to drop.
        seed: int [2]. The same seed draws the same numbers.
    """
    # Without 32-bit seeds, XLA does not compile the random numbers.
    seed = tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
    size = tf.size(x)
    pairs = tf.random.stateless_uniform(
        [(size + 1) // 2], seed, minval=None, maxval=None, dtype=tf.uint32
    )
    numbers = tf.reshape(tf.bitcast(pairs, tf.uint16), [-1])[:size]
    numbers = tf.reshape(numbers, tf.shape(x))
    is_kept = numbers >= tf.constant(round(rate * 2**16), tf.uint16)
    return tf.where(is_kept, x * (1.0 / (1.0 - rate)), tf.zeros([], x.dtype))


def layer_norm(x, gamma, beta, epsilon: float):
    """Normalizes the last axis: x [..., D], gamma and beta [D] -> [..., D].

    Forward, with mean and variance over the last axis:
        x_hat = (x - mean) / sqrt(variance + epsilon)
        y = gamma * x_hat + beta

    Backward, sums over all axes but the last:
        d_x_hat = d_y * gamma
        d_x = (d_x_hat - mean(d_x_hat) - x_hat * mean(d_x_hat * x_hat))
              / sqrt(variance + epsilon)
        d_gamma = sum(d_y * x_hat)
        d_beta = sum(d_y)
    """

    def mean(v):
        return tf.reduce_mean(v, axis=-1, keepdims=True)

    @tf.custom_gradient
    def normalize(x, gamma, beta):
        centered = x - mean(x)
        variance = mean(tf.square(centered))
        inverse_std = tf.math.rsqrt(variance + epsilon)  # [..., 1]
        x_hat = centered * inverse_std

        def backward(d_y):
            d_x_hat = d_y * gamma
            d_x = inverse_std * (
                d_x_hat - mean(d_x_hat) - x_hat * mean(d_x_hat * x_hat)
            )
            rows = list(range(x.shape.rank - 1))
            d_gamma = tf.reduce_sum(d_y * x_hat, axis=rows)
            d_beta = tf.reduce_sum(d_y, axis=rows)
            return d_x, d_gamma, d_beta

        return x_hat * gamma + beta, backward

    return normalize(x, *map(tf.convert_to_tensor, (gamma, beta)))


@tf.custom_gradient
def cross_entropy(logits, labels):
    """Cross-entropy over many classes: [N, V] and int [N] -> [N].

    TensorFlow's own operation takes more than twice the time.

    Forward, with sums over the last axis:
        exps = exp(logits - max(logits))
        y = log(sum(exps)) + max(logits) - logits[label]

    Backward:
        d_logits = d_y * exps / sum(exps), less d_y at the label
    """
    largest = tf.reduce_max(logits, axis=-1, keepdims=True)
    exps = tf.exp(logits - largest)
    total = tf.reduce_sum(exps, axis=-1, keepdims=True)
    scores = tf.gather(logits, labels, batch_dims=1)
    y = tf.squeeze(tf.math.log(total) + largest, axis=-1) - scores

    def backward(d_y):
        rows = tf.range(tf.shape(labels)[0], dtype=labels.dtype)
        places = tf.stack([rows, labels], axis=1)  # [N, 2]
        d_logits = exps * (tf.expand_dims(d_y, -1) / total)
        return tf.tensor_scatter_nd_sub(d_logits, places, d_y), None

    return y, backward
