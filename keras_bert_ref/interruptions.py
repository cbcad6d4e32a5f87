"""SIGTERM and Ctrl-C, for commands that throw away what they have begun.

Both raise KeyboardInterrupt, so that workers end and unfinished files go. But
an exception that comes from a signal can be lost: in a callback for instance,
which Python runs between any two instructions. So signals are remembered too,
and `check` raises what was lost. Training has other ways: it saves its state.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

from absl import logging

_received: list[int] = []
_num_deferring = 0


def ending_signals() -> list[signal.Signals]:
    """SIGTERM and Ctrl-C, but for what is ignored: Ctrl-C is in jobs that a
    script starts in the background, and does not mean them."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    return [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]


@contextlib.contextmanager
def discard_on_signals() -> Iterator[None]:
    """Ends the process, when asked, with what is unfinished removed.

    The exit code is 128 and the number of the signal, as shells have it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    _received.clear()
    before = {n: signal.signal(n, _on_signal) for n in ending_signals()}
    try:
        yield
        check()
    except KeyboardInterrupt:
        logging.warning("Interrupted: unfinished files are removed.")
        sys.exit(128 + (_received or [signal.SIGINT])[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _received.clear()


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Signals wait for the end of the block: it is done as a whole."""
    global _num_deferring
    _num_deferring += 1
    try:
        yield
    finally:
        _num_deferring -= 1
    check()


def check() -> None:
    """Raises KeyboardInterrupt if the process was asked to end."""
    if _received and not _num_deferring:
        raise KeyboardInterrupt


def _on_signal(number: int, _) -> None:
    _received.append(number)
    check()
