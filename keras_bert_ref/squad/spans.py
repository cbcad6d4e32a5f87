"""Logits -> spans of tokens that may be answers, best first.

Works on the windows of many questions at a time.

Shapes: N windows, T tokens, K starts and K ends to combine in a window.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_ref.squad.windows import InputFeatures

QUESTIONS_AT_A_TIME = 256
SPANS_AT_A_TIME = 32


class RawResult(NamedTuple):
    """The model's logits for one window, by position."""

    unique_id: int
    start_logits: Sequence[float]
    end_logits: Sequence[float]


class Span(NamedTuple):
    """From the first to the last token of an answer, in a window.

    Attributes:
        feature: the window.
        start: int. The first token.
        end: int. The last one.
        start_logit: float.
        end_logit: float.
        first_word: int. The word that the first token is of.
        last_word: int. Likewise the last one.
        is_whole: bool. No other token of the text is of these words.
    """

    feature: InputFeatures
    start: int
    end: int
    start_logit: float
    end_logit: float
    first_word: int
    last_word: int
    is_whole: bool


# The windows of a question, each with what the model says of it.
Windows = Sequence[tuple[InputFeatures, RawResult]]


def rank_spans(
    questions: Sequence[Windows], n_best_size: int, max_answer_length: int
) -> Iterator[Iterator[Span]]:
    """Ranks spans by the sum of their logits, for each question.

    In each window the `n_best_size` best starts are combined with as many
    ends; both must be in the text, the start where it has its max context.
    Ties keep the order of window, rank of the start, rank of the end.
    """
    for first in range(0, len(questions), QUESTIONS_AT_A_TIME):
        yield from _rank_together(
            questions[first : first + QUESTIONS_AT_A_TIME],
            n_best_size,
            max_answer_length,
        )


def _rank_together(
    questions: Sequence[Windows], n_best_size: int, max_answer_length: int
) -> Iterator[Iterator[Span]]:
    windows = [window for question in questions for window in question]
    counts = [len(question) for question in questions]
    question_of = np.repeat(np.arange(len(questions)), counts)  # [N]
    logits, is_allowed, words = _stack(windows)  # of starts, of ends
    best = find_highest(logits, n_best_size)  # [2, N, K]
    logits = np.take_along_axis(logits, best, axis=2)
    is_allowed = np.take_along_axis(is_allowed, best, axis=2)

    starts, ends = best[0][:, :, None], best[1][:, None, :]
    is_span = is_allowed[0][:, :, None] & is_allowed[1][:, None, :]  # [N, K, K]
    is_span &= (starts <= ends) & (ends < starts + max_answer_length)
    window, i, j = np.nonzero(is_span)
    start_logit, end_logit = logits[0][window, i], logits[1][window, j]
    # A stable sort, question by question.
    order = np.lexsort((-(start_logit + end_logit), question_of[window]))
    start, end = best[0][window, i], best[1][window, j]
    # A window may begin or end within a word: outside of it is -1.
    before, first_word, last_word, after = (
        words[window, token] for token in (start - 1, start, end, end + 1)
    )
    is_whole = (before >= 0) & (before < first_word) & (last_word < after)
    columns = [
        column[order]
        for column in (
            *(window, start, end, start_logit, end_logit),
            *(first_word, last_word, is_whole),
        )
    ]

    def make_spans(first: int, last: int) -> Iterator[Span]:
        # Few are asked for: those beyond stay arrays.
        for k in range(first, last, SPANS_AT_A_TIME):
            rows = slice(k, min(k + SPANS_AT_A_TIME, last))
            for index, *values in zip(
                *(column[rows].tolist() for column in columns), strict=True
            ):
                yield Span(windows[index][0], *values)

    num_spans = np.bincount(question_of[window], minlength=len(questions))
    ends = np.cumsum(num_spans).tolist()
    return map(make_spans, [0, *ends], ends)


def _stack(windows: Windows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Puts windows side by side.

    Returns:
        logits: float [2, N, T].
        is_allowed: bool [2, N, T]. Where an answer may start and end.
        words: int [N, T + 1]. The word of each token, -1 outside of the text.
    """
    num_tokens = max((len(r.start_logits) for _, r in windows), default=1)
    shape = len(windows), num_tokens
    logits = np.full((2, *shape), -np.inf)
    is_best = np.zeros(shape, bool)
    words = np.full((len(windows), num_tokens + 1), -1)
    for i, (feature, result) in enumerate(windows):
        logits[0, i, : len(result.start_logits)] = result.start_logits
        logits[1, i, : len(result.end_logits)] = result.end_logits
        length = len(feature.input_ids)
        is_best[i, :length] = feature.token_is_max_context
        words[i, :length] = feature.token_to_orig_map
    return logits, np.stack([is_best, words[:, :-1] >= 0]), words


def find_highest(logits: np.ndarray, count: int) -> np.ndarray:
    """Indices of the highest, in order; of equals the first ones.

    Args:
        logits: float [..., T].
        count: int K, at most T.

    Returns:
        int [..., K].
    """
    count = min(count, logits.shape[-1])
    lowest = np.partition(logits, -count)[..., -count, None]
    is_higher = logits > lowest
    is_equal = logits == lowest
    room = count - np.count_nonzero(is_higher, axis=-1, keepdims=True)
    is_chosen = is_higher | (is_equal & (np.cumsum(is_equal, -1) <= room))
    indices = np.nonzero(is_chosen)[-1].reshape(*logits.shape[:-1], count)
    chosen = np.take_along_axis(logits, indices, -1)
    order = np.argsort(-chosen, kind="stable")
    return np.take_along_axis(indices, order, -1)
