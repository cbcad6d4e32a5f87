"""What the layers of modeling.py are made of: Dense, Dropout, LayerNorm.

Each takes vectors with any axes before the last: [..., D]. BertLayer is the
class of layers that know their sizes from a BertConfig; Parent adds children
to them under the original's names. OutputProjection is what heads end with.
"""

import keras
import tensorflow as tf
from keras import ops

from keras_bert_ref import kernels, precision
from keras_bert_ref.config import BertConfig

LAYER_NORM_EPSILON = 1e-12
# Any number of sequences and tokens. Keras' `summary` shows the shapes of
# layers that were built with one.
ANY_BATCH = (None, None)

ACTIVATION_FUNCTIONS = {
    "gelu": kernels.gelu,
    "gelu_erf": kernels.gelu_erf,
    "relu": ops.relu,
    "tanh": ops.tanh,
    "linear": None,
}


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Initializer of all kernels and embeddings: cut off at two sigma."""
    return keras.initializers.TruncatedNormal(mean=0.0, stddev=stddev)


class Dense(keras.layers.Dense):
    """A dense layer on [..., D] that is one matmul for the whole batch.

    Keras 3.10 would multiply sequence by sequence, and make a gradient of the
    kernel for each of them before it sums these.
    """

    def __init__(self, units: int, activation=None, **kwargs):
        super().__init__(units, **kwargs)
        self.function = activation

    def call(self, inputs, training=None):
        rows = ops.reshape(inputs, (-1, inputs.shape[-1]))
        y = super().call(rows, training=training)
        if self.function is not None:
            function = self.function
            if not training:
                function = kernels.WITHIN_MATMUL.get(function, function)
            y = function(y)
        return ops.reshape(y, (*ops.shape(inputs)[:-1], self.units))


class Dropout(keras.layers.Dropout):
    """Dropout whose random numbers have 16 bits each instead of 32.

    They are what dropout spends most of its time on. The rate is within
    1 / 2^17 of what was asked for.
    """

    def call(self, inputs, training=False):
        if not training or not self.rate:
            return inputs
        return kernels.dropout(inputs, self.rate, self.seed_generator.next())


class Parent:
    """A layer or model that has a BertConfig, and adds children to itself:
    each is built at once, within the name of its parent and with its
    precision.

    Args:
        config: BertConfig.
    """

    def __init__(self, config: BertConfig, **kwargs):
        super().__init__(**kwargs)
        precision.protect(self.compute_dtype)
        self.config = config

    @property
    def output_shape(self):
        """What Keras' `summary` shows."""
        return (None, None, self.config.hidden_size)

    def add_child(self, layer_class, name, input_shape=ANY_BATCH, **kwargs):
        child = layer_class(
            self.config, dtype=self.dtype_policy, name=name, **kwargs
        )
        child.build(input_shape)
        return child

    def add_dense(self, name, input_size, units, activation=None):
        dense = Dense(
            units,
            activation=activation,
            kernel_initializer=truncated_normal(self.config.initializer_range),
            bias_initializer="zeros",
            dtype=self.dtype_policy,
            name=name,
        )
        dense.build((None, input_size))
        return dense

    def add_layer_norm(self):
        layer_norm = LayerNorm(
            self.config,
            dtype=self.variable_dtype,  # never half precision
            name="LayerNorm",
        )
        layer_norm.build()
        return layer_norm

    def add_dropout(self, rate, input_shape=None):
        dropout = Dropout(rate, dtype=self.dtype_policy)
        if input_shape is not None:
            dropout.build(input_shape)
        return dropout


class BertLayer(Parent, keras.layers.Layer):
    """A layer that takes its sizes from a BertConfig."""


class LayerNorm(BertLayer):
    """Normalizes each token's vector: float [..., D]."""

    def build(self, input_shape=None):
        shape = (self.config.hidden_size,)
        self.gamma = self.add_weight(
            name="gamma", shape=shape, initializer="ones"
        )
        self.beta = self.add_weight(
            name="beta", shape=shape, initializer="zeros"
        )

    def call(self, x):
        return kernels.layer_norm(x, self.gamma, self.beta, LAYER_NORM_EPSILON)


class OutputProjection(BertLayer):
    """Logits of a few labels: [..., D] -> [..., L].

    The original keeps these weights as [L, D], unlike its dense kernels.

    Args:
        num_labels: int. L.
        stddev: float. Of the initial weights.
    """

    def __init__(self, config, num_labels: int, stddev: float, **kwargs):
        super().__init__(config, **kwargs)
        self.num_labels = num_labels
        self.stddev = stddev

    @property
    def output_shape(self):
        return (*self.outer_shape, self.num_labels)

    def build(self, input_shape):
        *self.outer_shape, size = input_shape
        self.output_weights, self.output_bias = add_output_weights(
            self, self.num_labels, self.stddev, size
        )

    def call(self, x):
        return project(x, self.output_weights, self.output_bias)


def add_output_weights(layer, num_labels: int, stddev: float, size: int):
    """Adds weights [L, size] and bias [L], under the original's names."""
    weights = layer.add_weight(
        name="output_weights",
        shape=(num_labels, size),
        initializer=truncated_normal(stddev),
    )
    bias = layer.add_weight(
        name="output_bias", shape=(num_labels,), initializer="zeros"
    )
    return weights, bias


def project(x, weights, bias):
    """x [..., D] times weights [L, D] transposed, plus bias [L]."""
    rows = tf.reshape(x, (-1, x.shape[-1]))  # one large matmul, not B small
    logits = tf.matmul(rows, weights, transpose_b=True) + bias
    shape = tf.concat([tf.shape(x)[:-1], [weights.shape[0]]], axis=0)
    return tf.reshape(logits, shape)
