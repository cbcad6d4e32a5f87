"""Losses against the formulas written out in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert_ref import losses

RNG = np.random.default_rng(0)


def negative_log_probs(logits, labels):
    logits = logits.astype("float64")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]


def test_cross_entropy():
    logits = RNG.normal(size=(3, 4, 7)).astype("float32")
    labels = RNG.integers(0, 7, size=(3, 4))
    np.testing.assert_allclose(
        losses.cross_entropy(logits, labels),
        negative_log_probs(logits, labels),
        atol=1e-6,
    )


def test_half_precision_logits_are_summed_in_float32():
    logits = tf.cast(RNG.normal(size=(3, 500)) * 5, tf.bfloat16)
    labels = RNG.integers(0, 500, size=3)
    actual = losses.cross_entropy(logits, labels)
    assert actual.dtype == tf.float32
    expected = negative_log_probs(tf.cast(logits, tf.float32).numpy(), labels)
    np.testing.assert_allclose(actual, expected, atol=1e-5)


def test_masked_lm_loss_weighs_and_survives_an_empty_batch():
    logits = RNG.normal(size=(2, 3, 7)).astype("float32")
    ids = RNG.integers(0, 7, size=(2, 3))
    weights = np.array([[1, 1, 0], [1, 0, 0]], "float32")
    expected = (negative_log_probs(logits, ids) * weights).sum() / (3 + 1e-5)
    assert float(losses.masked_lm_loss(logits, ids, weights)) == pytest.approx(
        expected, abs=1e-6
    )
    assert float(losses.masked_lm_loss(logits, ids, 0 * weights)) == 0


def test_pretraining_losses():
    outputs = {
        "masked_lm_logits": RNG.normal(size=(2, 3, 7)).astype("float32"),
        "next_sentence_logits": RNG.normal(size=(2, 2)).astype("float32"),
    }
    batch = {
        "masked_lm_ids": RNG.integers(0, 7, size=(2, 3)),
        "masked_lm_weights": np.ones((2, 3), "float32"),
        "next_sentence_labels": np.array([[1], [0]]),
    }
    total, masked_lm, next_sentence = losses.pretraining_losses(outputs, batch)
    assert float(total) == pytest.approx(float(masked_lm + next_sentence))
    expected = negative_log_probs(
        outputs["next_sentence_logits"], np.array([1, 0])
    ).mean()
    assert float(next_sentence) == pytest.approx(expected, abs=1e-6)


def test_regression_loss():
    logits = np.array([[1.0], [2.0]], "float32")
    assert float(losses.regression_loss(logits, [0.0, 4.0])) == 2.5


def test_span_loss():
    starts = RNG.normal(size=(2, 5)).astype("float32")
    ends = RNG.normal(size=(2, 5)).astype("float32")
    first, last = np.array([1, 0]), np.array([4, 2])
    expected = (
        negative_log_probs(starts, first).mean()
        + negative_log_probs(ends, last).mean()
    ) / 2
    actual = losses.span_loss(starts, ends, first, last)
    assert float(actual) == pytest.approx(expected, abs=1e-6)


def test_parts_of_a_batch_add_up_to_the_whole():
    logits = RNG.normal(size=(5, 3)).astype("float32")
    labels = RNG.integers(0, 3, size=5)
    whole = losses.classifier_loss(logits, labels)
    parts = losses.classifier_loss(logits[:2], labels[:2], batch_size=5)
    parts += losses.classifier_loss(logits[2:], labels[2:], batch_size=5)
    assert float(parts) == pytest.approx(float(whole), abs=1e-6)

    weights = np.array([1, 1, 0, 1, 0], "float32")
    whole = losses.masked_lm_loss(logits, labels, weights)
    parts = sum(
        losses.masked_lm_loss(
            logits[part], labels[part], weights[part], total_weight=3.0
        )
        for part in (slice(0, 2), slice(2, 5))
    )
    assert float(parts) == pytest.approx(float(whole), abs=1e-6)
