"""The official metrics against scikit-learn's and SciPy's."""

import math
import warnings

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from keras_bert_ref.classifier import metrics as glue
from keras_bert_ref.classifier.published import published_scores

TOLERANCE = 1e-12
REFERENCES = {
    "accuracy": sklearn.metrics.accuracy_score,
    "f1": sklearn.metrics.f1_score,
    "matthews_correlation": sklearn.metrics.matthews_corrcoef,
    "pearson": lambda x, y: scipy.stats.pearsonr(x, y)[0],
    "spearman": lambda x, y: scipy.stats.spearmanr(x, y)[0],
}


def pairs(values):
    """Two lists of the same length; few values, so that many are equal."""
    pair = st.tuples(values, values)
    return st.lists(pair, min_size=2, max_size=60).map(
        lambda rows: np.array(rows).T
    )


def check(name, x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = REFERENCES[name](x, y)
    actual = glue.METRICS[name](x, y)
    assert actual == pytest.approx(expected, abs=TOLERANCE, nan_ok=True)
    assert isinstance(actual, float)


@given(pairs(st.integers(0, 1)))
def test_two_classes(pair):
    for name in ("accuracy", "f1", "matthews_correlation"):
        check(name, *pair)


@given(pairs(st.integers(0, 3)))
def test_several_classes(pair):
    for name in ("accuracy", "matthews_correlation"):
        check(name, *pair)


@given(pairs(st.integers(-20, 20).map(lambda n: n / 4)))
def test_scores_with_ties(pair):
    for name in ("pearson", "spearman"):
        check(name, *pair)


def test_many_scores():
    rng = np.random.default_rng(0)
    scores = np.round(rng.uniform(0, 5, 1500), 1)
    predictions = (scores + rng.normal(size=1500)).astype(np.float32)
    for name in ("pearson", "spearman"):
        check(name, scores, predictions)


def test_constant_predictions():
    labels, predictions = np.array([0, 1, 1]), np.zeros(3, int)
    assert glue.f1(labels, predictions) == 0.0
    assert glue.matthews_correlation(labels, predictions) == 0.0
    for metric in (glue.pearson, glue.spearman):
        assert math.isnan(metric(np.array([1.0, 2.0, 3.0]), np.ones(3)))
    for name in REFERENCES:
        check(name, labels, predictions)


def test_losses():
    logits = np.array([[0.0, math.log(3.0)], [1000.0, 0.0]])
    np.testing.assert_allclose(glue.softmax(logits), [[0.25, 0.75], [1, 0]])
    np.testing.assert_allclose(
        glue.losses(logits, np.array([0, 1])), [math.log(4), 1000]
    )
    scores = glue.losses(np.array([[1.5], [2.0]]), np.array([1.0, 4.0]))
    np.testing.assert_allclose(scores, [0.25, 4.0])


def test_published_scores():
    assert published_scores("MRPC", "f1") == {
        "Tiny": 81.1,
        "Mini": 81.1,
        "Small": 83.4,
        "Medium": 86.6,
        "Base": 88.9,
        "Large": 89.3,
    }
    assert published_scores("RTE", "accuracy")["Large"] == 70.1
    assert published_scores("STS-B", "spearman")["Base"] == 85.8
    assert "Base" not in published_scores("WNLI", "accuracy")
    assert published_scores("tsv", "accuracy") == {}
