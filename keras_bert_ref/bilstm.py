"""A bidirectional LSTM between the encoder and a head.

The paper tries one on top of its left-to-right model (table 5), so that every
token sees those behind it too. Its size is not published; it starts from
random weights in fine-tuning. recurrence.py has the LSTM that skips padding.
"""

import keras
import tensorflow as tf

from keras_bert_ref import attention_mask, recurrence
from keras_bert_ref.layers import BertLayer


class BiLSTM(BertLayer):
    """One layer in each direction, side by side.

    Keras' LSTM, unless padding is skipped: it runs on all devices and
    compiles, but works on padding.

    Args:
        units: int. U, of each direction.
        input_size: int. D.
        skip_padding: bool. Spend no work on padding; shapes then depend on
            the batch.

    Call arguments:
        x: float [B, T, D].
        input_mask: int [B, T]; 1 real, 0 padding. None: no padding.

    Returns:
        float [B, T, 2U], of no use at padding; and float [B, 2U], what each
        direction ends with: the first half at the last real token, the second
        at the first.
    """

    def __init__(
        self,
        config,
        units: int,
        input_size: int,
        skip_padding: bool = False,
        dtype=None,
        **kwargs,
    ):
        policy = keras.dtype_policies.get(dtype)
        # A long sum: never half precision.
        super().__init__(config, dtype=policy.variable_dtype, **kwargs)
        self.units = units
        self.input_size = input_size
        self.skip_padding = skip_padding

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
            dtype=self.dtype_policy,
            name="both",
        )
        self.lstm.build((None, None, self.input_size))

    def call(self, x, input_mask=None, training=False):
        if input_mask is None:
            input_mask = tf.ones(tf.shape(x)[:2], tf.int32)
        if self.skip_padding:
            y = self._run_packed(x, input_mask)
        else:
            mask = tf.cast(input_mask, tf.bool)
            y = self.lstm(x, mask=mask, training=training)
            y = tf.identity(y)  # without Keras' mask, which heads do not know
        last = attention_mask.last_positions(input_mask)
        forward = tf.gather(y[..., : self.units], last, batch_dims=1)[:, 0]
        backward = y[:, 0, self.units :]
        return y, tf.concat([forward, backward], axis=-1)

    def _run_packed(self, x, input_mask):
        """The same as Keras' layer, without work on padding. What the gates
        take from x is one matmul for all tokens; only what they take from the
        token before has to wait for it."""
        directions = zip(
            (self.lstm.forward_layer.cell, self.lstm.backward_layer.cell),
            recurrence.schedules(input_mask),
            strict=True,
        )
        outputs = []
        for cell, schedule in directions:
            z = tf.matmul(schedule.pack(x), cell.kernel) + cell.bias
            h = recurrence.lstm(z, cell.recurrent_kernel, schedule)
            outputs.append(schedule.unpack(h))
        return tf.concat(outputs, axis=-1)
