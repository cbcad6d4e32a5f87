"""Logits -> answers to SQuAD questions, as text of the original paragraph.

For each question: the spans of its windows, ranked by the sum of their start
and end logits; their text; probabilities over the best. SQuAD v2.0 also ranks
"no answer", the span from [CLS] to [CLS], which wins if it is far enough
ahead of all others.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_ref.squad.answer_files import write_json
from keras_bert_ref.squad.examples import SquadExample
from keras_bert_ref.squad.spans import RawResult, Span, Windows, rank_spans
from keras_bert_ref.squad.text import get_final_text, join_pieces
from keras_bert_ref.squad.windows import InputFeatures


class Answer(NamedTuple):
    """A span of text, or "" for no answer."""

    text: str
    start_logit: float
    end_logit: float

    @property
    def score(self) -> float:
        return self.start_logit + self.end_logit


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
    predictions = answer_questions(
        all_examples,
        all_features,
        all_results,
        n_best_size=n_best_size,
        max_answer_length=max_answer_length,
        do_lower_case=do_lower_case,
        version_2_with_negative=version_2_with_negative,
        null_score_diff_threshold=null_score_diff_threshold,
        verbose_logging=verbose_logging,
    )
    write_json(output_prediction_file, predictions.answers)
    write_json(output_nbest_file, predictions.nbest)
    if version_2_with_negative:
        write_json(output_null_log_odds_file, predictions.null_odds)
    return predictions


def answer_questions(
    all_examples: Sequence[SquadExample],
    all_features: Iterable[InputFeatures],
    all_results: Iterable[RawResult],
    *,
    n_best_size: int,
    max_answer_length: int,
    do_lower_case: bool,
    version_2_with_negative: bool = False,
    null_score_diff_threshold: float = 0.0,
    verbose_logging: bool = False,
) -> Predictions:
    """Answers all questions; for the arguments see `write_predictions`."""
    nbest, null_odds = {}, {}
    questions = _group_windows(all_examples, all_features, all_results)
    ranked = rank_spans(questions, n_best_size, max_answer_length)
    for example, windows, spans in zip(
        all_examples, questions, ranked, strict=True
    ):
        null = find_null(windows) if version_2_with_negative else None
        found = (
            read_span(example, span, do_lower_case, verbose_logging)
            for span in spans
        )
        answers = list(_keep_best(found, null, n_best_size))
        nbest[example.qas_id] = _add_probabilities(answers)
        if null:
            best = next((a for a in answers if a.text), Answer("", 0.0, 0.0))
            null_odds[example.qas_id] = (
                null.score - best.start_logit - best.end_logit
            )
    chosen = choose_answers(nbest, null_odds, null_score_diff_threshold)
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


def find_null(windows: Windows) -> Answer:
    """Returns "no answer" of the window that gives it the lowest score."""
    logits = [
        (float(result.start_logits[0]), float(result.end_logits[0]))
        for _, result in windows
    ]
    return Answer("", *min(logits, key=sum, default=(0.0, 0.0)))


def read_span(
    example: SquadExample,
    span: Span,
    do_lower_case: bool,
    verbose_logging: bool = False,
) -> Answer:
    """Finds the text of a span in the paragraph."""
    words = example.doc_tokens[span.first_word : span.last_word + 1]
    text = " ".join(words)
    # Whole words stand as they are, so there is no need to look for them.
    if not span.is_whole:
        pieces = span.feature.tokens_of(span.start, span.end + 1)
        text = get_final_text(
            join_pieces(pieces), text, do_lower_case, verbose_logging
        )
    return Answer(text, span.start_logit, span.end_logit)


def _group_windows(
    examples: Sequence[SquadExample],
    features: Iterable[InputFeatures],
    results: Iterable[RawResult],
) -> list[Windows]:
    """Brings windows and results together, by question."""
    by_id = {result.unique_id: result for result in results}
    questions = [[] for _ in examples]
    for feature in features:
        result = by_id.get(feature.unique_id)
        if result is None or np.isnan(result[1:]).any():
            raise ValueError(
                "Every window needs logits that are numbers, but window "
                f"{feature.doc_span_index} of question "
                f"{examples[feature.example_index].qas_id} (unique_id "
                f"{feature.unique_id}) has "
                f"{'NaN' if result else 'none'} among {len(by_id)} results; "
                "predict all windows, with a model that has not diverged."
            )
        questions[feature.example_index].append((feature, result))
    return questions


def _keep_best(
    answers: Iterable[Answer], null: Answer | None, n_best_size: int
) -> Iterable[Answer]:
    """Drops duplicates and what is beyond the n best; adds "no answer".

    In v1.1, which knows no such answer, there is always one all the same.
    """
    if null:
        answers = _insert(null, answers)
    kept: dict[str, Answer] = {}  # by text
    for answer in answers:
        kept.setdefault(answer.text, answer)
        if len(kept) == n_best_size:
            break
    if null:
        kept.setdefault("", null)
    return kept.values() or [Answer("empty", 0.0, 0.0)]


def _insert(null: Answer, answers: Iterable[Answer]) -> Iterator[Answer]:
    """Puts "no answer" behind all that are not worse."""
    is_in = False
    for answer in answers:
        if not is_in and answer.score < null.score:
            yield null
            is_in = True
        yield answer
    if not is_in:
        yield null


def _add_probabilities(answers: Sequence[Answer]) -> list[dict]:
    """Makes the n-best list; the probabilities are a softmax over it."""
    scores = [answer.score for answer in answers]
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
