"""Reads a corpus from text files, tokenizing on the way."""

import functools
import itertools
from collections.abc import Iterator, Sequence

import tensorflow as tf
from absl import logging

from keras_bert_ref.pretraining.corpus import Block, Encoded, encode_block
from keras_bert_ref.pretraining.summary import progress_bar
from keras_bert_ref.records.parallel import map_in_order
from keras_bert_ref.tokenization import FullTokenizer

BLOCK_BYTES = 1 << 19


def find_files(patterns: str) -> list[str]:
    """Expands comma-separated globs in the order given, each one sorted."""
    paths = []
    for pattern in map(str.strip, patterns.split(",")):
        matches = sorted(tf.io.gfile.glob(pattern))
        if not matches:
            raise ValueError(
                "Every pattern in --input_file must match a file, but "
                f"{pattern!r} matches none; check the path."
            )
        paths += matches
    return paths


def count_bytes(paths: Sequence[str]) -> int:
    """The size of all files together."""
    return sum(tf.io.gfile.stat(path).length for path in paths)


def read_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Reads a file in blocks that end where a line ends.

    Lines end at LF. CR is dropped wherever it stands: so did the reader of
    the original.
    """
    first_line, rest = 1, b""
    with tf.io.gfile.GFile(path, "rb") as file:
        while chunk := file.read(block_bytes):
            text, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield Block(path, first_line, text.replace(b"\r", b""))
                first_line += text.count(b"\n") + 1
    if rest:
        yield Block(path, first_line, rest.replace(b"\r", b""))


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
        desc="tokenizing", total=count_bytes(paths), unit="B", unit_scale=True
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
