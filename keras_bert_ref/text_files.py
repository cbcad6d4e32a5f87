"""Text files: found by patterns, read in blocks of whole lines."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keras_bert_ref import files

BLOCK_BYTES = 1 << 19


class Block(NamedTuple):
    """Whole lines of a file, from line `first_line` on, counting from 1."""

    path: str
    first_line: int
    text: bytes

    def decode(self) -> str:
        """The text; raises with file and line where it is not UTF-8."""
        return decode(self.text, self.path, self.first_line)


def decode(text: bytes, path: str, first_line: int) -> str:
    """Text of a file, from some line on; raises with file and line where it
    is not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        line = first_line + text.count(b"\n", 0, error.start)
        raise ValueError(
            f"Text must be UTF-8, but line {line} of {path} is not "
            f"(byte {text[error.start]:#x}: {error.reason}); convert "
            "the file, for example with iconv."
        ) from None


def find_files(patterns: str) -> list[str]:
    """Expands comma-separated globs in the order given, each one sorted."""
    paths = []
    for pattern in map(str.strip, patterns.split(",")):
        matches = sorted(files.glob(pattern))
        if not matches:
            raise ValueError(
                "Every pattern in --input_file must match a file, but "
                f"{pattern!r} matches none; check the path."
            )
        paths += matches
    return paths


def count_bytes(paths: Sequence[str]) -> int:
    """The size of all files together."""
    return sum(files.size(path) for path in paths)


def read_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Reads a file in blocks that end where a line ends.

    Lines end at LF. CR is dropped wherever it stands: so did the reader of
    the original.
    """
    first_line, rest = 1, b""
    with files.open_file(path, "rb") as file:
        while chunk := file.read(block_bytes):
            text, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield Block(path, first_line, text.replace(b"\r", b""))
                first_line += text.count(b"\n") + 1
    if rest:
        yield Block(path, first_line, rest.replace(b"\r", b""))
