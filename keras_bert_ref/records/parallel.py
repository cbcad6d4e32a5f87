"""Work for other processes, results in order."""

import collections
import concurrent.futures
import contextlib
import gc
import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from keras_bert_ref import commands, interruptions

_function: Callable[[Any], Any]


def map_in_order(
    function: Callable[[Any], Any], items: Iterable, num_workers: int
) -> Iterator:
    """Yields `function(item)` for every item, in the order of the items.

    Items are taken and results kept only as far ahead as the workers need,
    so neither has to fit in memory as a whole. One worker is this process.

    Args:
        function: sent to each worker once; may be a `partial` with much
            data in it.
        items: what to work on.
        num_workers: int. Number of processes.
    """
    if num_workers == 1:
        yield from map(function, items)
        return
    # Shared memory stays shared only if no worker's collector writes to it.
    gc.freeze()
    pending = collections.deque()
    with _open_pool(num_workers, None, _start_worker, function) as pool:
        try:
            for item in items:
                with interruptions.deferred():  # the first one starts workers
                    pending.append(pool.submit(_call, item))
                if len(pending) > 2 * num_workers:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            gc.unfreeze()


def run_apart(function: Callable, *arguments) -> Any:
    """Calls a function in a process started for it.

    What TensorFlow does there leaves this process free to choose its devices,
    and to be copied.
    """
    context = multiprocessing.get_context("spawn")
    with _open_pool(1, context, _start_quietly) as pool:
        return pool.submit(function, *arguments).result()


@contextlib.contextmanager
def _open_pool(
    num_workers: int, context, initializer: Callable, *arguments
) -> Iterator[concurrent.futures.ProcessPoolExecutor]:
    """Processes that end when this one does, however it ends.

    Each holds one end of a pipe. The system closes the other end, the
    lifeline, when this process is killed.
    """
    end, lifeline = multiprocessing.Pipe(duplex=False)
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers,
        mp_context=context,
        initializer=_initialize,
        initargs=(end, lifeline, initializer, *arguments),
    )
    try:
        yield pool
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "A worker process ended before its work was done; was it killed, "
            "perhaps for want of memory? Work with fewer processes."
        ) from error
    finally:
        # What is at work ends first: cut off in the middle of a result, it
        # would leave this process waiting for the rest.
        pool.shutdown(cancel_futures=True)
        lifeline.close()
        end.close()


def _initialize(
    end: Connection, lifeline: Connection, initializer: Callable, *arguments
) -> None:
    lifeline.close()  # the copy that this process got
    threading.Thread(target=_end_with, args=(end,), daemon=True).start()
    initializer(*arguments)


def _end_with(end: Connection) -> NoReturn:
    """Waits for the other end to be closed, then ends this process."""
    with contextlib.suppress(EOFError, OSError):
        end.recv_bytes()
    os._exit(1)


def _start_quietly() -> None:
    with commands.quiet_start():
        importlib.import_module("tensorflow")


def _start_worker(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    # Ctrl-C reaches the whole process group; the parent ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _call(item: Any) -> Any:
    return _function(item)
