"""Answers concurrent requests together.

While the model computes, requests wait; what waits when it is done is the
next batch. So a lone request never waits for others, and the busier the
server, the larger the batches.
"""

import asyncio
import collections
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Overloaded(Exception):
    """More requests wait than may."""


class Batcher:
    """Puts the rows of requests together, and gives each its answers.

    Args:
        answer: takes rows, gives an answer for each; runs in a thread.
        max_batch_size: int. Requests are joined up to so many rows.
        max_waiting: int. Requests that may wait.
    """

    def __init__(self, answer: Callable, max_batch_size: int, max_waiting: int):
        self.answer = answer
        self.max_batch_size = max_batch_size
        self.max_waiting = max_waiting
        self.batches = self.rows = 0
        self._waiting = collections.deque()
        self._thread = ThreadPoolExecutor(1, "model")
        self._worker = None

    async def ask(self, rows: list[dict]) -> list[dict]:
        """The answers to rows, in their order."""
        if len(self._waiting) >= self.max_waiting:
            raise Overloaded(
                f"{self.max_waiting} requests wait already; try again later."
            )
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((rows, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        """Answers until nobody waits."""
        while self._waiting:
            requests = self._next_batch()
            if requests:
                await self._answer(requests)

    def _next_batch(self) -> list:
        requests, size = [], 0
        while self._waiting:
            rows, future = self._waiting[0]
            if requests and size + len(rows) > self.max_batch_size:
                break
            self._waiting.popleft()
            if not future.done():  # whoever asked may have given up
                requests.append((rows, future))
                size += len(rows)
        return requests

    async def _answer(self, requests: list) -> None:
        rows = [row for rows, _ in requests for row in rows]
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(
                self._thread, self.answer, rows
            )
        except Exception as error:
            if len(requests) > 1:  # one of them is at fault, not all
                for request in requests:
                    await self._answer([request])
            elif not requests[0][1].done():
                requests[0][1].set_exception(error)
            return
        self.batches += 1
        self.rows += len(rows)
        answers = iter(answers)
        for rows, future in requests:
            own = [next(answers) for _ in rows]
            if not future.done():
                future.set_result(own)
