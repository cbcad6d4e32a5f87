"""The objective of scores; classes have `training.objective.CLASSIFICATION`."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.objective import (
    Objective,
    count_examples,
    sum_and_count,
    token_count,
)


def loss(logits, batch, totals):
    return losses.regression_loss(
        logits, batch["label_ids"], totals["examples"]
    )


def metrics(logits, batch) -> dict:
    """The mean distance of predicted and true scores."""
    predicted = tf.cast(tf.squeeze(logits, axis=-1), tf.float32)
    errors = tf.abs(predicted - batch["label_ids"])
    return {
        "absolute_error": sum_and_count(errors, tf.ones_like(errors)),
        "tokens": token_count(batch),
    }


REGRESSION = Objective(count_examples, loss, metrics, ("absolute_error",))
