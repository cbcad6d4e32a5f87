"""Dynamic loss scaling, for training in float16."""

import tensorflow as tf


class LossScale:
    """Keeps float16 gradients above zero: doubles while all is well.

    The loss is multiplied by `value` and the gradients divided by it; a step
    whose gradients overflow all the same is left out and halves the value.
    """

    def __init__(self, initial: float = 2.0**15, growth_steps: int = 2000):
        self.growth_steps = growth_steps
        options = {
            "trainable": False,
            "aggregation": tf.VariableAggregation.ONLY_FIRST_REPLICA,
        }
        self.value = tf.Variable(initial, dtype=tf.float32, **options)
        self.good_steps = tf.Variable(0, dtype=tf.int64, **options)

    def update(self, is_finite) -> None:
        good_steps = (self.good_steps + 1) * tf.cast(is_finite, tf.int64)
        is_due = good_steps >= self.growth_steps
        grown = tf.where(is_due, self.value * 2.0, self.value)
        self.value.assign(tf.where(is_finite, grown, self.value / 2.0))
        self.good_steps.assign(good_steps * tf.cast(~is_due, tf.int64))
