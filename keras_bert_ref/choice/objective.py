"""The objective of choosing: a softmax over the choices (section 4.4)."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.objective import (
    Objective,
    count_examples,
    is_right,
    sum_and_count,
    token_count,
)


def loss(logits, batch, totals):
    """Choices take the place of classes."""
    return losses.classifier_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def metrics(logits, batch) -> dict:
    """The share of questions whose choice is right."""
    labels = batch["label_ids"]
    ones = tf.ones_like(labels, tf.float32)
    return {
        "accuracy": sum_and_count(is_right(logits, labels), ones),
        "tokens": token_count(batch),
    }


CHOICE = Objective(count_examples, loss, metrics, ("accuracy",))
