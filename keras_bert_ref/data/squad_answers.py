"""Logits -> answers to SQuAD questions, as text of the original paragraph.

For each question: the spans of its windows, ranked by the sum of their start
and end logits; their text; probabilities over the best. SQuAD v2.0 also ranks
"no answer", the span from [CLS] to [CLS], which wins if it is far enough
ahead of all others.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

from keras_bert_ref.data.squad_features import InputFeatures, SquadExample
from keras_bert_ref.tokenization import BasicTokenizer


class RawResult(NamedTuple):
    """The model's logits for one window, by position."""

    unique_id: int
    start_logits: Sequence[float]
    end_logits: Sequence[float]


class Answer(NamedTuple):
    """A span of text, or "" for no answer."""

    text: str
    start_logit: float
    end_logit: float


class Predictions(NamedTuple):
    """What the three files hold, by question id, in the order of the input.

    Attributes:
        answers: the text of the best answer, "" for none.
        nbest: lists of dicts with text, probability and the two logits.
        null_odds: by how much "no answer" is ahead; empty for v1.1.
    """

    answers: dict[str, str]
    nbest: dict[str, list[dict]]
    null_odds: dict[str, float]


# The windows of a question, each with what the model says of it.
Windows = Sequence[tuple[InputFeatures, RawResult]]


def write_predictions(
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures],
    all_results: Iterable[RawResult],
    n_best_size: int,
    max_answer_length: int,
    do_lower_case: bool,
    output_prediction_file: str,
    output_nbest_file: str,
    output_null_log_odds_file: str,
    version_2_with_negative: bool = False,
    null_score_diff_threshold: float = 0.0,
    verbose_logging: bool = False,
) -> Predictions:
    """Answers all questions, and writes the answers to files.

    Args:
        all_examples: the questions.
        all_features: their windows.
        all_results: logits for each window, in any order.
        n_best_size: int. How many starts and ends are combined in a window,
            and how many answers are kept.
        max_answer_length: int. In tokens.
        do_lower_case: bool. What the tokenizer was told.
        output_prediction_file: path for the answers.
        output_nbest_file: path for the n-best lists.
        output_null_log_odds_file: path for the odds of no answer (v2.0).
        version_2_with_negative: bool. Whether there may be no answer.
        null_score_diff_threshold: float. By how much "no answer" must be
            ahead to be given.
        verbose_logging: bool. Tell which answers are whole words for want
            of a way back from their tokens.
    """
    predictions = Predictions({}, {}, {})
    windows = _group_windows(all_examples, all_features, all_results)
    for example, own_windows in zip(all_examples, windows, strict=True):
        null = find_null(own_windows) if version_2_with_negative else None
        answers: dict[str, Answer] = {}  # by text: duplicates are dropped
        for feature, start, end, *logits in rank_spans(
            own_windows, n_best_size, max_answer_length, null
        ):
            text = ""
            if feature is not None:
                text = get_final_text(
                    _join_pieces(feature.tokens[start : end + 1]),
                    _join_words(example, feature, start, end),
                    do_lower_case,
                    verbose_logging,
                )
            answers.setdefault(text, Answer(text, *logits))
            if len(answers) == n_best_size:
                break
        if version_2_with_negative:
            answers.setdefault("", null)
        elif not answers:
            answers["empty"] = Answer("empty", 0.0, 0.0)

        name = example.qas_id
        predictions.nbest[name] = _add_probabilities(list(answers.values()))
        best = next(filter(None, answers), "")
        if version_2_with_negative:
            odds = null.start_logit + null.end_logit
            if best:
                odds -= answers[best].start_logit
                odds -= answers[best].end_logit
            predictions.null_odds[name] = odds
            if odds > null_score_diff_threshold:
                best = ""
        predictions.answers[name] = best

    _write_json(output_prediction_file, predictions.answers)
    _write_json(output_nbest_file, predictions.nbest)
    if version_2_with_negative:
        _write_json(output_null_log_odds_file, predictions.null_odds)
    return predictions


def rank_spans(
    windows: Windows,
    n_best_size: int,
    max_answer_length: int,
    null: Answer | None = None,
) -> Iterator[tuple[InputFeatures | None, int, int, float, float]]:
    """Yields the spans that may answer a question, best first.

    Yields:
        feature: the window; None for no answer.
        start, end: the first and the last token of the span.
        start_logit, end_logit: spans are ranked by their sum. Ties keep the
            order of window, rank of the start, rank of the end.
    """
    columns = []
    for index, (feature, result) in enumerate(windows):
        start_logits = np.asarray(result.start_logits, np.float64)
        end_logits = np.asarray(result.end_logits, np.float64)
        starts = find_highest(start_logits, n_best_size)
        starts = starts[starts < len(feature.tokens)]
        starts = starts[feature.token_is_max_context[starts]]
        ends = find_highest(end_logits, n_best_size)
        ends = ends[ends < len(feature.tokens)]
        ends = ends[feature.token_to_orig_map[ends] >= 0]
        length = ends - starts[:, None] + 1
        i, j = np.nonzero((length > 0) & (length <= max_answer_length))
        starts, ends = starts[i], ends[j]
        columns.append(
            (
                np.full(len(starts), index),
                *(starts, ends),
                *(start_logits[starts], end_logits[ends]),
            )
        )
    if null:
        columns.append(([-1], [0], [0], [null.start_logit], [null.end_logit]))
    if not columns:
        return
    index, start, end, start_logit, end_logit = map(
        np.concatenate, zip(*columns, strict=True)
    )
    for k in np.argsort(-(start_logit + end_logit), kind="stable").tolist():
        yield (
            windows[index[k]][0] if index[k] >= 0 else None,
            int(start[k]),
            int(end[k]),
            float(start_logit[k]),
            float(end_logit[k]),
        )


def find_highest(logits: np.ndarray, count: int) -> np.ndarray:
    """Indices of the highest logits, in order; the lower index on ties."""
    if count < len(logits):
        lowest = np.partition(logits, -count)[-count]
        candidates = np.flatnonzero(logits >= lowest)
    else:
        candidates = np.arange(len(logits))
    order = np.argsort(-logits[candidates], kind="stable")
    return candidates[order[:count]]


def find_null(windows: Windows) -> Answer:
    """Returns "no answer" of the window that gives it the lowest score."""
    logits = [
        (float(result.start_logits[0]), float(result.end_logits[0]))
        for _, result in windows
    ]
    return Answer("", *min(logits, key=sum, default=(0.0, 0.0)))


def get_final_text(
    pred_text: str,
    orig_text: str,
    do_lower_case: bool,
    verbose_logging: bool = False,
) -> str:
    """Finds what the tokens of an answer were before they were tokenized.

    An answer may be less than the words it is in: "steve smith" of "Steve
    Smith's" is "Steve Smith". The words are tokenized anew; their characters
    before and after, but for spaces, are taken to correspond one to one.
    Where they cannot, the words stand as they are.

    Args:
        pred_text: the tokens of the answer, put together.
        orig_text: the words they are in.
        do_lower_case: bool. What the tokenizer was told.
        verbose_logging: bool. Tell when the words stand, and why.
    """
    tok_text = " ".join(BasicTokenizer(do_lower_case).tokenize(orig_text))
    start = tok_text.find(pred_text)
    # Where in the words the characters are that are no spaces.
    places = [i for i, char in enumerate(orig_text) if char != " "]
    if start < 0 or not pred_text or pred_text != pred_text.strip(" "):
        problem = "the answer is not in it"
    elif len(places) != len(tok_text.replace(" ", "")):
        problem = "it has gained or lost characters"
    else:
        first = len(tok_text[:start].replace(" ", ""))
        last = first + len(pred_text.replace(" ", "")) - 1
        return orig_text[places[first] : places[last] + 1]
    if verbose_logging:
        logging.info(
            "No way back from %r to %r, tokenized %r: %s.",
            *(pred_text, orig_text, tok_text, problem),
        )
    return orig_text


def _group_windows(
    examples: Sequence[SquadExample],
    features: Iterable[InputFeatures],
    results: Iterable[RawResult],
) -> list[Windows]:
    """Brings windows and results together, by question."""
    by_id = {result.unique_id: result for result in results}
    windows = [[] for _ in examples]
    for feature in features:
        if feature.unique_id not in by_id:
            raise ValueError(
                "Every window needs logits, but window "
                f"{feature.doc_span_index} of question "
                f"{examples[feature.example_index].qas_id} (unique_id "
                f"{feature.unique_id}) has none among {len(by_id)} results; "
                "predict all windows."
            )
        result = by_id[feature.unique_id]
        windows[feature.example_index].append((feature, result))
    return windows


def _join_pieces(pieces: Sequence[str]) -> str:
    text = " ".join(pieces).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def _join_words(
    example: SquadExample, feature: InputFeatures, start: int, end: int
) -> str:
    first, last = feature.token_to_orig_map[[start, end]]
    return " ".join(example.doc_tokens[first : last + 1])


def _add_probabilities(answers: Sequence[Answer]) -> list[dict]:
    """Makes the n-best list; the probabilities are a softmax over it."""
    scores = [answer.start_logit + answer.end_logit for answer in answers]
    highest = max(scores)
    weights = [math.exp(score - highest) for score in scores]
    total = sum(weights)
    return [
        {
            "text": answer.text,
            "probability": weight / total,
            "start_logit": answer.start_logit,
            "end_logit": answer.end_logit,
        }
        for answer, weight in zip(answers, weights, strict=True)
    ]


def _write_json(path: str, content: Mapping) -> None:
    with tf.io.gfile.GFile(path, "w") as file:
        file.write(json.dumps(content, indent=4) + "\n")
