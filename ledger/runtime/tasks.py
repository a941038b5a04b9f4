"""Task groups whose error is raised alone, not in a group: the rest of the code catches by type."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
import anyio.abc

Result = TypeVar("Result")


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
    """Run tasks beside the body and cancel them at its end; an error is raised alone."""
    with first_error_alone():
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()


def is_cancelled() -> bool:
    """Return whether a scope around the calling task is cancelled: each wait of it ends at once."""
    return anyio.current_effective_deadline() <= anyio.current_time()


async def run_all(jobs: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run every job, at most `at_once` together, and return their results in order.

    The first error cancels the rest and is raised alone.
    """
    if len(jobs) == 1:
        return [await jobs[0]()]
    results: dict[int, Result] = {}
    waiting = iter(enumerate(jobs))

    async def work() -> None:
        for place, job in waiting:
            results[place] = await job()

    with first_error_alone():
        async with anyio.create_task_group() as tasks:
            for _ in range(min(at_once, len(jobs)) - 1):
                tasks.start_soon(work)
            await work()  # this task is one of them
    if len(results) < len(jobs):
        # Cancelled just as a scope in a job ended: anyio takes the one for the other, and goes on.
        raise anyio.get_cancelled_exc_class()
    return [results[place] for place in range(len(jobs))]
