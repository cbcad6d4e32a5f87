"""The objectives of pre-training: masked words and next sentences, or the
next words of models that read in one direction."""

import functools

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
    if "next_sentence_weights" in batch:  # packed rows hold several examples
        examples = tf.reduce_sum(batch["next_sentence_weights"])
        return {"masked_words": words, "examples": examples}
    return {"masked_words": words, **count_examples(batch)}


def loss(outputs, batch, totals):
    """Sum of the two losses."""
    total, _, _ = losses.pretraining_losses(
        outputs, batch, totals["masked_words"], totals["examples"]
    )
    return total


def word_loss(outputs, batch, totals):
    """The loss of masked words alone."""
    return losses.masked_lm_loss(
        outputs["masked_lm_logits"],
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
        totals["masked_words"],
    )


def metrics(outputs, batch) -> dict:
    """Accuracy and loss of both tasks, and how much was read."""
    nexts = tf.reshape(outputs["next_sentence_logits"], (-1, 2))
    labels = tf.reshape(batch["next_sentence_labels"], [-1])
    if "next_sentence_weights" in batch:
        ones = tf.reshape(batch["next_sentence_weights"], [-1])
    else:
        ones = tf.ones_like(labels, tf.float32)
    return {
        **word_metrics("masked_lm", outputs, batch),
        "next_sentence_accuracy": sum_and_count(is_right(nexts, labels), ones),
        "next_sentence_loss": sum_and_count(
            losses.cross_entropy(nexts, labels), ones
        ),
    }


def word_metrics(name: str, outputs, batch) -> dict:
    """Accuracy and loss of masked words, under a name; how much was read."""
    weights = batch["masked_lm_weights"]
    words = outputs["masked_lm_logits"]
    word_losses = losses.word_cross_entropy(words, batch["masked_lm_ids"])
    return {
        f"{name}_accuracy": sum_and_count(
            is_right(words, batch["masked_lm_ids"]), weights
        ),
        f"{name}_loss": sum_and_count(word_losses, weights),
        "tokens": token_count(batch),
    }


PRETRAINING = Objective(
    count, loss, metrics, ("masked_lm_accuracy", "next_sentence_accuracy")
)


def _words(name: str) -> Objective:
    """The objective of words alone."""
    return Objective(
        count,
        word_loss,
        functools.partial(word_metrics, name),
        (f"{name}_accuracy",),
    )


# Without next sentences ("No NSP" of table 5); and of models that read in one
# direction, whose batches come from next_words.py.
WORDS = {
    "bidi": _words("masked_lm"),
    "ltr": _words("next_word"),
    "rtl": _words("previous_word"),
}
