"""Lines of text -> batches for feature extraction.

A line is an example, blank or not: a sentence, or a pair as `a ||| b`. Lines
are read when they are needed, so their number does not matter.
"""

from collections.abc import Iterator
from typing import NamedTuple

import tensorflow as tf

from keras_bert_ref.sentence_pairs import encode_pair
from keras_bert_ref.text_files import decode
from keras_bert_ref.tokenization import FullTokenizer

SEPARATOR = " ||| "


class EncodedLine(NamedTuple):
    """Ids of L tokens and the segments these are in."""

    input_ids: list[int]
    segment_ids: list[int]


def encode_lines(
    input_file: str, tokenizer: FullTokenizer, max_seq_length: int
) -> Iterator[EncodedLine]:
    """Reads a file line by line; lines end at LF only."""
    with tf.io.gfile.GFile(input_file, "rb") as file:
        for number, line in enumerate(file, 1):
            text = decode(line, input_file, number)
            text_a, text_b = split_pair(text.strip())
            yield EncodedLine(
                *encode_pair(text_a, text_b, max_seq_length, tokenizer)
            )


def split_pair(line: str) -> tuple[str, str | None]:
    """Splits `a ||| b` where the mark stands last; else b is None."""
    before, mark, after = line.rpartition(SEPARATOR)
    return (before, after) if mark else (line, None)
