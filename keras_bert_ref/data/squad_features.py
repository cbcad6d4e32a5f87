"""SQuAD questions -> windows over their paragraphs -> features.

A model sees `[CLS] question [SEP] text [SEP]`. Where a paragraph is too long,
windows slide over it, and each makes an input of its own. A token that is in
several windows counts in the one that shows most of what stands left and
right of it: there it has its "max context".

All questions about a paragraph share its list of words, which is tokenized
once. Features are arrays without padding, a tenth of what lists and
dictionaries take.
"""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_ref.data.parallel import map_in_order
from keras_bert_ref.tokenization import FullTokenizer

FIRST_UNIQUE_ID = 1_000_000_000
TEXTS_PER_TASK = 20_000


@dataclasses.dataclass(slots=True)
class SquadExample:
    """A question about a paragraph; the last four are for training.

    Attributes:
        qas_id: str. The id of the question.
        question_text: str.
        doc_tokens: the words of the paragraph; one list for all questions
            about it.
        orig_answer_text: str; "" if there is no answer.
        start_position: int. The answer's first word in `doc_tokens`; -1 if
            there is no answer.
        end_position: int. Likewise its last word.
        is_impossible: bool. There is no answer.
    """

    qas_id: str
    question_text: str
    doc_tokens: list[str]
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


@dataclasses.dataclass(slots=True, eq=False)
class InputFeatures:
    """A window: L tokens of `[CLS] question [SEP] text [SEP]`.

    Attributes:
        unique_id: int, counted from 1,000,000,000.
        example_index: int. Which of the examples is asked.
        doc_span_index: int. Which of its windows this is.
        tokens: L tokens.
        input_ids: int32 [L].
        segment_ids: int32 [L]; 1 in the text and the [SEP] that ends it.
        token_to_orig_map: int32 [L]; the index in `doc_tokens` of a token's
            word, -1 outside of the text.
        token_is_max_context: bool [L]; False outside of the text.
        start_position: int. For training, the answer's first token; 0, that
            is [CLS], unless the window holds the whole answer.
        end_position: int. Likewise its last token.
        is_impossible: bool. For training: the question has no answer.
    """

    unique_id: int
    example_index: int
    doc_span_index: int
    tokens: list[str]
    input_ids: np.ndarray
    segment_ids: np.ndarray
    token_to_orig_map: np.ndarray
    token_is_max_context: np.ndarray
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


class Window(NamedTuple):
    """A part of a text, in tokens."""

    start: int
    length: int


class EncodedExample(NamedTuple):
    """An example in tokens.

    Attributes:
        text_ids: int32, the whole paragraph.
        word_index: int32, for each token of the text, which word it is of.
        query_ids: int32, the question.
        answer: first and last token of the answer in the text; None if there
            is no answer, or none is looked for.
    """

    text_ids: np.ndarray
    word_index: np.ndarray
    query_ids: np.ndarray
    answer: tuple[int, int] | None


def convert_examples_to_features(
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    output_fn: Callable[[InputFeatures], object],
    num_workers: int | None = None,
) -> None:
    """Calls `output_fn` with every window of every example, in order.

    Args:
        examples: see `read_squad_examples`.
        tokenizer: FullTokenizer.
        max_seq_length: int. No input is longer.
        doc_stride: int. How far apart windows start.
        max_query_length: int. Longer questions are cut.
        is_training: bool. Whether answers are looked for.
        output_fn: `list.append`, `FeatureWriter.process_feature` or such.
        num_workers: int. Processes to tokenize with; default: all
            processors. It does not change the result.
    """
    if doc_stride < 1:
        raise ValueError(
            f"Windows must move on, but doc_stride={doc_stride}; set it to 1 "
            "or more."
        )
    cls, sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    unique_id = itertools.count(FIRST_UNIQUE_ID)
    encoded = encode_examples(examples, tokenizer, is_training, num_workers)
    for index, (text_ids, word_index, query_ids, answer) in enumerate(encoded):
        query_ids = query_ids[:max_query_length]
        room = max_seq_length - len(query_ids) - 3
        if room < 1:
            raise ValueError(
                "An input must hold [CLS], the question, [SEP], some text and "
                f"[SEP], but max_seq_length={max_seq_length} and question "
                f"{examples[index].qas_id} has {len(query_ids)} tokens; raise "
                "max_seq_length or lower max_query_length="
                f"{max_query_length}."
            )
        offset = len(query_ids) + 2  # of the text
        windows = find_windows(len(text_ids), room, doc_stride)
        best_window = find_max_context(windows)
        for span_index, window in enumerate(windows):
            part = slice(window.start, window.start + window.length)
            input_ids = np.concatenate(
                ([cls], query_ids, [sep], text_ids[part], [sep]),
                dtype=np.int32,
            )
            feature = InputFeatures(
                unique_id=next(unique_id),
                example_index=index,
                doc_span_index=span_index,
                tokens=tokenizer.convert_ids_to_tokens(input_ids.tolist()),
                input_ids=input_ids,
                segment_ids=(np.arange(len(input_ids)) >= offset).astype(
                    np.int32
                ),
                token_to_orig_map=_frame(word_index[part], offset, -1),
                token_is_max_context=_frame(
                    best_window[part] == span_index, offset, False
                ),
            )
            if is_training:
                feature.start_position, feature.end_position = _place(
                    answer, window, offset
                )
                feature.is_impossible = examples[index].is_impossible
            output_fn(feature)


def find_windows(
    num_tokens: int, max_length: int, doc_stride: int
) -> list[Window]:
    """Windows over a text, up to the first that reaches its end."""
    windows = []
    start = 0
    while start < num_tokens:
        length = min(max_length, num_tokens - start)
        windows.append(Window(start, length))
        if start + length == num_tokens:
            break
        start += min(length, doc_stride)
    return windows


def find_max_context(windows: Sequence[Window]) -> np.ndarray:
    """Returns, for each token of the text, the window that shows it best.

    The score is the smaller of what stands left and right of the token, plus
    a little for a long window. Ties go to the earlier window.
    """
    num_tokens = sum(windows[-1]) if windows else 0
    best_score = np.zeros(num_tokens)
    best_window = np.zeros(num_tokens, np.int32)
    for index, (start, length) in enumerate(windows):
        part = slice(start, start + length)
        left = np.arange(length)
        score = np.minimum(left, left[::-1]) + 0.01 * length
        best_window[part][score > best_score[part]] = index
        best_score[part] = np.maximum(score, best_score[part])
    return best_window


def improve_answer_span(
    text_ids: Sequence[int], first: int, last: int, answer_ids: Sequence[int]
) -> tuple[int, int]:
    """Tightens a span of whole words to the tokens of the answer.

    In "(1895-1943)." the answer "1895" is a part of a word. The span stays
    as it is if the answer, tokenized on its own, is not in it.
    """
    length = len(answer_ids)
    for start in range(first, last + 2 - length):
        if length and text_ids[start : start + length] == answer_ids:
            return start, start + length - 1
    return first, last


def encode_examples(
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    is_training: bool,
    num_workers: int | None = None,
) -> Iterator[EncodedExample]:
    """Tokenizes examples, each paragraph once, on several processors."""
    paragraphs = {id(e.doc_tokens): e.doc_tokens for e in examples}
    words = list(itertools.chain.from_iterable(paragraphs.values()))
    counts = itertools.accumulate(map(len, paragraphs.values()), initial=0)
    first_words = dict(zip(paragraphs, counts, strict=False))
    questions = [e.question_text for e in examples]
    answers = [e.orig_answer_text or "" for e in examples if is_training]
    encoded = _encode_texts(words + questions + answers, tokenizer, num_workers)
    for i, example in enumerate(examples):
        num_words = len(example.doc_tokens)
        text_ids, bounds = encoded.take(
            first_words[id(example.doc_tokens)], num_words
        )
        query_ids, _ = encoded.take(len(words) + i)
        answer = None
        if is_training and not example.is_impossible:
            answer_ids, _ = encoded.take(len(words) + len(questions) + i)
            answer = improve_answer_span(
                text_ids.tolist(),
                int(bounds[example.start_position]),
                int(bounds[example.end_position + 1]) - 1,
                answer_ids.tolist(),
            )
        word_index = np.repeat(
            np.arange(num_words, dtype=np.int32), np.diff(bounds)
        )
        yield EncodedExample(text_ids, word_index, query_ids, answer)


class _EncodedTexts(NamedTuple):
    """Texts one after the other; text i is `ids[bounds[i]:bounds[i + 1]]`."""

    ids: np.ndarray
    bounds: np.ndarray

    def take(self, first: int, count: int = 1) -> "_EncodedTexts":
        """Takes out so many texts."""
        bounds = self.bounds[first : first + count + 1]
        return _EncodedTexts(
            self.ids[bounds[0] : bounds[-1]], bounds - bounds[0]
        )


def _encode_texts(
    texts: Sequence[str], tokenizer: FullTokenizer, num_workers: int | None
) -> _EncodedTexts:
    starts = range(0, len(texts) or 1, TEXTS_PER_TASK)
    results = map_in_order(
        functools.partial(_encode_task, tokenizer),
        (texts[start : start + TEXTS_PER_TASK] for start in starts),
        min(num_workers or os.cpu_count(), len(starts)),
    )
    ids, lengths = map(np.concatenate, zip(*results, strict=True))
    return _EncodedTexts(ids, np.concatenate(([0], np.cumsum(lengths))))


def _encode_task(
    tokenizer: FullTokenizer, texts: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all texts in one array, and how many each has."""
    ids = list(map(tokenizer.encode, texts))
    lengths = np.fromiter(map(len, ids), np.int32, len(ids))
    flat = itertools.chain.from_iterable(ids)
    return np.fromiter(flat, np.int32, lengths.sum()), lengths


def _frame(values: np.ndarray, offset: int, fill: int) -> np.ndarray:
    """Puts what is known of the text in its place in the input."""
    framed = np.full(offset + len(values) + 1, fill, values.dtype)
    framed[offset:-1] = values
    return framed


def _place(
    answer: tuple[int, int] | None, window: Window, offset: int
) -> tuple[int, int]:
    """Where in the input the answer is; at [CLS] unless all of it is there."""
    if answer is None:
        return 0, 0
    first, last = answer
    if first < window.start or last >= window.start + window.length:
        return 0, 0
    return first - window.start + offset, last - window.start + offset
