"""The objective of answering questions: where a span starts and ends."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.objective import (
    Objective,
    count_examples,
    is_right,
    sum_and_count,
    token_count,
)


def loss(outputs, batch, totals):
    return losses.span_loss(
        outputs["start_logits"],
        outputs["end_logits"],
        batch["start_positions"],
        batch["end_positions"],
        totals["examples"],
    )


def metrics(outputs, batch) -> dict:
    """The shares of starts and of ends that are right."""
    starts, ends = batch["start_positions"], batch["end_positions"]
    ones = tf.ones_like(starts, tf.float32)
    return {
        "start_accuracy": sum_and_count(
            is_right(outputs["start_logits"], starts), ones
        ),
        "end_accuracy": sum_and_count(
            is_right(outputs["end_logits"], ends), ones
        ),
        "tokens": token_count(batch),
    }


SPANS = Objective(
    count_examples, loss, metrics, ("start_accuracy", "end_accuracy")
)
