"""The objective of pre-training: masked words and next sentences."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.objective import (
    Objective,
    count_examples,
    is_right,
    sum_and_count,
    token_count,
)


def count(batch) -> dict:
    """What the losses divide by."""
    words = tf.reduce_sum(batch["masked_lm_weights"])
    return {"masked_words": words, **count_examples(batch)}


def loss(outputs, batch, totals):
    """Sum of the two losses."""
    total, _, _ = losses.pretraining_losses(
        outputs, batch, totals["masked_words"], totals["examples"]
    )
    return total


def metrics(outputs, batch) -> dict:
    """Accuracy and loss of both tasks, and how much was read."""
    weights = batch["masked_lm_weights"]
    words = outputs["masked_lm_logits"]
    nexts = outputs["next_sentence_logits"]
    labels = tf.reshape(batch["next_sentence_labels"], [-1])
    ones = tf.ones_like(labels, tf.float32)
    word_losses = losses.cross_entropy(words, batch["masked_lm_ids"])
    return {
        "masked_lm_accuracy": sum_and_count(
            is_right(words, batch["masked_lm_ids"]), weights
        ),
        "masked_lm_loss": sum_and_count(word_losses, weights),
        "next_sentence_accuracy": sum_and_count(is_right(nexts, labels), ones),
        "next_sentence_loss": sum_and_count(
            losses.cross_entropy(nexts, labels), ones
        ),
        "tokens": token_count(batch),
    }


PRETRAINING = Objective(
    count, loss, metrics, ("masked_lm_accuracy", "next_sentence_accuracy")
)
