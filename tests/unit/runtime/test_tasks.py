"""Many jobs at once, within a bound, with plain errors."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Self

import anyio
import pytest
from anyio.lowlevel import checkpoint

from ledger.runtime.tasks import background_tasks, in_portions, run_all, run_requests

WAYS = pytest.mark.parametrize("run", [run_all, run_requests])
Run = Callable[..., Coroutine[Any, Any, object]]


@WAYS
@pytest.mark.parametrize("count", [0, 1, 2, 50])
async def test_results_keep_their_order(run: Run, count: int) -> None:
    """Results come in the order of the jobs, whichever is done first."""

    async def job(number: int) -> int:
        for _ in range(count - number):
            await checkpoint()
        return number

    jobs = [partial(job, number) for number in range(count)]

    assert await run(jobs, at_once=7) == list(range(count))


@WAYS
async def test_never_more_than_allowed_at_once(run: Run) -> None:
    """As many jobs as allowed run together, never more."""
    running, most = 0, 0

    async def job() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await checkpoint()
        running -= 1

    await run([job] * 20, at_once=3)

    assert most == 3


@WAYS
@pytest.mark.parametrize("beside", [0, 5])
async def test_first_error_is_raised_plain_and_ends_the_rest(run: Run, beside: int) -> None:
    """The first error comes out as it is, not in a group, and jobs under way are cancelled."""
    error = KeyError("first")
    ended: list[str] = []

    async def fail() -> None:
        await checkpoint()
        raise error

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("cancelled")

    jobs: list[Callable[[], Awaitable[None]]] = [*[hang] * beside, fail, *[hang] * (beside * 3)]
    with pytest.raises(KeyError) as caught:
        await run(jobs, at_once=8)

    assert caught.value is error
    assert ended == ["cancelled"] * (7 if beside else 0)


@WAYS
async def test_cancelling_the_caller_cancels_the_jobs(run: Run) -> None:
    """A caller that is cancelled leaves no job running."""
    started, ended = 0, 0

    async def hang() -> None:
        nonlocal started, ended
        started += 1
        try:
            await anyio.sleep_forever()
        finally:
            ended += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(run, [hang] * 4, at_once=4))
        while started < 4:
            await checkpoint()
        tasks.cancel_scope.cancel()

    assert ended == 4


async def test_the_error_of_a_body_comes_out_alone_and_ends_the_tasks_beside_it() -> None:
    """The very error of the body is raised, with the cause that it had."""
    error, cause, ended = ValueError("body"), KeyError("cause"), False

    async def hang() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            ended = True

    async def body() -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(hang)
            await checkpoint()
            raise error from cause

    with pytest.raises(ValueError, match="body") as caught:
        await body()

    assert caught.value is error
    assert error.__cause__ is cause
    assert ended


async def test_the_error_of_a_task_beside_ends_the_body_and_comes_out_alone() -> None:
    """A task that fails cancels the body; its error is raised out of all groups."""

    async def fail() -> None:
        raise ExceptionGroup("two", [ExceptionGroup("one", [ValueError("beside")])])

    async def body() -> None:
        async with background_tasks() as tasks:
            tasks.start_soon(fail)
            await anyio.sleep_forever()

    with pytest.raises(ValueError, match="beside"):
        await body()


async def test_the_end_of_a_body_cancels_the_tasks_beside_it() -> None:
    """Nothing runs on after the body."""
    async with background_tasks() as tasks:
        tasks.start_soon(anyio.sleep_forever)


@WAYS
async def test_a_time_limit_around_the_jobs_ends_them_and_the_caller_goes_on(run: Run) -> None:
    """A scope that ends while jobs wait cancels them, and behind it nothing is cancelled."""
    ended = 0

    async def hang() -> None:
        nonlocal ended
        try:
            await anyio.sleep_forever()
        finally:
            ended += 1

    with anyio.move_on_after(0) as scope:
        await run([hang] * 3, at_once=3)
    await checkpoint()

    assert scope.cancelled_caught
    assert ended <= 3  # those that had begun


@WAYS
async def test_a_job_that_loses_a_cancellation_gets_the_next(run: Run) -> None:
    """A scope that is cancelled cancels until it has ended: what one wait ignored ends another."""
    waits = 0

    async def forgetful() -> None:
        nonlocal waits
        while waits < 6:
            with suppress(asyncio.CancelledError):
                waits += 1
                await anyio.sleep_forever()

    with anyio.fail_after(30), anyio.CancelScope() as scope:
        scope.cancel()
        await run([forgetful] * 2, at_once=2)

    assert waits >= 6


async def test_a_cancellation_that_a_group_loses_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a task is cancelled just as a scope in it ends: nothing is returned in part."""

    class Forgetful:
        """A task group that loses what its body raised."""

        async def __aenter__(self) -> Self:
            return self

        def start_soon(self, _work: object) -> None:
            pass

        async def __aexit__(self, *_: object) -> bool:
            return True

    async def cancelled() -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr("ledger.runtime.tasks.anyio.create_task_group", Forgetful)
    with pytest.raises(asyncio.CancelledError):
        await run_all([cancelled, cancelled], at_once=2)


async def test_a_time_limit_that_only_other_jobs_meet_ends_there() -> None:
    """The job of this task shields itself until the others are gone, and then has its result."""
    gone = anyio.Event()

    async def hang() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            gone.set()

    async def shielded() -> None:
        with anyio.CancelScope(shield=True):
            await gone.wait()
            for _ in range(3):  # until the group has noticed
                await checkpoint()

    with anyio.CancelScope() as scope:
        asyncio.get_running_loop().call_soon(scope.cancel)
        await run_all([shielded, hang], at_once=2)
    assert scope.cancelled_caught


async def test_others_go_on_between_the_portions_of_a_calculation() -> None:
    """Each portion is a turn of its own; the result comes at the end."""
    seen: list[str] = []

    def work() -> Generator[None, None, int]:
        for _ in range(3):
            seen.append("portion")
            yield
        return 7

    async def other() -> None:
        for _ in range(3):
            seen.append("other")
            await checkpoint()

    async with background_tasks() as tasks:
        tasks.start_soon(other)
        assert await in_portions(work()) == 7
    assert seen == ["portion", "other"] * 3
