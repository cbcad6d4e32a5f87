"""The tasks of fine-tuning: classes, scores, spans (section 3.2)."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.loop import Task
from keras_bert_ref.training.sums import is_right, mean, mean_length


def count(batch) -> dict:
    """What the losses divide by."""
    examples = tf.shape(batch["input_ids"])[0]
    return {"examples": tf.cast(examples, tf.float32)}


def classifier_loss(logits, batch, totals):
    return losses.classifier_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def classifier_metrics(logits, batch) -> dict:
    """The share of right guesses."""
    labels = batch["label_ids"]
    ones = tf.ones_like(labels, tf.float32)
    return {
        "accuracy": mean(is_right(logits, labels), ones),
        "tokens": mean_length(batch),
    }


def regression_loss(logits, batch, totals):
    return losses.regression_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def regression_metrics(logits, batch) -> dict:
    """The mean distance of guess and score."""
    guesses = tf.cast(tf.squeeze(logits, axis=-1), tf.float32)
    errors = tf.abs(guesses - batch["label_ids"])
    return {
        "absolute_error": mean(errors, tf.ones_like(errors)),
        "tokens": mean_length(batch),
    }


def span_loss(outputs, batch, totals):
    return losses.span_loss(
        outputs["start_logits"],
        outputs["end_logits"],
        batch["start_positions"],
        batch["end_positions"],
        totals["examples"],
    )


def span_metrics(outputs, batch) -> dict:
    """The shares of right starts and right ends."""
    starts, ends = batch["start_positions"], batch["end_positions"]
    ones = tf.ones_like(starts, tf.float32)
    return {
        "start_accuracy": mean(is_right(outputs["start_logits"], starts), ones),
        "end_accuracy": mean(is_right(outputs["end_logits"], ends), ones),
        "tokens": mean_length(batch),
    }


CLASSIFICATION = Task(count, classifier_loss, classifier_metrics)
REGRESSION = Task(count, regression_loss, regression_metrics)
SPANS = Task(count, span_loss, span_metrics)
