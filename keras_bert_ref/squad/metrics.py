"""The official scores of SQuAD v1.1 and v2.0 (paper, sections 4.2 and 4.3).

    python -m keras_bert_ref.squad.metrics data.json predictions.json \\
        [--na_prob_file=null_odds.json]

prints what the official script for these data prints: v2.0 where questions
say whether they are impossible, else v1.1. Answers are compared as bags of
words, without case, punctuation and articles; of several right answers the
one that fits best counts. All scores are percentages.
"""

import argparse
import json
import math
import re
import reprlib
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from absl import logging

from keras_bert_ref import files
from keras_bert_ref.guard import guard
from keras_bert_ref.squad.examples import read_articles
from keras_bert_ref.squad.thresholds import Scores, find_best_thresholds

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)

# The "data" of a file in SQuAD's format.
Articles = Iterable[Mapping]


def normalize_answer(text: str) -> str:
    """Drops case, punctuation, articles and superfluous spaces."""
    text = text.lower().translate(_DELETE_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def compute_exact(gold: str, prediction: str) -> int:
    """1 if two normalized answers are the same, else 0."""
    return int(gold == prediction)


def compute_f1(gold: str, prediction: str) -> float:
    """Harmonic mean of precision and recall over normalized words."""
    gold_words, words = gold.split(), prediction.split()
    num_same = sum((Counter(gold_words) & Counter(words)).values())
    if num_same == 0:
        return 0
    precision = num_same / len(words)
    recall = num_same / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def evaluate_v1(
    articles: Articles, predictions: Mapping[str, str]
) -> dict[str, float]:
    """Scores of v1.1; a question without a prediction scores 0."""
    exact = f1 = num_questions = 0
    missing = []
    for question in _questions(articles):
        num_questions += 1
        golds = _gold_answers(question)
        if question["id"] not in predictions:
            missing.append(question["id"])
            continue
        prediction = normalize_answer(predictions[question["id"]])
        if not golds:
            raise ValueError(
                "In SQuAD v1.1 every question has an answer, but question "
                f"{question['id']} has 0; score these data as v2.0."
            )
        exact += _best(compute_exact, golds, prediction)
        f1 += _best(compute_f1, golds, prediction)
    _check_predictions(num_questions, missing)
    return {
        "exact_match": 100.0 * exact / num_questions,
        "f1": 100.0 * f1 / num_questions,
    }


def evaluate_v2(
    articles: Articles,
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
    na_prob_thresh: float = 1.0,
) -> dict[str, float]:
    """Scores of v2.0.

    Args:
        articles: the data.
        predictions: from question id to answer, "" for none. Questions that
            are not in it count as wrong, whether they have an answer or not.
        na_probs: from question id to a number that is the higher the less
            likely an answer is: `null_odds.json`.
        na_prob_thresh: float. A question counts as unanswered where its
            number in `na_probs` is higher.

    Returns:
        `exact`, `f1`, `total` over all questions, over those with an answer
        (`HasAns_`) and over those without (`NoAns_`); with `na_probs` also
        the best scores that any threshold gives (`best_exact`, `best_f1`),
        and the thresholds (`best_exact_thresh`, `best_f1_thresh`).
    """
    scores = score_questions(articles, predictions)
    has_answer = scores.has_answer
    counted = {"exact": scores.exact, "f1": scores.f1}
    if na_probs is not None:
        answered = [name for name in scores.exact if name in predictions]
        _check_na_probs(answered, na_probs)
        counted = {
            metric: {
                name: value
                if name not in predictions or na_probs[name] <= na_prob_thresh
                else not has_answer[name]
                for name, value in values.items()
            }
            for metric, values in counted.items()
        }
    result = {}
    groups = {
        "": list(scores.exact),
        "HasAns_": [name for name in scores.exact if has_answer[name]],
        "NoAns_": [name for name in scores.exact if not has_answer[name]],
    }
    for prefix, names in groups.items():
        if not names:
            continue
        for metric, values in counted.items():
            total = sum(values[name] for name in names)
            result[prefix + metric] = 100.0 * total / len(names)
        result[prefix + "total"] = len(names)
    if na_probs is not None:
        best = find_best_thresholds(scores, predictions, na_probs)
        # Where no answer at all is best, the official script says 0.0.
        result |= {k: v if v > -math.inf else 0.0 for k, v in best.items()}
    return result


def score_questions(
    articles: Articles, predictions: Mapping[str, str]
) -> Scores:
    """Scores each question as v2.0 does; without a prediction, 0."""
    scores = Scores({}, {}, {})
    missing = []
    for question in _questions(articles):
        name = question["id"]
        golds = _gold_answers(question)
        scores.has_answer[name] = bool(golds)
        if name not in predictions:
            missing.append(name)
            scores.exact[name] = scores.f1[name] = 0
            continue
        prediction = normalize_answer(predictions[name])
        golds = [gold for gold in golds if gold] or [""]
        scores.exact[name] = _best(compute_exact, golds, prediction)
        # No words on both sides is all right here, and none in v1.1.
        scores.f1[name] = scores.exact[name] or _best(
            compute_f1, golds, prediction
        )
    _check_predictions(len(scores.exact), missing)
    return scores


def has_gold_answers(articles: Articles, version_2: bool) -> bool:
    """Whether all questions have an answer, or in v2.0 are known to have none.

    Test sets lack both, and cannot be scored.
    """
    return all(
        bool(question.get("answers"))
        or (version_2 and question.get("is_impossible", False))
        for question in _questions(articles)
    )


def _questions(articles: Articles) -> Iterator[Mapping]:
    for article in articles:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]


def _gold_answers(question: Mapping) -> list[str]:
    """The right answers, normalized."""
    if "answers" not in question:
        raise ValueError(
            "Scores need the right answers, but question "
            f"{question['id']} has no `answers`; pass data that have them."
        )
    return [normalize_answer(answer["text"]) for answer in question["answers"]]


def _best(
    score: Callable[[str, str], float], golds: Iterable[str], prediction: str
) -> float:
    return max(score(gold, prediction) for gold in golds)


def _check_predictions(num_questions: int, missing: list[str]) -> None:
    """Raises if nothing was predicted; says how many predictions lack."""
    if num_questions == len(missing):
        raise ValueError(
            "Scores need questions with predictions, but there are 0; check "
            "that data and predictions belong together."
        )
    if missing:
        logging.warning(
            "%d of %d questions have no prediction and count as wrong, such as "
            "%s.",
            *(len(missing), num_questions, ", ".join(map(str, missing[:3]))),
        )


def _check_na_probs(
    names: Iterable[str], na_probs: Mapping[str, float]
) -> None:
    for name in names:
        if name not in na_probs:
            raise ValueError(
                "Every question needs its odds of having no answer, but "
                f"question {name} is not among the {len(na_probs)} given; "
                "pass the null_odds.json of the same run."
            )


def _read_values(path: str, types: type | tuple, wanted: str) -> dict:
    """A file with something for each question."""
    values = files.read_json(path)
    for name, value in values.items():
        # Of numbers, NaN is not equal to itself.
        is_one = isinstance(value, types) and value == value
        if isinstance(value, bool) or not is_one:
            raise ValueError(
                f"{path} must have {wanted} for every question, but question "
                f"{name} has {reprlib.repr(value)}; check the file."
            )
    return values


def main() -> None:
    """The command, with the arguments of the official script."""
    parser = argparse.ArgumentParser(description="Scores SQuAD predictions.")
    parser.add_argument("data_file", help="questions and answers, JSON")
    parser.add_argument("pred_file", help="from question id to answer, JSON")
    parser.add_argument(
        *("--na_prob_file", "--na-prob-file", "-n"),
        help="the higher, the less likely an answer: null_odds.json (v2.0)",
    )
    parser.add_argument(
        *("--na_prob_thresh", "--na-prob-thresh", "-t"),
        type=float,
        default=1.0,
        help="questions above it in the above count as unanswered",
    )
    parser.add_argument(
        *("--out_file", "--out-file", "-o"),
        help="where the scores go; printed by default",
    )
    args = parser.parse_args()

    guard(
        lambda: score_files(args),
        say=lambda text: print(f"Not scored. {text}", file=sys.stderr),
    )


def score_files(args: argparse.Namespace) -> None:
    """Scores what the flags of the command name."""
    inputs = [args.data_file, args.pred_file, args.na_prob_file]
    if args.out_file:
        files.check_apart(filter(None, inputs), [args.out_file])
    articles = read_articles(args.data_file)
    predictions = _read_values(args.pred_file, str, "an answer")
    na_probs = None
    if args.na_prob_file:
        na_probs = _read_values(args.na_prob_file, (int, float), "a number")
    if any("is_impossible" in qa for qa in _questions(articles)):
        scores = evaluate_v2(
            articles, predictions, na_probs, args.na_prob_thresh
        )
        text = json.dumps(scores, indent=2)
    else:
        text = json.dumps(evaluate_v1(articles, predictions))
    if args.out_file:
        files.replace(args.out_file, text + "\n")
    else:
        print(text)


if __name__ == "__main__":
    main()
