"""Records -> TFRecord files, without TensorFlow, whose import takes seconds.

In a file, each record stands between its length and checksums:

    length    uint64
    checksum  uint32, of the length
    record    bytes
    checksum  uint32, of the record

The checksums are CRC-32C, of many records side by side: worth it for large
batches of short records. For others there is `records.files.open_outputs`.
"""

import contextlib
import functools
import gzip
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from keras_bert_ref import files

POLYNOMIAL = 0x82F63B78  # bits in reverse order
# Takes a checksum that has seen nothing but zeros to 2^32 - 1, where CRC-32C
# starts. So what is shorter can be filled up with zeros in front.
START = bytes.fromhex("54641f64")
MASK_DELTA = 0xA282EAD8
BATCH_SIZE = 1024


@contextlib.contextmanager
def open_outputs(
    paths: Sequence[str],
) -> Iterator[Callable[[Sequence[bytes]], None]]:
    """Yields a function that deals records out to the files in turn.

    The files appear when all are whole. Those named .gz are compressed.
    """
    with files.unfinished(paths) as names, contextlib.ExitStack() as stack:

        def open_output(path: str, name: str):
            file = stack.enter_context(files.open_file(name, "wb"))
            if not path.endswith(".gz"):
                return file
            return stack.enter_context(
                gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
            )

        turns = itertools.cycle(list(map(open_output, paths, names)))

        def write(records: Sequence[bytes]) -> None:
            for record in frame(records):
                next(turns).write(record)

        yield write


def frame(records: Sequence[bytes]) -> Iterable[bytes]:
    """Puts lengths and checksums around records."""
    for start in range(0, len(records), BATCH_SIZE):
        batch = records[start : start + BATCH_SIZE]
        lengths = [len(record).to_bytes(8, "little") for record in batch]
        parts = lengths, _checksums(lengths), batch, _checksums(batch)
        yield from map(b"".join, zip(*parts, strict=True))


def _checksums(strings: Sequence[bytes]) -> list[bytes]:
    """The masked CRC-32C of each."""
    width = len(START) + max(map(len, strings))
    width += width % 2
    rows = b"".join((START + x).rjust(width, b"\0") for x in strings)
    columns = np.frombuffer(rows, "<u2").reshape(len(strings), -1).T.copy()
    table = _make_table()
    crc = np.zeros(len(strings), np.uint32)
    for pair_of_bytes in columns:
        crc = table[(crc & 0xFFFF) ^ pair_of_bytes] ^ (crc >> 16)
    crc = ~crc
    masked = ((crc >> 15) | (crc << 17)) + np.uint32(MASK_DELTA)  # mod 2^32
    return [x.tobytes() for x in masked.astype("<u4")]


@functools.cache
def _make_table() -> np.ndarray:
    """What each two bytes add to a checksum: uint32 [2^16]."""
    table = np.arange(1 << 16, dtype=np.uint32)
    for _ in range(16):
        table = (table >> 1) ^ np.uint32(POLYNOMIAL) * (table & 1)
    return table
