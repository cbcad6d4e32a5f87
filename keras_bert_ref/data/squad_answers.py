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

from keras_bert_ref.data.squad_features import InputFeatures
from keras_bert_ref.data.squad_text import get_final_text, join_pieces
from keras_bert_ref.data.squad_tokens import SquadExample


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
    nbest, null_odds = {}, {}
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
                    join_pieces(feature.tokens[start : end + 1]),
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
        nbest[name] = _add_probabilities(list(answers.values()))
        if version_2_with_negative:
            odds = null.start_logit + null.end_logit
            best = next(filter(None, answers), None)
            if best:
                odds -= answers[best].start_logit
                odds -= answers[best].end_logit
            null_odds[name] = odds

    chosen = choose_answers(nbest, null_odds, null_score_diff_threshold)
    write_json(output_prediction_file, chosen)
    write_json(output_nbest_file, nbest)
    if version_2_with_negative:
        write_json(output_null_log_odds_file, null_odds)
    return Predictions(chosen, nbest, null_odds)


def choose_answers(
    nbest: Mapping[str, Sequence[Mapping]],
    null_odds: Mapping[str, float],
    null_score_diff_threshold: float,
) -> dict[str, str]:
    """Returns the best answers; "" where no answer is far enough ahead.

    For the arguments see `Predictions` and `write_predictions`. A question
    without null odds is always answered.
    """
    chosen = {}
    for name, answers in nbest.items():
        best = next((a["text"] for a in answers if a["text"]), "")
        odds = null_odds.get(name, -math.inf)
        chosen[name] = "" if odds > null_score_diff_threshold else best
    return chosen


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
    spans = []
    for index, (feature, result) in enumerate(windows):
        start_logits = np.asarray(result.start_logits, np.float64)
        starts = find_highest(start_logits, n_best_size)
        starts = starts[starts < len(feature.tokens)]
        starts = starts[feature.token_is_max_context[starts]]
        end_logits = np.asarray(result.end_logits, np.float64)
        ends = find_highest(end_logits, n_best_size)
        ends = ends[ends < len(feature.tokens)]
        ends = ends[feature.token_to_orig_map[ends] >= 0]
        length = ends - starts[:, None] + 1
        i, j = np.nonzero((length > 0) & (length <= max_answer_length))
        starts, ends = starts[i], ends[j]
        logits = start_logits[starts], end_logits[ends]
        spans.append((np.full(len(starts), index), starts, ends, *logits))
    if null:
        spans.append(([-1], [0], [0], [null.start_logit], [null.end_logit]))
    if not spans:
        return
    columns = [np.concatenate(column) for column in zip(*spans, strict=True)]
    order = np.argsort(-(columns[-2] + columns[-1]), kind="stable")
    columns = [column[order].tolist() for column in columns]
    for index, *span in zip(*columns, strict=True):
        yield windows[index][0] if index >= 0 else None, *span


def find_highest(logits: np.ndarray, count: int) -> np.ndarray:
    """Indices of the highest logits, in order; the lower index on ties."""
    count = min(count, len(logits))
    lowest = np.partition(logits, -count)[-count]
    candidates = np.flatnonzero(logits >= lowest)
    order = np.argsort(-logits[candidates], kind="stable")
    return candidates[order[:count]]


def find_null(windows: Windows) -> Answer:
    """Returns "no answer" of the window that gives it the lowest score."""
    logits = [
        (float(result.start_logits[0]), float(result.end_logits[0]))
        for _, result in windows
    ]
    return Answer("", *min(logits, key=sum, default=(0.0, 0.0)))


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


def _join_words(
    example: SquadExample, feature: InputFeatures, start: int, end: int
) -> str:
    first = feature.token_to_orig_map[start]
    last = feature.token_to_orig_map[end]
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


# Encodes a dict of an n-best list as if with an indent. Given an indent, the
# json module works in Python; separators it knows in C.
_NBEST_ENCODER = json.JSONEncoder(separators=(",\n            ", ": "))


def write_json(path: str, content: Mapping) -> None:
    """Writes what `json.dumps(content, indent=4)` gives, sooner."""
    with tf.io.gfile.GFile(path, "w") as file:
        separator = "{\n    "
        for name, value in content.items():
            file.write(f"{separator}{json.dumps(name)}: {_format(value)}")
            separator = ",\n    "
        file.write("\n}\n" if content else "{}\n")


def _format(value: str | float | Sequence[dict]) -> str:
    if isinstance(value, str | float):
        return json.dumps(value)
    items = ",".join(
        f"""
        {{
            {_NBEST_ENCODER.encode(item)[1:-1]}
        }}"""
        for item in value
    )
    return f"[{items}\n    ]"
