"""Activations and layer normalization with gradients written by hand.

TensorFlow computes a formula one operation at a time, each a pass over
memory, and differentiates it the same way. The functions below keep fewer
arrays for the backward pass and make fewer passes over them.

`d_x` is the gradient of the loss with respect to x. Each backward pass takes
d_y and returns the gradients of the inputs.
"""

import math

import tensorflow as tf

# gelu(x) = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
#         = x * sigmoid(A x + B x^3), since (1 + tanh(u)) / 2 = sigmoid(2u).
GELU_A = 2.0 * math.sqrt(2.0 / math.pi)
GELU_B = GELU_A * 0.044715


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
        x_mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        inverse_std = tf.math.rsqrt(variance + epsilon)  # [..., 1]
        y = tf.nn.batch_normalization(x, x_mean, variance, beta, gamma, epsilon)

        def backward(d_y):
            x_hat = (x - x_mean) * inverse_std  # again, rather than kept
            d_x_hat = d_y * gamma
            d_x = inverse_std * (
                d_x_hat - mean(d_x_hat) - x_hat * mean(d_x_hat * x_hat)
            )
            rows = list(range(x.shape.rank - 1))
            d_gamma = tf.reduce_sum(d_y * x_hat, axis=rows)
            d_beta = tf.reduce_sum(d_y, axis=rows)
            return d_x, d_gamma, d_beta

        return y, backward

    return normalize(x, *map(tf.convert_to_tensor, (gamma, beta)))
