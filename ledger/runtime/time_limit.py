"""One limit for many waits, by one timer: nearly all end in time, and setting a timer costs more.

::

    waits    |--- a ---|
                |-------- b ---------x         b takes longer than the limit, and is ended
                   |- c -|
    timer    |----- limit ----->|--->|         set for the oldest remaining wait, if any
"""

import asyncio
import math
from types import TracebackType
from typing import Self


class TimeLimit:
    """Ends waits of one event loop that take longer than `seconds`, as `asyncio.timeout` would."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waits: dict[LimitedWait, None] = {}
        self._is_timed = math.isinf(seconds)  # without a limit no timer is ever set

    def begin(self) -> "LimitedWait":
        """Return the block of one wait, which begins now: ``with limit.begin(): await ...``.

        The block raises `TimeoutError` once it took too long.
        """
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        if task is None:
            raise RuntimeError("only a task can be limited")
        due = loop.time() + self.seconds
        wait = LimitedWait(self, task, due)
        self._waits[wait] = None
        if not self._is_timed:
            self._is_timed = True
            loop.call_at(due, self._look, loop)
        return wait

    def end(self, wait: "LimitedWait") -> None:
        """Stop watching a wait."""
        self._waits.pop(wait, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the waits that are overdue, oldest first."""
        now = loop.time()
        while self._waits:
            oldest = next(iter(self._waits))
            if oldest.due > now:
                loop.call_at(oldest.due, self._look, loop)
                return
            del self._waits[oldest]
            oldest.expire()
        self._is_timed = False


class LimitedWait:
    """One wait of a task; made by `TimeLimit.begin`."""

    __slots__ = ("_cancelling", "_limit", "_task", "due", "expired")

    def __init__(self, limit: TimeLimit, task: "asyncio.Task[object]", due: float) -> None:
        self.due = due
        self.expired = False
        self._limit = limit
        self._task = task
        self._cancelling = task.cancelling()

    def expire(self) -> None:
        """End the wait."""
        self.expired = True
        self._task.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.expired:
            self._limit.end(self)
            return
        # Others may have cancelled the task as well: their cancellation is left to them.
        if self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
