"""What is trained: the objective of a task, and its metrics.

Metrics are [sum, count], which add up over replicas and batches.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from keras_bert_ref import losses


class Objective(NamedTuple):
    """What a training step has to know of its task.

    Attributes:
        count: batch -> what the losses divide by, as a dictionary of sums.
        loss: outputs, batch, counts of the whole batch -> this part's loss.
        metrics: outputs, batch -> {name: [sum, count]}, as float [2].
        curves: names of the metrics to draw, beside the loss.
    """

    count: Callable
    loss: Callable
    metrics: Callable
    curves: tuple[str, ...] = ()


def count_examples(batch) -> dict:
    """The denominator of losses that are a mean over examples."""
    examples = tf.shape(batch["input_ids"])[0]
    return {"examples": tf.cast(examples, tf.float32)}


def sum_and_count(values, weights):
    """Sum and count of values, each counted as often as its weight says."""
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


def is_right(logits, labels):
    """1.0 where the largest logit is the label's, else 0.0."""
    predictions = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    return tf.cast(predictions == labels, tf.float32)


def token_count(batch):
    """Real tokens of an example; every task reports them as `tokens`."""
    mask = tf.cast(batch["input_mask"], tf.float32)
    lengths = tf.reduce_sum(mask, axis=list(range(1, len(mask.shape))))
    return sum_and_count(lengths, tf.ones_like(lengths))


def classification_loss(logits, batch, totals):
    return losses.classifier_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def classification_metrics(logits, batch) -> dict:
    """The share of right predictions."""
    labels = batch["label_ids"]
    ones = tf.ones_like(labels, tf.float32)
    return {
        "accuracy": sum_and_count(is_right(logits, labels), ones),
        "tokens": token_count(batch),
    }


# One of several: the class of a text (section 3.2), or the right one of the
# choices that a question has (section 4.4).
CLASSIFICATION = Objective(
    count_examples, classification_loss, classification_metrics, ("accuracy",)
)
