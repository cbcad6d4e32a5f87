"""Ours beside the published value: is the difference more than chance?

Two kinds of chance are joined. Seeds: the published value is one training
(or the mean of m), ours the mean of n, so with a standard deviation s over
seeds their difference has s * sqrt(1/m + 1/n). Examples: a score on a split
of N examples would be another on N others. For an accuracy p that is
sqrt(p * (1 - p) / N); see `sampling_error` for the other metrics. Where the
published score is one on another split, that split adds its own.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from keras_bert_ref.reproduce.catalogue import Value

# A difference of more than so many errors is more than chance.
NUM_ERRORS = 2.0


def sampling_error(
    metric: str, value: float, size: int, accuracy: float | None = None
) -> float:
    """The standard error of a score due to its split, in percent.

    Args:
        value: the score, in percent.
        size: examples of the split.
        accuracy: on the same split, in percent, where it is known: it tells
            how many examples an F1 of classes rests on.
    """
    share = min(max(value / 100, -1.0), 1.0)
    if "pearson" in metric or "matthews" in metric:
        # Matthews' correlation is Pearson's, of two classes.
        error = (1 - share**2) / math.sqrt(size)
    elif "spearman" in metric:
        error = (1 - share**2) * math.sqrt((1 + share**2 / 2) / size)
    elif metric == "f1" and accuracy is not None and 0 < share < 1:
        error = _f1_error(share, 1 - accuracy / 100, size)
    else:
        error = math.sqrt(max(share * (1 - share), 0.0) / size)
    return 100 * error


def _f1_error(f1: float, wrong: float, size: int) -> float:
    """F1 = 2t / (2t + w), with t the share of true positives and w that of
    wrong predictions; both are shares of the same sample."""
    true = f1 * wrong / (2 * (1 - f1))
    whole = (2 * true + wrong) ** 2 or 1.0
    by_true, by_wrong = 2 * wrong / whole, -2 * true / whole
    variance = (
        by_true**2 * true * (1 - true)
        + by_wrong**2 * wrong * (1 - wrong)
        - 2 * by_true * by_wrong * true * wrong
    )
    return math.sqrt(max(variance, 0.0) / size)


def compare(
    published: Mapping[str, Value],
    ours: Mapping[str, Sequence[float]],
    *,
    size: int | None,
    published_size: int | None = None,
    published_seeds: int = 1,
    tolerance: float | None = None,
) -> dict[str, dict]:
    """For each metric: what was published, ours, the difference, its error
    with its parts, and a verdict.

    Args:
        ours: metric -> its value with each seed, in percent.
        size: examples of our split, if known.
        published_size: of the published split, if that is another.
        tolerance: a difference up to this is none, and nothing is chance.
    """
    compared = {}
    for metric, value in published.items():
        values = ours.get(metric)
        if not values:
            continue
        mean = statistics.mean(values)
        spread = statistics.stdev(values) if values[1:] else None
        difference = mean - nearest(value, mean)
        cell = {
            "published": value,
            "values": list(values),
            "mean": mean,
            "spread": spread,
            "difference": difference,
            "errors": {},
        }
        if tolerance is None:
            errors = cell["errors"]
            if spread is not None:
                factor = math.sqrt(1 / published_seeds + 1 / len(values))
                errors["seeds"] = spread * factor
            if size:
                accuracy = _mean(ours, "accuracy")
                errors["examples"] = sampling_error(
                    metric, mean, size, accuracy
                )
            if published_size:
                accuracy = published.get("accuracy")
                errors["published examples"] = sampling_error(
                    metric, nearest(value, mean), published_size, accuracy
                )
        cell["error"] = math.hypot(*cell["errors"].values()) or None
        cell["verdict"] = _judge(difference, cell["error"], tolerance)
        compared[metric] = cell
    return compared


def _mean(ours: Mapping[str, Sequence[float]], metric: str) -> float | None:
    values = ours.get(metric)
    return statistics.mean(values) if values else None


def _judge(
    difference: float, error: float | None, tolerance: float | None
) -> str:
    if tolerance is not None:
        return "equal" if abs(difference) <= tolerance else "different"
    if error is None:  # one training, on examples that nobody counted
        return "no verdict"
    if abs(difference) <= NUM_ERRORS * error:
        return "agrees"
    return "above" if difference > 0 else "below"


def nearest(value: Value, ours: float) -> float:
    """What to compare with: of a range the nearest point."""
    if isinstance(value, list):
        low, high = value
        return min(max(ours, low), high)
    return value
