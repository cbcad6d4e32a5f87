"""Windows that slide over a text which is too long for the model.

A token that is in several windows counts in the one that shows most of what
stands left and right of it: there it has its "max context".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """A part of a text, in tokens."""

    start: int
    length: int


def find_windows(
    num_tokens: int, max_length: int, doc_stride: int
) -> list[Window]:
    """Windows over a text, up to the first that reaches its end."""
    windows = []
    start = 0
    while start < num_tokens:
        length = min(max_length, num_tokens - start)
        windows.append(Window(start, length))
        if start + length == num_tokens:
            break
        start += min(length, doc_stride)
    return windows


def find_max_context(windows: Sequence[Window]) -> np.ndarray:
    """Returns, for each token of the text, the window that shows it best.

    The score is the smaller of what stands left and right of the token, plus
    a little for a long window. Ties go to the earlier window.
    """
    num_tokens = sum(windows[-1]) if windows else 0
    if len(windows) == 1:
        return np.zeros(num_tokens, np.int32)
    best_score = np.zeros(num_tokens)
    best_window = np.zeros(num_tokens, np.int32)
    for index, (start, length) in enumerate(windows):
        part = slice(start, start + length)
        left = np.arange(length)
        score = np.minimum(left, left[::-1]) + 0.01 * length
        best_window[part][score > best_score[part]] = index
        best_score[part] = np.maximum(score, best_score[part])
    return best_window
