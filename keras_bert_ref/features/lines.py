"""Lines of text -> batches for feature extraction.

A line is an example, blank or not: a sentence, or a pair as `a ||| b`. Lines
are read when they are needed, so their number does not matter.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_bert_ref.records.serialization import pad_rows
from keras_bert_ref.sentence_pairs import encode_pair
from keras_bert_ref.tokenization import FullTokenizer, convert_to_unicode

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
        for line in file:
            text_a, text_b = split_pair(convert_to_unicode(line).strip())
            yield EncodedLine(
                *encode_pair(text_a, text_b, max_seq_length, tokenizer)
            )


def split_pair(line: str) -> tuple[str, str | None]:
    """Splits `a ||| b` where the mark stands last; else b is None."""
    before, mark, after = line.rpartition(SEPARATOR)
    return (before, after) if mark else (line, None)


def pad_lines(
    lines: Sequence[EncodedLine], length_multiple: int, max_seq_length: int
) -> dict[str, np.ndarray]:
    """Makes a batch: int32 [lines, T], T a multiple of `length_multiple` or
    max_seq_length."""
    longest = max(len(line.input_ids) for line in lines)
    length = -(-longest // length_multiple) * length_multiple
    return pad_rows(lines, min(length, max_seq_length))
