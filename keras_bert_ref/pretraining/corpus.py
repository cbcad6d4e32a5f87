"""Text files -> documents of token ids.

A corpus has one sentence a line and a blank line between documents. Files are
read in blocks of whole lines, which can be tokenized apart from each other.

Encoded text is a pair of flat arrays: the ids of all tokens end to end, and
the number of tokens of each sentence, with a 0 wherever a document ends. Such
pairs can be joined end to end in turn: blocks make a `Corpus`, and documents
travel through files and processes in the same form.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from absl import logging

from keras_bert_ref.bars import progress_bar
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.text_files import Block, count_bytes, read_blocks
from keras_bert_ref.tokenization import FullTokenizer


class Encoded(NamedTuple):
    """Token ids and sentence lengths; a length of 0 ends a document."""

    tokens: np.ndarray
    lengths: np.ndarray


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Documents made of sentences made of tokens.

    Attributes:
        tokens: ids, end to end.
        sentences: int64 [number of sentences + 1]. Where each sentence
            starts in `tokens`, and where the last one ends.
        documents: int64 [number of documents + 1]. Where each document
            starts in `sentences`, and where the last one ends.
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray

    @classmethod
    def from_encoded(cls, parts: Iterable[Encoded]) -> "Corpus":
        """Joins encoded text; documents without sentences fall away."""
        # The document around them all ends with the last part.
        parts = [*parts, Encoded(np.array([], np.uint16), np.array([0]))]
        tokens, lengths = map(np.concatenate, zip(*parts, strict=True))
        is_sentence = lengths > 0
        sentences = np.cumsum(lengths[is_sentence], dtype=np.int64)
        ends = np.cumsum(is_sentence, dtype=np.int64)[~is_sentence]
        return cls(
            tokens=tokens,
            sentences=np.insert(sentences, 0, 0),
            documents=np.unique(np.insert(ends, 0, 0)),
        )

    @property
    def num_documents(self) -> int:
        return len(self.documents) - 1

    @property
    def num_sentences(self) -> int:
        return len(self.sentences) - 1


def encode_block(tokenizer: FullTokenizer, block: Block) -> Encoded:
    """Tokenizes the lines of a block; a blank line ends a document."""
    tokens, lengths = [], []
    for line in map(str.strip, block.decode().split("\n")):
        ids = tokenizer.encode(line)
        tokens += ids
        if ids or not line:  # a line that yields no tokens is no line
            lengths.append(len(ids))
    return Encoded(
        np.array(tokens, id_type(tokenizer.vocab)), np.array(lengths, np.int32)
    )


def id_type(vocab: Mapping[str, int]) -> type[np.unsignedinteger]:
    """The smallest type that holds every id."""
    return np.uint16 if max(vocab.values()) < 1 << 16 else np.uint32


def encode_files(
    paths: Sequence[str], tokenizer: FullTokenizer, num_workers: int
) -> Iterator[tuple[int, Encoded]]:
    """Tokenizes files in order, and shows how far it has come.

    Yields:
        index: of the file in `paths`.
        encoded: text of the next block of that file.
    """
    blocks, same_blocks = itertools.tee(
        (index, block)
        for index, path in enumerate(paths)
        for block in read_blocks(path)
    )
    encoded_blocks = map_in_order(
        functools.partial(encode_block, tokenizer),
        (block for _, block in blocks),
        num_workers,
    )
    with progress_bar(
        desc="tokenizing",
        total=count_bytes(paths),
        unit="bytes",
        unit_scale=True,
    ) as bar:
        for encoded, (index, block) in zip(
            encoded_blocks, same_blocks, strict=True
        ):
            bar.update(len(block.text) + 1)
            yield index, encoded


def check_documents(count: int, next_sentence_pairs: bool) -> None:
    """Refuses an empty corpus and warns of one that makes poor pairs."""
    if count == 0:
        raise ValueError(
            "A corpus needs text, but --input_file has 0 documents with "
            "tokens; check the files: one sentence a line, a blank line "
            "between documents."
        )
    if count == 1 and next_sentence_pairs:
        logging.warning(
            "Next-sentence prediction needs 2 documents or more, but the "
            "corpus has 1: what should be a random next segment will come "
            "from that same document. Put a blank line between documents."
        )
