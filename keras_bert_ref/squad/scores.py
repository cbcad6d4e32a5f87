"""Answers -> the official scores, as the flags have it."""

import math

from keras_bert_ref.commands import Options
from keras_bert_ref.squad import answers, metrics
from keras_bert_ref.squad.thresholds import find_best_thresholds


def score(
    options: Options, articles, predictions: answers.Predictions
) -> tuple[dict, dict[str, str]]:
    """The official scores, and the answers they are of: those that were
    predicted or, with --best_null_threshold, others."""
    chosen, nbest, null_odds = predictions
    if not options.version_2_with_negative:
        return metrics.evaluate_v1(articles, chosen), chosen
    always = answers.choose_answers(nbest, null_odds, math.inf)
    scores = metrics.score_questions(articles, always)
    best = find_best_thresholds(scores, always, null_odds)
    if options.best_null_threshold:
        threshold = best["best_f1_thresh"]
        chosen = answers.choose_answers(nbest, null_odds, threshold)
    return {**metrics.evaluate_v2(articles, chosen), **best}, chosen
