"""A bidirectional LSTM between the encoder and a head.

The paper tries one on top of its left-to-right model (table 5), so that every
token sees those behind it too. Its size is not published; it starts from
random weights in fine-tuning.
"""

import keras
import tensorflow as tf

from keras_bert_ref import attention_mask
from keras_bert_ref.layers import BertLayer


class BiLSTM(BertLayer):
    """One layer in each direction, side by side.

    Args:
        units: int. U, of each direction.

    Call arguments:
        x: float [B, T, D].
        input_mask: int [B, T]; 1 real, 0 padding. None: no padding.

    Returns:
        float [B, T, 2U]; and float [B, 2U], what each direction ends with:
        the first half at the last real token, the second at the first.
    """

    def __init__(self, config, units: int, input_size: int, **kwargs):
        super().__init__(config, **kwargs)
        self.units = units
        self.input_size = input_size

    @property
    def output_shape(self):
        return (None, None, 2 * self.units)

    def build(self, input_shape=None):
        self.lstm = keras.layers.Bidirectional(
            keras.layers.LSTM(
                self.units,
                activation="tanh",
                recurrent_activation="sigmoid",
                kernel_initializer="glorot_uniform",
                recurrent_initializer="orthogonal",
                bias_initializer="zeros",
                unit_forget_bias=True,
                return_sequences=True,
                name="lstm",
            ),
            merge_mode="concat",
            dtype=self.variable_dtype,  # a long sum: never half precision
            name="both",
        )
        self.lstm.build((None, None, self.input_size))

    def call(self, x, input_mask=None, training=False):
        if input_mask is None:
            input_mask = tf.ones(tf.shape(x)[:2], tf.int32)
        y = self.lstm(
            tf.cast(x, self.variable_dtype),
            mask=tf.cast(input_mask, tf.bool),
            training=training,
        )
        y = tf.identity(y)  # without Keras' own mask, which heads do not know
        last = attention_mask.last_positions(input_mask)
        forward = tf.gather(y[..., : self.units], last, batch_dims=1)[:, 0]
        backward = y[:, 0, self.units :]
        return y, tf.concat([forward, backward], axis=-1)
