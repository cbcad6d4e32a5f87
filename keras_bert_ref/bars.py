"""Progress of long work: a bar on a terminal, else a line now and then."""

import sys
import time
from collections.abc import Iterable, Iterator

import tqdm
from absl import logging

# Of lines in a log file.
SECONDS = 30.0


def progress_bar(
    items: Iterable | None = None,
    *,
    desc: str,
    unit: str,
    total: int | None = None,
    **kwargs,
):
    """Shows how far work has come; takes tqdm's arguments.

    Wrap an iterable with it, or use it as a context manager and call
    `update(count)`.
    """
    if sys.stderr.isatty():
        kwargs |= {"total": total, "dynamic_ncols": True}
        return tqdm.tqdm(items, desc=desc, unit=unit, **kwargs)
    if total is None and items is not None:
        total = len(items)
    return _Lines(items, desc, unit, total)


class _Lines:
    """The part of tqdm that is used here, for log files."""

    def __init__(self, items, desc: str, unit: str, total: int | None):
        self.items, self.desc, self.unit, self.total = items, desc, unit, total
        self.count = 0
        self.start = self.last = time.perf_counter()
        logging.info("%s: %d %s", desc, total or 0, unit)

    def __enter__(self) -> "_Lines":
        return self

    def __exit__(self, *error) -> None:
        pass

    def __iter__(self) -> Iterator:
        for item in self.items:
            yield item
            self.update()

    def update(self, count: int = 1) -> None:
        self.count += count
        now = time.perf_counter()
        if now - self.last >= SECONDS and self.count:
            self.last = now
            whole = self.total or self.count
            left = (now - self.start) / self.count * (whole - self.count)
            logging.info(
                "%s: %d of %d %s, %s left",
                self.desc,
                self.count,
                whole,
                self.unit,
                format_duration(left),
            )


def format_duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
