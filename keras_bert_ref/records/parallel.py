"""Work for other processes, results in order."""

import collections
import concurrent.futures
import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keras_bert_ref import commands

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
    pool = concurrent.futures.ProcessPoolExecutor(
        num_workers, initializer=_start_worker, initargs=(function,)
    )
    pending = collections.deque()
    try:
        for item in items:
            pending.append(pool.submit(_call, item))
            if len(pending) > 2 * num_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        gc.unfreeze()


def run_apart(function: Callable, *arguments) -> Any:
    """Calls a function in a process started for it.

    What TensorFlow does there leaves this process free to choose its devices,
    and to be copied.
    """
    pool = concurrent.futures.ProcessPoolExecutor(
        1,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_quietly,
    )
    with pool:
        return pool.submit(function, *arguments).result()


def _start_quietly() -> None:
    with commands.quiet_start():
        pass


def _start_worker(function: Callable[[Any], Any]) -> None:
    global _function
    _function = function
    # Ctrl-C reaches the whole process group; the parent ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(item: Any) -> Any:
    return _function(item)
