"""One process at a time trains in an output_dir.

On one machine, and wherever a file system has locks across machines, the
system itself holds the lock: no two get it, and it goes with its process,
however that ends. Elsewhere (gs://, or a shared disk without locks) the lock
is a file that its holder rewrites every few seconds. Who finds it watches
whether it still changes, so clocks need not agree; but two that start in the
same moment may both get in.
"""

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator

from absl import logging

from keras_bert_ref import files, guard, workers

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

NAME = "training.lock"
# Seconds between two signs of life, and how long to look out for one.
BEAT = 10.0
PATIENCE = 25.0

_held: set[str] = set()


@contextlib.contextmanager
def hold_for(options) -> Iterator[None]:
    """Holds the lock of --output_dir while a command trains there.

    Of several workers, the chief holds it. Evaluation and prediction need
    none: they may run beside a training.
    """
    if getattr(options, "do_train", False) and workers.is_chief(options):
        with hold(options.output_dir):
            yield
    else:
        yield


@contextlib.contextmanager
def hold(output_dir: str) -> Iterator[None]:
    """Holds the lock of a folder; raises ValueError if another process does.

    A process that holds it already may do so again.
    """
    key = os.path.realpath(output_dir)
    if key in _held:
        yield
        return
    path = os.path.join(output_dir, NAME)
    with contextlib.ExitStack() as stack:
        write = None
        if "://" not in output_dir and fcntl:
            write = _lock_by_system(path, stack)
        if write is None:
            write = _lock_by_file(path, stack)
        stack.enter_context(_signs_of_life(write))
        _held.add(key)
        stack.callback(_held.discard, key)
        yield


def _lock_by_system(path: str, stack: contextlib.ExitStack):
    """Returns what writes to the locked file; None where there are no locks.

    A lock of this kind is not passed on to child processes, which may outlive
    this one.
    """
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            content = os.pread(file, 1 << 12, 0)
            os.close(file)
            if isinstance(error, (BlockingIOError, PermissionError)):
                raise _taken(path, _parse(content)) from None
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(file)):
                break
        os.close(file)  # it was removed between the two
    stack.callback(os.close, file)
    _check_other(path, lambda: os.pread(file, 1 << 12, 0), is_locked=True)
    stack.callback(os.unlink, path)
    os.ftruncate(file, 0)
    return lambda content: os.pwrite(file, content, 0)


def _lock_by_file(path: str, stack: contextlib.ExitStack):
    _check_other(
        path,
        lambda: files.read(path) if files.exists(path) else b"",
        is_locked=False,
    )
    stack.callback(files.remove, path)
    return lambda content: files.replace(path, content)


def _check_other(path: str, read: Callable[[], bytes], is_locked: bool) -> None:
    """Raises if who wrote the file lives."""
    content = read()
    other = _parse(content)
    if not other:
        return
    if other.get("machine") == files.machine():
        if not is_locked and files.lives(other["pid"]):
            raise _taken(path, other)
    else:
        logging.info(
            "%s is of %s; watching for %.0f s whether it still trains.",
            path,
            _describe(other),
            PATIENCE,
        )
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if read() != content:
                raise _taken(path, _parse(read()) or other)
            time.sleep(min(0.5, PATIENCE / 10))
    logging.info("Took over %s: %s is gone.", path, _describe(other))


@contextlib.contextmanager
def _signs_of_life(write: Callable[[bytes], object]) -> Iterator[None]:
    """Says who holds the lock, again and again."""
    whoami = {
        "host": files.machine().rpartition("-")[0],
        "machine": files.machine(),
        "pid": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
    }

    def say(beat: int) -> None:
        # As long each time: it may be written over the one before.
        text = json.dumps({**whoami, "beat": f"{beat:012}"})
        write(text.encode() + b"\n")

    def go_on() -> None:
        beat = 0
        while not is_over.wait(BEAT):
            beat += 1
            with contextlib.suppress(Exception):  # the disk may be full
                say(beat)

    say(0)
    is_over = threading.Event()
    thread = threading.Thread(target=go_on, daemon=True)
    with guard.hold_sigterm():  # from this thread for good
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _parse(content: bytes) -> dict:
    """Who wrote this; nobody, if it makes no sense."""
    try:
        other = json.loads(content)
        return other if isinstance(other["pid"], int) else {}
    except (ValueError, LookupError, TypeError):
        return {}


def _describe(other: dict) -> str:
    if not other:
        return "another process"
    host, since = other.get("host"), other.get("since")
    return f"process {other['pid']} on {host}, since {since}"


def _taken(path: str, other: dict) -> ValueError:
    return ValueError(
        f"One process at a time trains in {os.path.dirname(path)}, and "
        f"{_describe(other)}, does so. Wait for it or end it, or use another "
        "--output_dir; --do_eval and --do_predict alone may run beside it."
    )
