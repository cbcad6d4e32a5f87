"""Metrics as [sum, count], which add up over replicas and batches."""

import tensorflow as tf


def mean(values, weights):
    """Sum and count of values, each as often as its weight says."""
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def is_right(logits, labels):
    """1.0 where the largest logit is the label's, else 0.0."""
    guesses = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    return tf.cast(guesses == labels, tf.float32)


def mean_length(batch):
    """Real tokens of an example; every task reports them as `tokens`."""
    lengths = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32), axis=1)
    return mean(lengths, tf.ones_like(lengths))
