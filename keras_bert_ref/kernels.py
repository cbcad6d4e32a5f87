"""Functions that the encoder spends its time in, besides products.

What TensorFlow makes of their formulas, it computes one operation at a time,
each a pass over memory, and as many again for the gradients. Here the
gradients are written by hand, from as few arrays as need be kept.
"""

import math

import tensorflow as tf

# gelu(x) = x * sigmoid(x * (A + B * x^2)), since (1 + tanh(u)) / 2 is
# sigmoid(2u) and u = sqrt(2 / pi) * (x + 0.044715 * x^3).
GELU_A = 2.0 * math.sqrt(2.0 / math.pi)
GELU_B = GELU_A * 0.044715


@tf.custom_gradient
def gelu(x):
    """Gaussian error linear unit in its tanh form, the original's."""
    gate = tf.sigmoid(x * (GELU_A + GELU_B * (x * x)))

    def gradient(upstream):
        slope = x * (GELU_A + (3.0 * GELU_B) * (x * x))
        return upstream * gate * (1.0 + slope * (1.0 - gate))

    return x * gate, gradient


@tf.custom_gradient
def gelu_erf(x):
    """The exact Gaussian error linear unit; Hugging Face calls it gelu."""
    gate = 0.5 + 0.5 * tf.math.erf(x * math.sqrt(0.5))

    def gradient(upstream):
        density = math.sqrt(0.5 / math.pi) * tf.exp(-0.5 * (x * x))
        return upstream * (gate + x * density)

    return x * gate, gradient


def layer_norm(x, gamma, beta, epsilon: float):
    """Normalizes rows: x [M, D], gamma and beta [D] -> [M, D]."""

    @tf.custom_gradient
    def normalize(x, gamma, beta):
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        scale = tf.math.rsqrt(variance + epsilon)  # [M, 1]
        y = tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)

        def gradient(upstream):
            normal = (x - mean) * scale
            part = upstream * gamma
            along = tf.reduce_mean(part * normal, axis=-1, keepdims=True)
            middle = tf.reduce_mean(part, axis=-1, keepdims=True)
            return (
                scale * (part - middle - normal * along),
                tf.reduce_sum(upstream * normal, axis=0),
                tf.reduce_sum(upstream, axis=0),
            )

        return y, gradient

    return normalize(x, *map(tf.convert_to_tensor, (gamma, beta)))


class AllTokens:
    """Puts the tokens of a batch below each other: [B, T, D] <-> [B*T, D].

    Args:
        length: T.
    """

    def __init__(self, length):
        self.length = length

    def pack(self, x):
        return tf.reshape(x, (-1, x.shape[-1]))

    def unpack(self, x):
        return tf.reshape(x, (-1, self.length, x.shape[-1]))


class RealTokens:
    """The same without padding: [B, T, D] <-> [M, D], M real tokens.

    Padding comes back with whatever stands beside it: nothing may look at it,
    as attention does not.

    Args:
        input_mask: int [B, T]; 1 real, 0 padding. The first is real.
    """

    def __init__(self, input_mask):
        self.shape = tf.shape(input_mask)
        self.mask = tf.reshape(input_mask, (-1, 1))  # [B*T, 1]
        is_real = self.mask[:, 0] > 0
        self.places = tf.where(is_real)[:, 0]  # [M], of all B*T
        self.turns = tf.cumsum(tf.cast(is_real, tf.int32)) - 1  # [B*T], of M

    def pack(self, x):
        @tf.custom_gradient
        def pack(x):
            def gradient(upstream):
                rows = tf.gather(upstream, self.turns)
                return rows * tf.cast(self.mask, rows.dtype)

            return tf.gather(x, self.places), gradient

        return pack(tf.reshape(x, (-1, x.shape[-1])))

    def unpack(self, x):
        @tf.custom_gradient
        def unpack(x):
            return (
                tf.gather(x, self.turns),
                lambda upstream: tf.gather(upstream, self.places),
            )

        shape = tf.concat([self.shape, [x.shape[-1]]], axis=0)
        y = tf.reshape(unpack(x), shape)
        return tf.ensure_shape(y, (None, None, x.shape[-1]))
