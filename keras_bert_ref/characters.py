"""What the tokenizer makes of each character, by its Unicode category."""

import unicodedata
from collections.abc import Callable

CJK_IDEOGRAPHS = (
    range(0x4E00, 0xA000),
    range(0x3400, 0x4DC0),
    range(0x20000, 0x2A6E0),
    range(0x2A700, 0x2B740),
    range(0x2B740, 0x2B820),
    range(0x2B820, 0x2CEB0),
    range(0xF900, 0xFB00),
    range(0x2F800, 0x2FA20),
)


class ReplacementTable(dict):
    """A table for `str.translate` that computes an entry when first used."""

    def __init__(self, replacement: Callable[[str], str]):
        super().__init__()
        self._replacement = replacement

    def __missing__(self, code: int) -> str:
        self[code] = value = self._replacement(chr(code))
        return value


def clean(char: str) -> str:
    """Drops control characters, unifies spaces, isolates CJK ideographs."""
    category = unicodedata.category(char)
    if char in "\t\n\r" or category == "Zs":
        return " "
    if char in "\0\ufffd" or category in ("Cc", "Cf"):
        return ""
    if any(ord(char) in block for block in CJK_IDEOGRAPHS):
        return f" {char} "
    return char


def isolate_punctuation(char: str) -> str:
    """Puts spaces around punctuation and every other ASCII symbol."""
    is_ascii_symbol = "!" <= char <= "~" and not char.isalnum()
    if is_ascii_symbol or unicodedata.category(char).startswith("P"):
        return f" {char} "
    return char


def strip_accent(char: str) -> str:
    """Drops combining marks; `isolate_punctuation` for all else."""
    if unicodedata.category(char) == "Mn":
        return ""
    return isolate_punctuation(char)


CLEAN = ReplacementTable(clean)
ISOLATE_PUNCTUATION = ReplacementTable(isolate_punctuation)
STRIP_ACCENTS = ReplacementTable(strip_accent)
