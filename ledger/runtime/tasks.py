"""Many jobs at once, a bounded number at a time, with a plain error instead of a group of them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

Result = TypeVar("Result")


async def run_all(jobs: Sequence[Callable[[], Awaitable[Result]]], *, at_once: int) -> list[Result]:
    """Run every job, at most `at_once` together, and return their results in order.

    The first error cancels the rest and is raised as it is.
    """
    if len(jobs) == 1:
        return [await jobs[0]()]
    results: dict[int, Result] = {}
    errors: list[Exception] = []
    waiting = iter(enumerate(jobs))
    async with anyio.create_task_group() as tasks:

        async def work() -> None:
            for place, job in waiting:
                try:
                    results[place] = await job()
                except Exception as error:  # noqa: BLE001 (raised below, in the caller's task)
                    errors.append(error)
                    tasks.cancel_scope.cancel()
                    return

        for _ in range(min(at_once, len(jobs))):
            tasks.start_soon(work)
    if errors:
        raise errors[0]
    return [results[place] for place in range(len(jobs))]


def first_error(error: Exception) -> Exception:
    """Return the first plain error of a group; any other as it is."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
