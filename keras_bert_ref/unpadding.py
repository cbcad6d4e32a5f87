"""Leaving padding out of the encoder.

Shapes: B batch, T tokens, D hidden, M tokens that are kept, R rows to read.

All of the encoder but attention treats each token by itself, so it need not
see padding. `pack` puts the tokens that are kept below each other; attention,
which needs whole rows, has them back from `unpack`. A batch of 2 rows of 4
tokens, with `.` for padding:

        x [2, 4, D]      input_mask [2, 4]
        a  b  .  .       1 1 0 0
        c  d  e  .       1 1 1 0

    pack                 unpack
        [5, D]               [2, 4, D]
        a  b  c  d  e        a  b  b  b
                             c  d  e  e

What comes back at padding is the kept token before it: a placeholder that
nothing may read. Attention does not, since padding is masked as a key.
"""

import tensorflow as tf


class AllTokens:
    """Leaves nothing out: a batch stays as it is, [B, T, D]."""

    def pack(self, x):
        return x

    def unpack(self, x):
        return x

    def read(self, x, positions):
        """[B, T, D] at positions [B, R] -> [B, R, D]."""
        return tf.gather(x, positions, batch_dims=1)


# What layers take unless told otherwise.
ALL_TOKENS = AllTokens()


class RealTokens:
    """Leaves padding out: [B, T, D] <-> [M, D].

    Two kinds of padding are kept, since their outputs are read: the first
    token of a row, by the pooler, and all tokens of a row without a real one,
    by its attention, which then falls on all of them.

    Args:
        input_mask: int [B, T]; 1 real, 0 padding.
    """

    def __init__(self, input_mask):
        is_real = tf.cast(input_mask, tf.bool)  # [B, T]
        is_empty = ~tf.reduce_any(is_real, axis=1, keepdims=True)  # [B, 1]
        is_first = tf.range(tf.shape(is_real)[1]) == 0  # [T]
        is_kept = is_real | is_empty | is_first
        self.shape = tf.shape(is_kept)
        self.is_kept = tf.reshape(is_kept, (-1, 1))  # [B*T, 1]
        # Where each of the M kept tokens stands among all B*T, and which of
        # the M stands at each of the B*T, or before it if that is padding.
        self.positions = tf.where(self.is_kept[:, 0])[:, 0]  # [M]
        counts = tf.cumsum(tf.cast(self.is_kept[:, 0], tf.int32))
        self.sources = counts - 1  # [B*T]

    def pack(self, x):
        """[B, T, D] -> [M, D]. Padding has the gradient 0."""

        @tf.custom_gradient
        def gather(x):
            def backward(d_y):
                d_x = tf.gather(d_y, self.sources)
                return d_x * tf.cast(self.is_kept, d_x.dtype)

            return tf.gather(x, self.positions), backward

        return gather(tf.reshape(x, (-1, x.shape[-1])))

    def unpack(self, x):
        """[M, D] -> [B, T, D]. Nothing flows back from padding."""

        @tf.custom_gradient
        def gather(x):
            def backward(d_y):
                return tf.gather(d_y, self.positions)

            return tf.gather(x, self.sources), backward

        shape = tf.concat([self.shape, [x.shape[-1]]], axis=0)
        y = tf.reshape(gather(x), shape)
        return tf.ensure_shape(y, (None, None, x.shape[-1]))

    def read(self, x, positions):
        """[M, D] at positions [B, R] -> [B, R, D].

        A position that stands twice gets the gradients of both. Positions
        are those of kept tokens.
        """
        sources = tf.gather(
            tf.reshape(self.sources, self.shape), positions, batch_dims=1
        )  # [B, R]

        @tf.custom_gradient
        def gather(x):
            def backward(d_y):
                return tf.math.unsorted_segment_sum(
                    d_y, sources, num_segments=tf.shape(x)[0]
                )

            return tf.gather(x, sources), backward

        return gather(x)
