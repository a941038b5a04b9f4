"""One limit for many waits: what takes too long is ended, and nothing else is."""

import asyncio
import math

import anyio
import anyio.lowlevel
import pytest
from proof.simulator.loop import run

from ledger.store.dynamodb.client import TimeLimit

SHORT_SECONDS = 0.02


async def test_a_wait_that_takes_too_long_is_ended() -> None:
    """It raises `TimeoutError` and says so, and the task goes on as if never cancelled."""
    limit = TimeLimit(SHORT_SECONDS)
    wait = limit.begin()
    with pytest.raises(TimeoutError), wait:
        await anyio.sleep_forever()

    assert wait.expired
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await anyio.lowlevel.checkpoint()


def test_each_of_many_waits_has_its_own_time() -> None:
    """One timer serves them all: those that end in time do, and the others are ended in turn."""
    ended: list[str] = []

    async def wait_for(limit: TimeLimit, name: str, seconds: float) -> None:
        try:
            with limit.begin():
                await anyio.sleep(seconds)
        except TimeoutError:
            name += " late"
        ended.append(name)

    async def twice() -> None:
        limit = TimeLimit(SHORT_SECONDS)
        for _ in range(2):  # the timer is set anew once none was left
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait_for, limit, "a", 60)
                await anyio.sleep(SHORT_SECONDS / 2)
                tasks.start_soon(wait_for, limit, "b", 60)
                tasks.start_soon(wait_for, limit, "c", 0)

    run(twice)
    assert ended == ["c", "a late", "b late"] * 2


async def test_an_error_and_a_time_out_of_another_pass() -> None:
    """What the wait raises itself is not taken for the limit's end."""
    limit = TimeLimit(60)
    for error in (ValueError, TimeoutError):
        wait = limit.begin()
        with pytest.raises(error), wait:
            raise error
        assert not wait.expired


async def test_without_a_limit_there_is_no_timer() -> None:
    """A wait may take for ever, on any loop."""
    wait = TimeLimit(math.inf).begin()
    with wait:
        await anyio.lowlevel.checkpoint()
    assert not wait.expired


async def test_a_cancelled_wait_is_cancelled() -> None:
    """Whoever cancels a task that is limited, too, gets it cancelled."""
    limit = TimeLimit(SHORT_SECONDS)
    reached: list[str] = []

    async def work() -> None:
        with limit.begin():
            await anyio.sleep_forever()
        reached.append("end")

    task = asyncio.create_task(work())
    await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await anyio.sleep(2 * SHORT_SECONDS)  # the limit has no one to end any more
    assert reached == []


async def test_cancelled_and_late_at_once_is_cancelled() -> None:
    """A cancellation that comes with the end of the time is not lost in a time-out."""
    limit = TimeLimit(60)

    async def work() -> None:
        with limit.begin() as wait:
            started.set_result(wait)
            await anyio.sleep_forever()

    started: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(work())
    wait = await started
    task.cancel()
    wait.expire()  # type: ignore[attr-defined]
    with pytest.raises(asyncio.CancelledError):
        await task


def test_only_a_task_is_limited() -> None:
    """A callback of the loop has nothing that could be cancelled."""

    async def main() -> object:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[object] = loop.create_future()

        def call() -> None:
            try:
                TimeLimit(1).begin()
            except RuntimeError as error:
                found.set_result(error)

        loop.call_soon(call)
        return await found

    assert "only a task" in str(asyncio.run(main()))
