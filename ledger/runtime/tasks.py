"""Task groups that raise a single error, not a group: the rest of the code catches by type.

A sleep that a stop ends early.
"""

import asyncio
from collections import deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Generator,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

import anyio
import anyio.abc
import anyio.lowlevel

from ledger.runtime.clock import Clock

Result = TypeVar("Result")
CallSoon = Callable[[Callable[[], None]], object]
"""Calls in the next round."""


@contextmanager
def first_error_alone() -> Iterator[None]:
    """Raise the first plain error of a group in place of the group."""
    failure: Exception | None = None
    try:
        yield
    except ExceptionGroup as group:
        failure = _first(group)
    if failure is not None:
        raise failure


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


@asynccontextmanager
async def background_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Run tasks beside the body and cancel them at its end; an error is raised by itself."""
    with first_error_alone():
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()


def is_cancelled() -> bool:
    """Return whether a scope around the calling task is cancelled, which ends each wait of it."""
    return anyio.current_effective_deadline() <= anyio.current_time()


def call_soon(call: Callable[[], None]) -> None:
    """Call in the next round of the loop that runs."""
    asyncio.get_running_loop().call_soon(call)


class Turns:
    """What waits for its turn, of which so much begins in a round of the event loop.

    It waits in rows, of an address or a caller; those that have any begin one each, in turn.
    """

    def __init__(self, call_soon: CallSoon, at_once: int) -> None:
        self._call_soon = call_soon
        self._at_once = at_once
        self._waiting: dict[str | None, deque[Callable[[], None]]] = {}
        self._left = at_once
        self._is_due = False

    def enter(self, row: str | None, begin: Callable[[], None]) -> None:
        """Begin something of a row: at once, or once it is its turn."""
        if self._left and not self._waiting:
            self._left -= 1
            begin()
        else:
            self._waiting.setdefault(row, deque()).append(begin)
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._go_on)

    async def turn(self, row: str) -> None:
        """Wait until it is the turn of a row."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.enter(row, partial(_begin, begun))
        await begun

    def _go_on(self) -> None:
        """Begin those whose turn it is in this round."""
        self._left = self._at_once
        while self._left and self._waiting:
            self._left -= 1
            row, begins = next(iter(self._waiting.items()))
            del self._waiting[row]
            begin = begins.popleft()
            if begins:
                self._waiting[row] = begins  # after all other rows
            begin()
        self._is_due = self._left < self._at_once
        if self._is_due:
            self._call_soon(self._go_on)


@contextmanager
def until_in_turn(end: float, turns: Turns) -> Iterator[None]:
    """Go on behind the block in its turn once a time of the event loop has come."""
    with anyio.CancelScope() as scope:
        timer = asyncio.get_running_loop().call_at(end, turns.enter, None, scope.cancel)
        try:
            yield
        finally:
            timer.cancel()


def _begin(begun: "asyncio.Future[None]") -> None:
    if not begun.done():  # its caller may have gone
        begun.set_result(None)


async def in_portions(work: Generator[None, None, Result]) -> Result:
    """Return the result of a calculation that yields between its portions: others go on there."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast("Result", end.value)
        await anyio.lowlevel.checkpoint()


async def run_all(jobs: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run every job, at most `at_once` together, and return their results in order.

    The first error cancels the rest and is raised by itself.
    """
    if len(jobs) == 1:
        return [await jobs[0]()]
    results: dict[int, Result] = {}
    work = _worker(jobs, results)
    with first_error_alone():
        async with anyio.create_task_group() as tasks:
            for _ in range(min(at_once, len(jobs)) - 1):
                tasks.start_soon(work)
            await work()  # this task is one of the workers
    return await _in_order(results, len(jobs))


async def run_requests(
    jobs: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int
) -> list[Result]:
    """Run requests to stores as `run_all` does, at a quarter of the cost of its tasks.

    Each cancellation of this task is passed on to the jobs, so none may shield itself from it. A
    cancelled scope repeats it until it has ended: a job that loses one gets the next.
    """
    if len(jobs) < 2:  # noqa: PLR2004 (nothing to run in parallel)
        return [await job() for job in jobs]
    results: dict[int, Result] = {}
    work = _worker(jobs, results)
    tasks = [asyncio.create_task(work()) for _ in range(min(at_once, len(jobs)))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        for task in tasks:
            if task.done():
                task.result()
    except BaseException:
        await _end(tasks)
        raise
    return await _in_order(results, len(jobs))


async def _end(tasks: Collection["asyncio.Task[None]"]) -> None:
    """Cancel tasks until all have ended, whatever they raise."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        with suppress(asyncio.CancelledError):  # the caller's own is raised by the caller
            await asyncio.wait(left)
    for task in tasks:
        if not task.cancelled():
            task.exception()  # retrieved: only the first error is raised


def _worker(
    jobs: Sequence[Callable[[], Awaitable[Result]]], results: dict[int, Result]
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a worker that does one job after another, and keeps results; any number may run."""
    waiting = iter(enumerate(jobs))

    async def work() -> None:
        for place, job in waiting:
            results[place] = await job()

    return work


async def _in_order(results: dict[int, Result], count: int) -> list[Result]:
    """Return the results in the order of the jobs.

    Results that are missing mean a cancellation that was lost: only other workers met it, or a
    scope in a job ended just then, for which anyio mistakes it. A cancelled scope repeats its own,
    and takes no other.
    """
    if len(results) < count:
        await anyio.lowlevel.checkpoint_if_cancelled()
        raise anyio.get_cancelled_exc_class()
    return [results[place] for place in range(count)]


async def sleep_or_stop(clock: Clock, seconds: float, stop: anyio.Event) -> bool:
    """Sleep until the time is over or `stop` is set; return whether it is set."""
    if seconds <= 0 or stop.is_set():
        return stop.is_set()
    async with anyio.create_task_group() as tasks:

        async def watch() -> None:
            await stop.wait()
            tasks.cancel_scope.cancel()

        tasks.start_soon(watch)
        await clock.sleep(seconds)
        tasks.cancel_scope.cancel()
    return stop.is_set()
