"""The original's losses, as pure functions of logits and labels.

Shapes: B batch, T tokens, P masked positions, V vocabulary, L labels.

All of them work in float32 whatever the precision of the logits. Means take
an optional denominator: replicas that each hold a part of a batch pass the
count of the whole batch, and the sum of their losses is the batch's loss.
"""

import tensorflow as tf

from keras_bert_ref import kernels

# Keeps a batch without masked words from dividing by zero.
MASKED_LM_EPSILON = 1e-5


def cross_entropy(logits, labels):
    """Cross-entropy of each prediction: [..., L] and int [...] -> [...]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=tf.cast(logits, tf.float32)
    )


def word_cross_entropy(logits, ids):
    """Cross-entropy of each word: [B, P, V] and int [B, P] -> [B, P]."""
    rows = tf.reshape(tf.cast(logits, tf.float32), (-1, logits.shape[-1]))
    values = kernels.cross_entropy(rows, tf.reshape(ids, [-1]))
    return tf.reshape(values, tf.shape(ids))


def masked_lm_loss(logits, ids, weights, total_weight=None):
    """Mean cross-entropy of the masked words.

    Args:
        logits: float [B, P, V].
        ids: int [B, P], the words that were there.
        weights: float [B, P]; 1 for a masked word, 0 for padding.
        total_weight: float. Sum of the weights of the whole batch, where
            `weights` is a part of it.
    """
    weights = tf.cast(weights, tf.float32)
    if total_weight is None:
        total_weight = tf.reduce_sum(weights)
    summed = tf.reduce_sum(weights * word_cross_entropy(logits, ids))
    return summed / (total_weight + MASKED_LM_EPSILON)


def next_sentence_loss(logits, labels, batch_size=None, weights=None):
    """Mean cross-entropy of logits [B, 2]; 0 really next, 1 random.

    Of packed rows logits are [B, S, 2], labels [B, S], and weights, float
    [B, S], are 1 for each sequence.
    """
    values = cross_entropy(
        tf.reshape(logits, (-1, 2)), tf.reshape(labels, [-1])
    )
    if weights is not None:
        values *= tf.reshape(weights, [-1])
        if batch_size is None:
            batch_size = tf.reduce_sum(weights)
    return _mean(values, batch_size)


def pretraining_losses(outputs, batch, total_weight=None, batch_size=None):
    """Total, masked-LM and next-sentence loss of a BertPretraining."""
    masked_lm = masked_lm_loss(
        outputs["masked_lm_logits"],
        batch["masked_lm_ids"],
        batch["masked_lm_weights"],
        total_weight,
    )
    next_sentence = next_sentence_loss(
        outputs["next_sentence_logits"],
        batch["next_sentence_labels"],
        batch_size,
        batch.get("next_sentence_weights"),
    )
    return masked_lm + next_sentence, masked_lm, next_sentence


def classifier_loss(logits, labels, batch_size=None):
    """Mean cross-entropy of logits [B, L] for labels, int [B]."""
    return _mean(cross_entropy(logits, labels), batch_size)


def regression_loss(logits, scores, batch_size=None):
    """Mean squared error of logits [B, 1] for scores, float [B]."""
    predicted = tf.cast(tf.squeeze(logits, axis=-1), tf.float32)
    return _mean(tf.square(predicted - tf.cast(scores, tf.float32)), batch_size)


def tagger_loss(logits, labels, mask, num_words=None):
    """Mean cross-entropy of words: logits [B, T, L], labels int [B, T].

    Args:
        mask: [B, T]; 1 where the label counts, at the first piece of a word.
        num_words: float. Sum of the mask of the whole batch, where `mask` is
            a part of it.
    """
    mask = tf.cast(mask, tf.float32)
    if num_words is None:
        num_words = tf.reduce_sum(mask)
    summed = tf.reduce_sum(mask * cross_entropy(logits, labels))
    return summed / tf.maximum(num_words, 1.0)


def span_loss(start_logits, end_logits, starts, ends, batch_size=None):
    """Mean of the losses of start and end: logits [B, T], positions int [B].

    Padding positions take part in the softmax, as in the original.
    """
    start_loss = _mean(cross_entropy(start_logits, starts), batch_size)
    end_loss = _mean(cross_entropy(end_logits, ends), batch_size)
    return (start_loss + end_loss) / 2.0


def _mean(values, count=None):
    if count is None:
        return tf.reduce_mean(values)
    return tf.reduce_sum(values) / tf.cast(count, tf.float32)
