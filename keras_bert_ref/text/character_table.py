"""What becomes of each character, as arrays that a TensorFlow graph reads.

The arrays are filled by calling the functions of characters.py, so that the
tokenizer in the graph cannot differ from the one in Python. They are kept by
pages of 256 characters, and pages that are alike are kept once: a character
that stays itself, for instance, has shift 0 wherever it is.
"""

import dataclasses
import functools
import unicodedata
from typing import NamedTuple

import numpy as np

from keras_bert_ref import characters

PAGE_SIZE = 256
NUM_CODES = 0x110000
CAPITAL_SIGMA, FINAL_SIGMA = "Σ", "ς"
# What becomes of a character: it is part of a word, is a space, is a word of
# its own, or is dropped.
PART, SPACE, WORD, DROPPED = range(4)
# How a character takes part in the rule of the final sigma.
OTHER, CASED, IGNORED = range(3)
# An order class no combining character has; see Character.
NEVER_BETWEEN = 255


class Character(NamedTuple):
    """What is known of a character.

    Attributes:
        kind: PART, SPACE, WORD or DROPPED.
        shift: from its code point to that of what becomes of it.
        expansion: where a character becomes several, these; else "".
        order_class: its combining class, by which Unicode sorts what stands
            between two characters of class 0. NEVER_BETWEEN for characters
            that are dropped and do not end such a sequence.
        sigma_class: OTHER, CASED or IGNORED.
    """

    kind: int
    shift: int = 0
    expansion: str = ""
    order_class: int = 0
    sigma_class: int = OTHER


@dataclasses.dataclass(frozen=True)
class CharacterTable:
    """Characters by pages; place = pages[code // 256] * 256 + code % 256.

    Attributes:
        pages: int32 [NUM_CODES / 256], the page a code point is on.
        entries: int32 [places], shift * 8 + needs_context * 4 + kind: what is
            read of every character at once. Those that neighbours change,
            that become several or are dropped need context.
        order_classes, sigma_classes: int32 [places].
        expansions: int32 [places], an index of `expanded`, 0 for none.
        expanded: code points of each expansion; the first one is (0,).
    """

    pages: np.ndarray
    entries: np.ndarray
    expansions: np.ndarray
    order_classes: np.ndarray
    sigma_classes: np.ndarray
    expanded: list[tuple[int, ...]]


@functools.cache
def make_character_table(do_lower_case: bool) -> CharacterTable:
    """Fills the table from the tokenizer's functions, in about a second."""
    expansions = {"\0": 0}
    columns = np.zeros((NUM_CODES, 5), np.int32)
    for start, end in _find_alike():
        known = describe(chr(start), do_lower_case)
        expansion = known.expansion or "\0"
        index = expansions.setdefault(expansion, len(expansions))
        columns[start:end] = (*known[:2], index, *known[3:])
    distinct: dict[bytes, int] = {}
    pages = [
        distinct.setdefault(page.tobytes(), len(distinct))
        for page in columns.reshape(-1, PAGE_SIZE, columns.shape[1])
    ]
    places = np.frombuffer(b"".join(distinct), np.int32)
    kinds, shifts, expansion, order, sigma = places.reshape(-1, 5).T.copy()
    needs_context = (kinds == DROPPED) | (order > 0) | (expansion > 0)
    if do_lower_case:
        sigma_code = ord(CAPITAL_SIGMA)
        page = pages[sigma_code // PAGE_SIZE]
        needs_context[page * PAGE_SIZE + sigma_code % PAGE_SIZE] = True
    return CharacterTable(
        pages=np.array(pages, np.int32),
        entries=shifts * 8 + needs_context.astype(np.int32) * 4 + kinds,
        expansions=expansion,
        order_classes=order,
        sigma_classes=sigma,
        expanded=[tuple(map(ord, text)) for text in expansions],
    )


def describe(char: str, do_lower_case: bool) -> Character:
    """What BasicTokenizer makes of a character, step by step."""
    text = characters.clean(char)
    if not text:
        return Character(
            DROPPED, order_class=NEVER_BETWEEN, sigma_class=IGNORED
        )
    if not do_lower_case:
        text = "".join(map(characters.isolate_punctuation, text))
        return Character(_find_kind(text))
    sigma_class = _find_sigma_class(char) if text == char else OTHER
    text = unicodedata.normalize("NFD", text.lower())
    stripped = "".join(map(characters.strip_accent, text))
    kept = "".join(stripped.split())
    if len(kept) > 1 or (is_mark(kept) and text != kept):
        return Character(PART, expansion=text, sigma_class=sigma_class)
    if is_mark(kept):
        order_class = unicodedata.combining(kept)
    else:
        order_class = NEVER_BETWEEN if all(map(is_mark, text)) else 0
    return Character(
        _find_kind(stripped),
        shift=ord(kept) - ord(char) if kept else 0,
        order_class=order_class,
        sigma_class=sigma_class,
    )


def is_mark(char: str) -> bool:
    """Whether a character has a combining class; "" has none."""
    return char != "" and unicodedata.combining(char) > 0


def _find_kind(text: str) -> int:
    if not text:
        return DROPPED
    if text.isspace():
        return SPACE
    return PART if text == text.strip() else WORD


def _find_sigma_class(char: str) -> int:
    """How str.lower() looks at a character beside a capital sigma."""
    if f"{char}{CAPITAL_SIGMA}".lower().endswith(FINAL_SIGMA):
        return CASED
    if f"A{char}{CAPITAL_SIGMA}".lower().endswith(FINAL_SIGMA):
        return IGNORED
    return OTHER


def _find_alike():
    """Yields ranges of code points, each of characters treated alike.

    Ranges of what Unicode has not assigned, or leaves to private use, are
    long; all others hold a single character. UTF-8 has no surrogates.
    """
    categories = np.array(
        [unicodedata.category(chr(code)) for code in range(NUM_CODES)]
    )
    is_assigned = (categories != "Cn") & (categories != "Co")
    starts_here = is_assigned | (categories != np.roll(categories, 1))
    for block in characters.CJK_IDEOGRAPHS:
        starts_here[[block.start, block.stop]] = True
    starts = np.flatnonzero(starts_here & (categories != "Cs"))
    starts = starts.tolist()
    yield from zip(starts, [*starts[1:], NUM_CODES], strict=True)
