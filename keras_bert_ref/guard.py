"""How a command ends before its time: what went wrong, in one sentence.

Errors that a user can mend come without a traceback. What the system says of
disks, folders and memory, itself or through TensorFlow, is put into words.
"""

import contextlib
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

from absl import logging

from keras_bert_ref import interruptions

# What the system says, and what to do about it.
SYSTEM_ERRORS = (
    (
        r"No space left on device|Disk quota exceeded|File too large",
        "There is no room for a file",
        "free some, or write to another place; files that were complete "
        "before still are",
    ),
    (
        r"Permission denied|Read-only file system|Operation not permitted",
        "A file or folder may not be read or written",
        "choose another place, or change its permissions",
    ),
    (
        r"Is a directory",
        "A folder stands where a file is wanted",
        "name a file, or choose another place",
    ),
    (
        r"Not a directory|File exists",
        "A file stands where a folder is wanted",
        "name a folder, or choose another place",
    ),
    (
        r"No such file or directory|Could not find directory",
        "A file or folder is not there",
        "check the path",
    ),
    (
        r"OOM when allocating|Unable to allocate|llocate memory|bad_alloc",
        "Memory does not hold this",
        "lower the batch size, the sequence length or the size of the model, "
        "or share batches by --gradient_accumulation_steps",
    ),
)
# What TensorFlow puts around its messages.
GRAPH_NOISE = re.compile(r"\{\{[^}]*\}\}|\s*\[Op:\w+\].*|\s*\[\[.*\]\]")
# What pybind11 makes of a Ctrl-C while TensorFlow raises an error: one worker
# is interrupted, and the other, too, when it finds the first one gone.
CTRL_C_WITHIN_ERROR = "REPLACED BY KeyboardInterrupt"


class Interrupted(Exception):
    """The command was asked to end, and has saved its state.

    Args:
        number: the signal it was asked by; the exit code is 128 more.
    """

    def __init__(self, message: str, number: int = signal.SIGTERM):
        super().__init__(message)
        self.number = number


def guard(
    call: Callable[[], None],
    say: Callable[[str], None] = lambda text: logging.error("%s", text),
) -> None:
    """Ends the process where a call fails.

    Errors that a user can mend come without a traceback; --verbosity=1 shows
    it. Ctrl-C ends with code 130.

    Args:
        say: shows the last sentence and returns; the code is set here.
    """
    try:
        call()
    except Interrupted as interrupted:
        logging.warning("%s", interrupted)
        sys.exit(128 + interrupted.number)
    except (KeyboardInterrupt, Exception) as error:
        is_ctrl_c = isinstance(error, KeyboardInterrupt)
        if is_ctrl_c or CTRL_C_WITHIN_ERROR in str(error):
            say("Interrupted: asked to end by Ctrl-C.")
            sys.exit(128 + signal.SIGINT)
        sentence = explain(error)
        if sentence is None:
            raise
        logging.debug("%s", traceback.format_exc())
        say(sentence)
        sys.exit(1)


def explain(error: Exception) -> str | None:
    """What a user is told of an error; None if it is a mistake of ours."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow and isinstance(error, tensorflow.errors.OpError):
        lines = GRAPH_NOISE.sub("", error.message).strip().splitlines() or [""]
        return _put_into_words(lines[0]) or (
            f"TensorFlow cannot go on: {lines[0]} ({type(error).__name__}). "
            "--verbosity=1 shows where."
        )
    if isinstance(error, OSError) and error.errno:
        return _put_into_words(str(error)) or str(error)
    if isinstance(error, MemoryError):
        text = str(error) or "Unable to allocate what was asked for"
        return _put_into_words(text) or text
    if isinstance(error, (ValueError, OSError, ArithmeticError, ImportError)):
        return str(error)
    return None


def _put_into_words(text: str) -> str | None:
    for pattern, rule, fix in SYSTEM_ERRORS:
        if re.search(pattern, text, re.IGNORECASE):
            return f"{rule} ({text}); {fix}."
    return None


@contextlib.contextmanager
def watch_for_signals() -> Iterator[list[int]]:
    """Yields a list that fills when the process is asked to end: by SIGTERM,
    or by Ctrl-C. A second Ctrl-C ends it at once.

    A thread counts the latter, for Python itself hears of signals only when
    TensorFlow hands back what it was asked to do.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received  # only the main thread gets signals
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    before = {
        number: signal.signal(number, lambda n, _: received.append(n))
        for number in interruptions.ending_signals()
    }
    counter = threading.Thread(target=_count_ctrl_c, args=[reader], daemon=True)
    counter.start()
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writer)
        counter.join()
        os.close(reader)


def _count_ctrl_c(reader: int) -> None:
    """Ends the process at the second one; returns when the pipe is closed."""
    count = 0
    while numbers := os.read(reader, 64):
        for number in numbers:
            count += number == signal.SIGINT
        if count > 1:
            end_at_once()
        if count:
            logging.warning(
                "Interrupted: saving after this step. Ctrl-C again ends at "
                "once, without saving."
            )


def hold_sigterm() -> contextlib.AbstractContextManager:
    """Holds SIGTERM; others can then not catch it in the block."""
    return hold(signal.SIGTERM)


@contextlib.contextmanager
def hold(number: int) -> Iterator[None]:
    """A signal waits for the end of the block; threads and processes that
    start within never get it."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def ended_by_ctrl_c(action: Callable | signal.Handlers) -> Iterator[None]:
    """Ctrl-C does this within the block, unless it is ignored."""
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.SIGINT not in interruptions.ending_signals():
        yield
        return
    signal.signal(signal.SIGINT, action)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def end_at_once(*_) -> NoReturn:
    """Ends the process as Ctrl-C does, without a word to anybody else."""
    os.write(2, b"Interrupted.\n")
    os._exit(128 + signal.SIGINT)
