"""Text files -> documents of token ids.

A corpus has one sentence a line and a blank line between documents. Files are
read in blocks of whole lines, which can be tokenized apart from each other.

Encoded text is a pair of flat arrays: the ids of all tokens end to end, and
the number of tokens of each sentence, with a 0 wherever a document ends. Such
pairs can be joined end to end in turn: blocks make a `Corpus`, and documents
travel through files and processes in the same form.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from keras_bert_ref.tokenization import FullTokenizer


class Block(NamedTuple):
    """Whole lines of a file, from line `first_line` on, counting from 1."""

    path: str
    first_line: int
    text: bytes

    def decode(self) -> str:
        """The text; raises with file and line where it is not UTF-8."""
        try:
            return self.text.decode()
        except UnicodeDecodeError as error:
            line = self.first_line + self.text.count(b"\n", 0, error.start)
            raise ValueError(
                f"Text must be UTF-8, but line {line} of {self.path} is not "
                f"(byte {self.text[error.start]:#x}: {error.reason}); convert "
                "the file, for example with iconv."
            ) from None


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
