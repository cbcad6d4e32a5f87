"""The official metrics of GLUE (section 4.1).

As scikit-learn and SciPy define them: where nothing is predicted right F1 is 0,
Matthews' correlation of a constant is 0, the other correlations of a constant
are NaN.
"""

import math
from collections.abc import Sequence

import numpy as np


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """The share of right predictions."""
    return float(np.mean(labels == predictions))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Harmonic mean of precision and recall of class 1."""
    hits = np.sum((labels == 1) & (predictions == 1))
    total = np.sum(labels == 1) + np.sum(predictions == 1)
    return float(2 * hits / total) if total else 0.0


def matthews_correlation(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Correlation of classes with predictions, of two classes or more."""
    classes = np.union1d(labels, predictions)
    is_label = (labels[:, None] == classes).astype(float)
    is_pick = (predictions[:, None] == classes).astype(float)

    def covariance(x, y):
        return len(x) * np.sum(x * y) - x.sum(axis=0) @ y.sum(axis=0)

    spread = covariance(is_label, is_label) * covariance(is_pick, is_pick)
    if spread == 0:
        return 0.0
    return float(covariance(is_label, is_pick) / math.sqrt(spread))


def pearson(scores: np.ndarray, predictions: np.ndarray) -> float:
    """Linear correlation; NaN if either is constant."""
    x, y = np.asarray(scores, float), np.asarray(predictions, float)
    if np.all(x == x[0]) or np.all(y == y[0]):
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    product = (x / np.linalg.norm(x)) @ (y / np.linalg.norm(y))
    return float(np.clip(product, -1.0, 1.0))


def spearman(scores: np.ndarray, predictions: np.ndarray) -> float:
    """Linear correlation of ranks."""
    return pearson(rank(scores), rank(predictions))


def rank(values: np.ndarray) -> np.ndarray:
    """Places in ascending order, from 1; equal values share their mean."""
    _, inverse, counts = np.unique(
        values, return_inverse=True, return_counts=True
    )
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


METRICS = {
    "accuracy": accuracy,
    "f1": f1,
    "matthews_correlation": matthews_correlation,
    "pearson": pearson,
    "spearman": spearman,
}


def score(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray
) -> dict[str, float]:
    """Metrics by name, of true and predicted classes or scores."""
    return {name: METRICS[name](labels, predictions) for name in names}


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithms of the probabilities of classes."""
    logits = logits - logits.max(axis=-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of classes."""
    return np.exp(log_softmax(logits))


def losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Each example's loss: cross-entropy, or squared error of a score."""
    if logits.shape[-1] == 1:
        return np.square(logits[:, 0] - labels)
    return -log_softmax(logits)[np.arange(len(labels)), labels]
