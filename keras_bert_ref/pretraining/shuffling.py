"""Shuffles as `random.Random.shuffle` does, in less than half the time."""

import random
from array import array
from collections.abc import Iterable, MutableSequence

Steps = Iterable[tuple[int, int]]


def _make_steps(length: int) -> Steps:
    """For each step the index to settle, and how many bits a draw needs."""
    return ((n - 1, n.bit_length()) for n in range(length, 1, -1))


# The steps for anything shorter are the last ones of these.
_MAX_LENGTH = 1024
_STEPS = list(_make_steps(_MAX_LENGTH))


def shuffle(items: MutableSequence, rng: random.Random) -> None:
    """Shuffles in place; result and draws are those of `rng.shuffle`."""
    getrandbits = rng.getrandbits
    length = len(items)
    is_short = length <= _MAX_LENGTH
    steps = _STEPS[_MAX_LENGTH - length :] if is_short else _make_steps(length)
    for last, bits in steps:
        draw = getrandbits(bits)
        while draw > last:
            draw = getrandbits(bits)
        items[last], items[draw] = items[draw], items[last]


def shuffled_range(stop: int, rng: random.Random) -> array:
    """The integers from 0 to `stop` - 1 in random order."""
    order = array("q", range(stop))
    shuffle(order, rng)
    return order
