"""When to give no answer in SQuAD v2.0 (paper, section 4.3)."""

import math
from collections.abc import Mapping
from typing import NamedTuple


class Scores(NamedTuple):
    """What is known of each question, by its id.

    Attributes:
        has_answer: whether the data have an answer; all questions.
        exact: exact match, 0 or 1; 0 without a prediction.
        f1: overlap of words, 0 to 1; likewise.
    """

    has_answer: dict[str, bool]
    exact: dict[str, int]
    f1: dict[str, float]


def find_best_thresholds(
    scores: Scores,
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float],
) -> dict[str, float]:
    """Finds `best_exact`, `best_f1` and their thresholds (`..._thresh`).

    For the arguments and results see `find_best_threshold`.
    """
    best = {}
    for metric in ("exact", "f1"):
        best[f"best_{metric}"], best[f"best_{metric}_thresh"] = (
            find_best_threshold(scores, metric, predictions, na_probs)
        )
    return best


def find_best_threshold(
    scores: Scores,
    metric: str,
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float],
) -> tuple[float, float]:
    """Finds up to which number in `na_probs` questions are best answered.

    Starting from no answer at all, questions are answered one by one, the
    surest first: each one that has an answer adds its score, each one that
    has none costs 1.

    Args:
        scores: of `predictions`.
        metric: "exact" or "f1".
        predictions: what would be answered; "" costs and gains nothing.
        na_probs: see `evaluate_v2`.

    Returns:
        score: the highest score on the way.
        threshold: of the last question answered up to there; minus infinity
            if no answer at all is best.
    """
    values = getattr(scores, metric)
    score = best_score = sum(
        not has_answer
        for name, has_answer in scores.has_answer.items()
        if name in predictions  # else it is wrong at any threshold
    )
    best_threshold = -math.inf
    for name in sorted(na_probs, key=na_probs.__getitem__):
        if name not in values or name not in predictions:
            continue
        if scores.has_answer[name]:
            score += values[name]
        elif predictions[name]:
            score -= 1
        if score > best_score:
            best_score, best_threshold = score, na_probs[name]
    return 100.0 * best_score / len(values), best_threshold
