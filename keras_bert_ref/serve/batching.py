"""Answers concurrent requests together.

While the model computes, requests wait; what waits when it is done is the
next batch. So a lone request never waits for others, and the busier the
server, the larger the batches. A request of many rows is answered in parts,
and others take their turns in between.
"""

import asyncio
import collections
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Overloaded(Exception):
    """More requests wait than may."""


class Abandoned(Exception):
    """Nobody waits for what is being computed."""


class Request:
    """Rows of somebody who waits.

    Args:
        rows: dictionaries of texts.
        future: gets their answers, in the order of the rows.
    """

    def __init__(self, rows: list[dict], future: asyncio.Future):
        self.rows = rows
        self.future = future
        self._answers = [None] * len(rows)
        # Rows of similar length, the longest first, are computed together.
        self._unanswered = sorted(range(len(rows)), key=self._length)

    def _length(self, i: int) -> int:
        return sum(map(len, self.rows[i].values()))

    def take(self, most: int) -> list[int]:
        """Indices of the next rows to answer."""
        taken = self._unanswered[-most:]
        del self._unanswered[-most:]
        return taken

    def put(self, indices: list[int], answers: list[dict]) -> None:
        """Takes the answers to some rows; the last ones end the wait."""
        for i, answer in zip(indices, answers, strict=True):
            self._answers[i] = answer
        if not self._unanswered and not self.future.done():
            self.future.set_result(self._answers)

    def fail(self, error: Exception) -> None:
        if not self.future.done():  # whoever asked may have given up
            self.future.set_exception(error)


class Batcher:
    """Puts the rows of requests together, and gives each its answers.

    Args:
        answer: takes rows, and a function to call now and then, which raises
            once nobody waits any more; gives an answer for each row. It runs
            in a thread, one call at a time.
        max_batch_size: int. Rows that are computed together.
        max_waiting: int. Requests that may wait.
    """

    def __init__(self, answer: Callable, max_batch_size: int, max_waiting: int):
        self.answer = answer
        self.max_batch_size = max_batch_size
        self.max_waiting = max_waiting
        self.batches = self.rows = 0
        self._queue = collections.deque()
        self._num_waiting = 0
        self._thread = ThreadPoolExecutor(1, "model")
        self._worker = None

    def check_room(self) -> None:
        """Raises if no more requests may wait."""
        if self._num_waiting >= self.max_waiting:
            raise Overloaded(
                f"{self.max_waiting} requests wait already; try again later."
            )

    async def ask(self, rows: list[dict]) -> list[dict]:
        """The answers to rows, in their order."""
        self.check_room()
        future = asyncio.get_running_loop().create_future()
        self._queue.append(Request(rows, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        self._num_waiting += 1
        try:
            return await future
        finally:
            self._num_waiting -= 1

    async def _work(self) -> None:
        """Answers until nobody waits."""
        while self._queue:
            parts = self._next_parts()
            if parts:
                await self._answer(parts)
            # What is left of a request takes its next turn behind others.
            self._queue.extend(
                request for request, _ in parts if not request.future.done()
            )

    def _next_parts(self) -> list[tuple[Request, list[int]]]:
        """Requests, and which of their rows are in the next batch."""
        parts, room = [], self.max_batch_size
        while self._queue and room:
            request = self._queue.popleft()
            if not request.future.done():
                indices = request.take(room)
                parts.append((request, indices))
                room -= len(indices)
        return parts

    async def _answer(self, parts: list[tuple[Request, list[int]]]) -> None:
        def check() -> None:
            if all(request.future.done() for request, _ in parts):
                raise Abandoned

        rows = [request.rows[i] for request, indices in parts for i in indices]
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(
                self._thread, self.answer, rows, check
            )
        except Exception as error:
            if len(parts) == 1:
                parts[0][0].fail(error)
            else:  # one of them is at fault, not all
                for part in parts:
                    await self._answer([part])
            return
        self.batches += 1
        self.rows += len(rows)
        answers = iter(answers)
        for request, indices in parts:
            request.put(indices, [next(answers) for _ in indices])
