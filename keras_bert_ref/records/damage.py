"""Whether files of records are whole, and where they are not.

A file is walked from length to length, without a look at the records, which
is quick; which record is damaged is looked for where reading fails.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator, Sequence

import tensorflow as tf

from keras_bert_ref.records.files import open_file

# A TFRecord: length (8 bytes), its checksum (4), the record, its checksum (4).
HEADER = struct.Struct("<Q4x")
FOOTER_SIZE = 4
CHUNK = 1 << 24


def count_records(path: str) -> int:
    """Counts the records of a file; raises where it is cut short."""
    count = 0
    for _, end, size in _frames(path):
        if end > size:
            raise make_error([path])
        count += 1
    return count


def make_error(paths: Sequence[str]) -> ValueError:
    """Says which record of which file cannot be read."""
    return ValueError(
        f"Cannot read {_find_damage(paths)}: it is damaged or cut short. Make "
        "or copy the file again."
    )


def _find_damage(paths: Sequence[str]) -> str:
    for path in paths:
        records = iter(open_file(tf.constant(path)))
        for count, (position, _, _) in enumerate(_frames(path)):
            try:
                next(records)
            except (tf.errors.OpError, StopIteration):
                return f"record {count}, at byte {position} of {path}"
    return f"a record of {', '.join(paths)}"


def _frames(path: str) -> Iterator[tuple[int, int, int]]:
    """Where each record begins and ends, and how far the file was read."""
    with tf.io.gfile.GFile(path, "rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
        buffer, start, position = b"", 0, 0
        while True:
            try:
                chunk = file.read(CHUNK)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise ValueError(
                    f"{path} is cut short or damaged: it cannot be "
                    f"decompressed ({error}). Make or copy the file again."
                ) from error
            buffer += chunk
            size = start + len(buffer)
            while position + HEADER.size <= size:
                (length,) = HEADER.unpack_from(buffer, position - start)
                end = position + HEADER.size + length + FOOTER_SIZE
                if end > size and chunk:
                    break
                yield position, end, size
                position = end
            if not chunk:
                if position < size < position + HEADER.size:
                    yield position, position + HEADER.size, size
                return
            buffer, start = buffer[position - start :], position
