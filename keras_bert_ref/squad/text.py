"""Tokens -> the text they were made of.

WordPiece tokens of an answer have lost case, accents and the spaces between
words and punctuation. The way back leads through the original words.
"""

import functools
import itertools
from collections.abc import Sequence

from absl import logging

from keras_bert_ref.tokenization import BasicTokenizer


def join_pieces(pieces: Sequence[str]) -> str:
    """Puts WordPiece tokens together to words, as far as they go."""
    text = " ".join(pieces).replace(" ##", "").replace("##", "")
    return " ".join(text.split())


def get_final_text(
    pred_text: str,
    orig_text: str,
    do_lower_case: bool,
    verbose_logging: bool = False,
) -> str:
    """Finds what the tokens of an answer were before they were tokenized.

    An answer may be less than the words it is in: "steve smith" of "Steve
    Smith's" is "Steve Smith". The words are tokenized anew; their characters
    before and after, but for spaces, are taken to correspond one to one.
    Where they cannot, the words stand as they are.

    Args:
        pred_text: the tokens of the answer, put together.
        orig_text: the words they are in.
        do_lower_case: bool. What the tokenizer was told.
        verbose_logging: bool. Tell when the words stand, and why.
    """
    casing = itertools.repeat(do_lower_case)
    words = map(_tokenize, orig_text.split(" "), casing)
    tok_text = " ".join(filter(None, words))
    start = tok_text.find(pred_text)
    end = start + len(pred_text) - 1
    if start < 0 or not pred_text or pred_text != pred_text.strip(" "):
        problem = "the answer is not in it"
    elif _count_chars(orig_text) != _count_chars(tok_text):
        problem = "it has gained or lost characters"
    else:
        first = _find_char(orig_text, _count_chars(tok_text[:start]))
        last = _find_char(orig_text, _count_chars(tok_text[:end]))
        return orig_text[first : last + 1]
    if verbose_logging:
        logging.info(
            "No way back from %r to %r, tokenized %r: %s.",
            *(pred_text, orig_text, tok_text, problem),
        )
    return orig_text


@functools.lru_cache(maxsize=1 << 16)
def _tokenize(word: str, do_lower_case: bool) -> str:
    return " ".join(BasicTokenizer(do_lower_case).tokenize(word))


def _count_chars(text: str) -> int:
    """How many characters are no spaces."""
    return len(text) - text.count(" ")


def _find_char(text: str, num_before: int) -> int:
    """Where the character is that has so many others, no spaces, before it."""
    index = num_before
    while (spaces := text.count(" ", 0, index + 1)) > index - num_before:
        index = num_before + spaces
    return index
