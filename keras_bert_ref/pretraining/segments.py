"""Documents -> pairs of segments, for next-sentence prediction.

Devlin et al. 2019, sec. 3.1, task 2, and A.2. Random numbers are drawn in the
order of the original.
"""

import random
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from keras_bert_ref.pretraining.corpus import Corpus
from keras_bert_ref.pretraining.settings import NO_SEGMENT, Settings
from keras_bert_ref.pretraining.shuffling import shuffled_range


class Segments(NamedTuple):
    """Two slices of the tokens of a corpus."""

    a_start: int
    b_start: int
    a_length: int
    b_length: int
    is_random_next: bool


class SegmentSampler:
    """Draws segments from one document after the other, in random order."""

    def __init__(self, corpus: Corpus, settings: Settings, rng: random.Random):
        # Python indexes a memoryview several times quicker than an array.
        self._sentences = memoryview(corpus.sentences)
        self._documents = memoryview(corpus.documents)
        self._order = shuffled_range(corpus.num_documents, rng)
        self._settings = settings
        self._rng = rng

    def sample(self, index: int) -> Iterator[Segments]:
        """Yields the segments of document number `index` in the order."""
        if self._settings.next_sentence_pairs:
            segments = self._sample_pairs(index)
        else:
            segments = self._sample_singles(index)
        return map(self._truncate, segments)

    def _sample_pairs(self, index: int) -> Iterator[Segments]:
        sentences, rng = self._sentences, self._rng
        begin, end = self._document(index)
        target = self._draw_target(self._settings.max_seq_length - 3)
        while begin < end:
            a_start = sentences[begin]
            stop = self._reach(begin, end, target)
            count = stop - begin
            split = begin + (rng.randint(1, count - 1) if count > 1 else 1)
            b_start = sentences[split]
            a_length = b_start - a_start
            is_random_next = count == 1 or rng.random() < 0.5
            if is_random_next:
                b_start, b_length = self._draw_next(index, target - a_length)
                begin = split  # what is not in A serves again
            else:
                b_length = sentences[stop] - b_start
                begin = stop
            yield Segments(a_start, b_start, a_length, b_length, is_random_next)

    def _sample_singles(self, index: int) -> Iterator[Segments]:
        begin, end = self._document(index)
        target = self._draw_target(self._settings.max_seq_length - 2)
        while begin < end:
            stop = self._reach(begin, end, target)
            a_start = self._sentences[begin]
            a_length = self._sentences[stop] - a_start
            yield Segments(a_start, 0, a_length, NO_SEGMENT, False)
            begin = stop

    def _document(self, index: int) -> tuple[int, int]:
        """First sentence of a document, and the first one after it."""
        document = self._order[index]
        return self._documents[document], self._documents[document + 1]

    def _draw_target(self, max_tokens: int) -> int:
        """How many tokens the segments of a document aim for together."""
        if self._rng.random() < self._settings.short_seq_prob:
            return self._rng.randint(2, max_tokens)
        return max_tokens

    def _reach(self, begin: int, end: int, target: int) -> int:
        """The sentence after the one that makes `target` tokens, or `end`."""
        enough = self._sentences[begin] + target
        return bisect_left(self._sentences, enough, begin + 1, end)

    def _draw_next(self, index: int, target: int) -> tuple[int, int]:
        """Start and length of a segment from some other document."""
        for _ in range(10):  # perhaps there is no other
            other = self._rng.randint(0, len(self._order) - 1)
            if other != index:
                break
        begin, end = self._document(other)
        begin = self._rng.randint(begin, end - 1)
        stop = self._reach(begin, end, target)
        start = self._sentences[begin]
        return start, self._sentences[stop] - start

    def _truncate(self, segments: Segments) -> Segments:
        """Cuts tokens off either end of the segment that is longer."""
        a_start, b_start, a_length, b_length, is_random_next = segments
        length = a_length + b_length + 3  # with [CLS] and two [SEP]
        for _ in range(length - self._settings.max_seq_length):
            is_first = self._rng.random() < 0.5
            if a_length > b_length:
                a_start += is_first
                a_length -= 1
            else:
                b_start += is_first
                b_length -= 1
        return Segments(a_start, b_start, a_length, b_length, is_random_next)
