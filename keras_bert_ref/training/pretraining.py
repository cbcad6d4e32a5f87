"""Pre-training as a task of the engine."""

import tensorflow as tf

from keras_bert_ref import losses
from keras_bert_ref.training.loop import Task


def count(batch) -> dict:
    """What the losses divide by."""
    examples = tf.shape(batch["input_ids"])[0]
    return {
        "masked_words": tf.reduce_sum(batch["masked_lm_weights"]),
        "examples": tf.cast(examples, tf.float32),
    }


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
        "masked_lm_accuracy": _mean(
            _is_right(words, batch["masked_lm_ids"]), weights
        ),
        "masked_lm_loss": _mean(word_losses, weights),
        "next_sentence_accuracy": _mean(_is_right(nexts, labels), ones),
        "next_sentence_loss": _mean(losses.cross_entropy(nexts, labels), ones),
        "tokens": _mean(
            tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32), axis=1),
            ones,
        ),
    }


def _is_right(logits, labels):
    guesses = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    return tf.cast(guesses == labels, tf.float32)


def _mean(values, weights):
    """Sum and count, which add up over replicas and batches."""
    return tf.stack([tf.reduce_sum(values * weights), tf.reduce_sum(weights)])


TASK = Task(count, loss, metrics)
