"""The objective of tagging: the class of each word (section 5.3)."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.objective import (
    Objective,
    is_right,
    sum_and_count,
    token_count,
)


def count_words(batch) -> dict:
    """The denominator: the loss is a mean over words, not over sentences."""
    return {"words": tf.reduce_sum(tf.cast(batch["tag_mask"], tf.float32))}


def loss(logits, batch, totals):
    return losses.tagger_loss(
        logits, batch["tag_ids"], batch["tag_mask"], totals["words"]
    )


def metrics(logits, batch) -> dict:
    """The share of words whose class is right."""
    mask = tf.cast(batch["tag_mask"], tf.float32)
    return {
        "accuracy": sum_and_count(is_right(logits, batch["tag_ids"]), mask),
        "tokens": token_count(batch),
    }


TAGGING = Objective(count_words, loss, metrics, ("accuracy",))
