"""The objectives of classes and of scores (section 3.2)."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.objective import (
    Objective,
    count_examples,
    is_right,
    sum_and_count,
    token_count,
)


def classifier_loss(logits, batch, totals):
    return losses.classifier_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def classifier_metrics(logits, batch) -> dict:
    """The share of right predictions."""
    labels = batch["label_ids"]
    ones = tf.ones_like(labels, tf.float32)
    return {
        "accuracy": sum_and_count(is_right(logits, labels), ones),
        "tokens": token_count(batch),
    }


def regression_loss(logits, batch, totals):
    return losses.regression_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def regression_metrics(logits, batch) -> dict:
    """The mean distance of predicted and true scores."""
    predicted = tf.cast(tf.squeeze(logits, axis=-1), tf.float32)
    errors = tf.abs(predicted - batch["label_ids"])
    return {
        "absolute_error": sum_and_count(errors, tf.ones_like(errors)),
        "tokens": token_count(batch),
    }


CLASSIFICATION = Objective(
    count_examples, classifier_loss, classifier_metrics, ("accuracy",)
)
REGRESSION = Objective(
    count_examples, regression_loss, regression_metrics, ("absolute_error",)
)
