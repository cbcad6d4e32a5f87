"""SQuAD examples -> tokens, on all processors.

All questions about a paragraph share its list of words, so that a paragraph
is tokenized once.
"""

import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.squad.examples import SquadExample
from keras_bert_ref.tokenization import FullTokenizer

TEXTS_PER_TASK = 5_000


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
            np.arange(num_words, dtype=np.int32), bounds[1:] - bounds[:-1]
        )
        yield EncodedExample(text_ids, word_index, query_ids, answer)


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
    """Tokenizes each text once, however often it is there."""
    places = {text: i for i, text in enumerate(dict.fromkeys(texts))}
    distinct = list(places)
    firsts = range(0, len(distinct) or 1, TEXTS_PER_TASK)
    results = map_in_order(
        functools.partial(_encode_task, tokenizer),
        (distinct[first : first + TEXTS_PER_TASK] for first in firsts),
        min(num_workers or os.cpu_count(), len(firsts)),
    )
    ids, lengths = map(np.concatenate, zip(*results, strict=True))
    starts = np.cumsum(lengths) - lengths

    place = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    bounds = np.concatenate(([0], np.cumsum(lengths[place])))
    # How far each token is from where it is among the distinct texts.
    shift = np.repeat(starts[place] - bounds[:-1], lengths[place])
    return _EncodedTexts(ids[np.arange(len(shift)) + shift], bounds)


def _encode_task(
    tokenizer: FullTokenizer, texts: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all texts in one array, and how many each has."""
    ids = list(map(tokenizer.encode, texts))
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    flat = itertools.chain.from_iterable(ids)
    return np.fromiter(flat, np.int32, lengths.sum()), lengths
