"""The queue of one process: its calls go to a sequence one after another, as long as all goes well.

::

    call a   put 7: applied
    call b   ..............  put 8: applied        no query: the process put 7 itself
    call c   ............................  put 9: no answer ── leaves the queue
    call d   ................................................. put 9: 9 is taken ── query

Calls of one process that race each other pay for every race, and gain nothing. The queue only
saves: numbering is correct without it. So a call whose request is not answered
leaves it, and while such a call is not settled the others do not wait for each other either: an
outage lasts no longer for many calls than for one. Nor does a call wait where `waiting_max` of them
do already.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from ledger.core.errors import InvalidInput
from ledger.runtime.call_deadlines import unless_ended

WAITING_MAX = 1000


class QueueTurn:
    """The turn of one call; `leave` lets the others continue before it has ended."""

    __slots__ = ("_has_left", "_has_lock", "_queue")

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._has_lock = self._has_left = False

    async def _begin(self) -> None:
        queue = self._queue
        if queue.has_unsettled() or queue.lock.statistics().tasks_waiting >= queue.waiting_max:
            return
        await unless_ended(queue.lock.acquire())
        self._has_lock = True
        if queue.has_unsettled():  # since this call began to wait
            self._release()

    def leave(self) -> None:
        """Let the other calls continue: this one has a request without an answer."""
        if not self._has_left:
            self._has_left = True
            self._queue.away += 1
        self._release()

    def _end(self) -> None:
        if self._has_left:
            self._queue.away -= 1
        self._release()

    def _release(self) -> None:
        if self._has_lock:
            self._has_lock = False
            self._queue.lock.release()


class Queue:
    """Shared by the calls of one process to one sequence; used by tasks of one event loop.

    `away` counts the calls that have left it unsettled.

    Raises:
        InvalidInput: `waiting_max` is not a whole number from 0.
    """

    def __init__(self, *, waiting_max: int = WAITING_MAX) -> None:
        if type(waiting_max) is not int or waiting_max < 0:
            raise InvalidInput(f"waiting_max must be a whole number from 0, got {waiting_max!r}")
        self.waiting_max = waiting_max
        self.away = 0
        self.lock: anyio.Lock = anyio.Lock()
        self._last = 0
        self._guess: int | None = None

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[QueueTurn]:
        """Wait for the calls before; a call that is cancelled here has sent nothing."""
        turn = QueueTurn(self)
        try:
            await turn._begin()  # noqa: SLF001 (one unit of two classes)
            yield turn
        finally:
            turn._end()  # noqa: SLF001 (as above)

    def has_unsettled(self) -> bool:
        """Return whether a call has left the queue and has not ended."""
        return self.away > 0

    def guess(self) -> int | None:
        """Return the number that is free if no other process is at work, None to read it.

        It is guessed where this process put the last two numbers, and only once.
        """
        guess, self._guess = self._guess, None
        return guess

    def above(self, highest: int) -> int:
        """Return the number after the highest that was read, or that this process has put."""
        return max(highest, self._last) + 1

    def has_put(self, first: int, count: int) -> None:
        """Record that this process has put these numbers."""
        last = first + count - 1
        self._guess = last + 1 if first == self._last + 1 else None
        self._last = max(self._last, last)
