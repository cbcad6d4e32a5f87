"""An LSTM over rows of different lengths, without work on padding.

Shapes: B rows, T tokens, M real tokens, n rows of a step, D input size, U
units.

A step computes the next token of all rows at once. Rows are sorted by length,
so that those which have not ended are always the first n, and tokens are
packed step by step. Three rows, with `.` for padding:

    a b .            step 0: d a f
    d e g    ->      step 1: e b        packed: d a f e b g
    f . .            step 2: g

The backward pass is written by hand. Autodiff would have two matmuls in each
of its steps, the second for the gradient of the recurrent kernel; here that
is one matmul for all tokens in the end.
"""

import dataclasses

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Which token is computed in which step.

    Args:
        positions: int [M]. Where each packed token stands among all B*T.
        counts: int [steps]. n of each step.
        shape: int [2]. B and T.
    """

    positions: tf.Tensor
    counts: tf.Tensor
    shape: tf.Tensor

    def pack(self, x):
        """[B, T, D] -> [M, D]."""
        return tf.gather(tf.reshape(x, (-1, x.shape[-1])), self.positions)

    def unpack(self, y):
        """[M, U] -> [B, T, U], with 0 at padding."""
        units = y.shape[-1]
        rows = tf.scatter_nd(
            self.positions[:, None], y, [tf.reduce_prod(self.shape), units]
        )
        return tf.reshape(rows, tf.concat([self.shape, [units]], axis=0))

    def empty(self, size: int, dtype) -> tf.TensorArray:
        """Room for [n, size] of each step."""
        return tf.TensorArray(
            dtype,
            size=tf.shape(self.counts)[0],
            element_shape=(None, size),
            infer_shape=False,
            clear_after_read=False,
        )

    def split(self, x) -> tf.TensorArray:
        """[M, D] -> [n, D] of each step."""
        return self.empty(x.shape[-1], x.dtype).split(x, self.counts)


def schedules(input_mask) -> tuple[Schedule, Schedule]:
    """How an LSTM reads rows from their first token to the last, and back.

    Args:
        input_mask: int [B, T]; 1 real, 0 padding, which may stand anywhere.
    """
    mask = tf.cast(input_mask, tf.int32)
    shape = tf.shape(mask)
    lengths = tf.reduce_sum(mask, axis=1)  # [B]
    steps = tf.range(tf.maximum(tf.reduce_max(lengths), 1))
    is_left = lengths[:, None] > steps  # [B, steps]
    counts = tf.reduce_sum(tf.cast(is_left, tf.int32), axis=0)
    starts = tf.cumsum(counts, exclusive=True)
    order = tf.argsort(lengths, direction="DESCENDING", stable=True)
    ranks = tf.math.invert_permutation(order)  # [B]

    real = tf.cast(tf.where(mask > 0), tf.int32)  # [M, 2]
    rows = real[:, 0]
    positions = rows * shape[1] + real[:, 1]
    before = tf.gather_nd(tf.cumsum(mask, axis=1, exclusive=True), real)
    behind = tf.gather(lengths, rows) - 1 - before

    def make(steps) -> Schedule:
        places = tf.gather(starts, steps) + tf.gather(ranks, rows)
        packed = tf.scatter_nd(places[:, None], positions, tf.shape(positions))
        return Schedule(packed, counts, shape)

    return make(before), make(behind)


def lstm(z, recurrent_kernel, schedule: Schedule):
    """Runs over packed tokens.

    Forward, with h and c of the same row in the step before, at first 0:
        z_i, z_f, z_g, z_o = z + h_before @ recurrent_kernel
        i, f, g, o = sigmoid(z_i), sigmoid(z_f), tanh(z_g), sigmoid(z_o)
        c = f * c_before + i * g
        h = o * tanh(c)

    Args:
        z: float [M, 4U]. What the gates take from the input.
        recurrent_kernel: float [U, 4U].

    Returns:
        h, float [M, U].
    """

    @tf.custom_gradient
    def run(z, kernel):
        h, *kept = _forward(z, kernel, schedule)

        def backward(d_h):
            return _backward(d_h, kernel, schedule, *kept)

        return h, backward

    return run(z, tf.convert_to_tensor(recurrent_kernel))


def _forward(z, kernel, schedule: Schedule) -> list[tf.Tensor]:
    """All h, [M, U], and what the backward pass needs: of each token h_before,
    c_before, tanh(c), [M, U], and the gates, [M, 4U]."""
    units = kernel.shape[0]
    inputs = schedule.split(z)

    def step(t, states, results):
        h_before, c_before = (x[: schedule.counts[t]] for x in states)
        z = inputs.read(t) + tf.matmul(h_before, kernel)
        z_i_f, z_g, z_o = tf.split(z, [2 * units, units, units], axis=1)
        i_f, g, o = tf.sigmoid(z_i_f), tf.tanh(z_g), tf.sigmoid(z_o)
        i, f = tf.split(i_f, 2, axis=1)
        c = f * c_before + i * g
        tanh_c = tf.tanh(c)
        h = o * tanh_c
        gates = tf.concat([i_f, g, o], axis=1)
        kept = (h, h_before, c_before, tanh_c, gates)
        results = tuple(map(tf.TensorArray.write, results, [t] * 5, kept))
        return t + 1, (h, c), results

    sizes = (units, units, units, units, 4 * units)
    zeros = tf.zeros((schedule.counts[0], units), z.dtype)
    *_, results = tf.while_loop(
        lambda t, *_: t < tf.shape(schedule.counts)[0],
        step,
        (0, (zeros, zeros), tuple(schedule.empty(x, z.dtype) for x in sizes)),
        shape_invariants=_shapes(units, len(sizes)),
    )
    return [array.concat() for array in results]


def _backward(
    d_h, kernel, schedule: Schedule, h_before, c_before, tanh_c, gates
):
    """The gradients of z and of the recurrent kernel.

    From the last step to the first, with d_h and d_c from the step behind:
        d_c += d_h * o * (1 - tanh(c)^2)
        d_z_i = d_c * g * i * (1 - i)
        d_z_f = d_c * c_before * f * (1 - f)
        d_z_g = d_c * i * (1 - g^2)
        d_z_o = d_h * tanh(c) * o * (1 - o)
        d_h_before = d_z @ recurrent_kernel^T
        d_c_before = d_c * f
    """
    units = kernel.shape[0]
    arrays = [schedule.split(x) for x in (d_h, c_before, tanh_c, gates)]

    def step(t, behind, results):
        d_h, c_before, tanh_c, gates = (x.read(t) for x in arrays)
        i, f, g, o = tf.split(gates, 4, axis=1)
        # Nothing comes from behind to rows that end in this step.
        ending = schedule.counts[t] - tf.shape(behind[0])[0]
        d_h_behind, d_c = (tf.pad(x, [[0, ending], [0, 0]]) for x in behind)
        d_h += d_h_behind
        d_c += d_h * o * (1.0 - tanh_c * tanh_c)
        d_z = tf.concat(
            [
                d_c * g * i * (1.0 - i),
                d_c * c_before * f * (1.0 - f),
                d_c * i * (1.0 - g * g),
                d_h * tanh_c * o * (1.0 - o),
            ],
            axis=1,
        )
        d_h_before = tf.matmul(d_z, kernel, transpose_b=True)
        return t - 1, (d_h_before, d_c * f), (results[0].write(t, d_z),)

    zeros = tf.zeros((0, units), d_h.dtype)
    *_, (d_z,) = tf.while_loop(
        lambda t, *_: t >= 0,
        step,
        (
            tf.shape(schedule.counts)[0] - 1,
            (zeros, zeros),
            (schedule.empty(4 * units, d_h.dtype),),
        ),
        shape_invariants=_shapes(units, 1),
    )
    d_z = d_z.concat()
    return d_z, tf.matmul(h_before, d_z, transpose_a=True)


def _shapes(units: int, num_arrays: int) -> tuple:
    """Of a step's number, of two states whose n changes, of results."""
    state = tf.TensorShape((None, units))
    one = tf.TensorShape(())
    return one, (state, state), (one,) * num_arrays
