"""Sentences -> windows of pieces, in which each word is predicted once.

A model sees `[CLS] pieces [SEP]`, all of it segment 0. Every word is cut into
pieces by itself, and its tag is predicted at its first piece. What stands
around a sentence is up to `context`:

    sentence              nothing.
    document              as many words before and after as fit: windows slide
                          over the document, and a word belongs to the window
                          in which it has its max context.
    sentence_in_document  a sentence in the middle and its neighbours beside
                          it, as far as they fit; its own words are predicted.

Where a sentence or a document is too long, windows slide over it.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from keras_bert_ref.ner.files import Sentence
from keras_bert_ref.sliding_windows import find_max_context, find_windows
from keras_bert_ref.tokenization import FullTokenizer


class TaggedWindow(NamedTuple):
    """Tokens, and the words among them that are predicted here.

    Attributes:
        input_ids: int32 [L], `[CLS] pieces [SEP]`.
        segment_ids: int32 [L], zeros.
        positions: int [W]. Where the first pieces of its words stand.
        words: int [W]. Which words of the file these are, from 0.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray
    positions: np.ndarray
    words: np.ndarray


class _Text(NamedTuple):
    """Pieces of consecutive words: ids; where the words begin among them; and
    which word of the file the first is."""

    ids: np.ndarray
    starts: np.ndarray
    first_word: int


def make_windows(
    sentences: Sequence[Sentence],
    tokenizer: FullTokenizer,
    *,
    max_seq_length: int,
    context: str = "sentence",
    doc_stride: int = 128,
) -> list[TaggedWindow]:
    """Makes the windows of a file, in order.

    Args:
        max_seq_length: int. No window is longer.
        context: see --context.
        doc_stride: int. How far apart windows start, in pieces.
    """
    if doc_stride < 1:
        raise ValueError(
            f"Windows must move on, but doc_stride={doc_stride}; set it to 1 "
            "or more."
        )
    room = max_seq_length - 2
    texts = _encode(sentences, tokenizer, room)
    if context == "document":
        texts = [_join(texts[part]) for part in _documents(sentences)]
    frame = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
    if context != "sentence_in_document":
        return [
            window
            for text in texts
            for window in _slide(text, room, doc_stride, frame)
        ]
    windows = []
    for part in _documents(sentences):
        document = _join(texts[part])
        for text in texts[part]:
            if len(text.ids) > room:
                windows += _slide(text, room, doc_stride, frame)
            else:
                windows.append(_surround(text, document, room, frame))
    return windows


def _encode(sentences, tokenizer: FullTokenizer, room: int) -> list[_Text]:
    """Cuts each word into pieces by itself.

    A word without pieces, of control characters for instance, is [UNK]; one
    that alone is longer than a window keeps the pieces that fit.
    """
    unknown = tokenizer.convert_tokens_to_ids(["[UNK]"])
    texts, first_word = [], 0
    for sentence in sentences:
        pieces = [
            (tokenizer.encode(w) or unknown)[:room] for w in sentence.words
        ]
        ids = np.fromiter(itertools.chain.from_iterable(pieces), np.int32)
        ends = np.cumsum(list(map(len, pieces)))
        starts = np.concatenate(([0], ends[:-1]))
        texts.append(_Text(ids, starts, first_word))
        first_word += len(pieces)
    return texts


def _documents(sentences: Sequence[Sentence]) -> Iterator[slice]:
    """The sentences of each document."""
    start = 0
    for _, group in itertools.groupby(sentences, key=lambda s: s.document):
        end = start + sum(1 for _ in group)
        yield slice(start, end)
        start = end


def _join(texts: Sequence[_Text]) -> _Text:
    """One text of consecutive ones."""
    offsets = np.cumsum([0, *(len(text.ids) for text in texts)])[:-1]
    starts = [
        t.starts + offset for t, offset in zip(texts, offsets, strict=True)
    ]
    ids = np.concatenate([text.ids for text in texts])
    return _Text(ids, np.concatenate(starts), texts[0].first_word)


def _slide(text: _Text, room: int, doc_stride: int, frame):
    """Windows over a text; usually one."""
    windows = find_windows(len(text.ids), room, doc_stride)
    owners = find_max_context(windows)[text.starts]  # of each word
    for index, (start, length) in enumerate(windows):
        own = np.flatnonzero(owners == index)
        if len(own):
            yield _make_window(text, start, start + length, own, frame)


def _surround(text: _Text, document: _Text, room: int, frame) -> TaggedWindow:
    """A sentence with what stands around it in its document: as much on
    either side, or more on one where the other has less."""
    first = text.first_word - document.first_word
    own = np.arange(first, first + len(text.starts))
    start = int(document.starts[first])
    end = start + len(text.ids)
    left, right = start, len(document.ids) - end  # what there is
    spare = room - len(text.ids)
    before = min(left, max(spare // 2, spare - right))
    after = min(right, spare - before)
    return _make_window(document, start - before, end + after, own, frame)


def _make_window(text: _Text, start: int, end: int, own, frame):
    """`[CLS] pieces [SEP]`, with the places of its own words."""
    cls, sep = frame
    input_ids = np.concatenate(
        ([cls], text.ids[start:end], [sep]), dtype=np.int32
    )
    return TaggedWindow(
        input_ids=input_ids,
        segment_ids=np.zeros_like(input_ids),
        positions=text.starts[own] - start + 1,  # [CLS] is 0
        words=text.first_word + own,
    )
