"""Being asked to end: noticed at once, acted on when the state is saved."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(Exception):
    """The command was asked to end (SIGTERM), and has saved its state."""


@contextmanager
def watch_for_sigterm() -> Iterator[list[int]]:
    """Yields a list that fills when the process is asked to end."""
    received: list[int] = []
    before = signal.signal(
        signal.SIGTERM, lambda number, _: received.append(number)
    )
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)
