"""Tags of words, IOB1 or IOB2 -> chunks, by the rules of conlleval.

A tag is O, B-<type> or I-<type>. A chunk starts at B, at I after O, and
wherever the type changes; it ends before the next start, before O, and with
the sentence. Under these rules IOB1 and IOB2 mean the same, so nobody has to
say which one a file has.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
TAG = re.compile(r"O|[BI]-.+")


class Chunk(NamedTuple):
    """Words of a sentence, from start up to, not including, end."""

    start: int
    end: int
    type: str


def find_chunks(tags: Sequence[str]) -> list[Chunk]:
    """The chunks of a sentence, in order."""
    chunks = []
    start, current = 0, ""  # of the chunk that is open; "": none is
    for i, tag in enumerate([*tags, OUTSIDE]):
        kind = tag[2:]  # "" outside
        goes_on = tag.startswith("I-") and kind == current
        if current and not goes_on:
            chunks.append(Chunk(start, i, current))
        if not goes_on:
            start, current = i, kind
    return chunks


def to_iob2(tags: Sequence[str]) -> list[str]:
    """The same chunks with a B- at the start of each."""
    result = [OUTSIDE] * len(tags)
    for start, end, kind in find_chunks(tags):
        result[start:end] = [f"I-{kind}"] * (end - start)
        result[start] = f"B-{kind}"
    return result


def find_labels(sentences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """The classes of a tagger: O, then B and I of each type, sorted."""
    types = {tag[2:] for tags in sentences for tag in tags} - {""}
    both = (f"{prefix}-{kind}" for kind in sorted(types) for prefix in "BI")
    return OUTSIDE, *both
