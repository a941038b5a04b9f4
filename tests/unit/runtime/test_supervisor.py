"""Contexts held by a supervisor: opened and closed by any task, closed whole whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import pytest
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from proof.simulator.loop import run as run_virtually
from support.ledgers import make_settings

from compactor import Compactor
from ledger.core.errors import LedgerError
from ledger.runtime.supervisor import Supervised, supervised
from ledger.runtime.tasks import background_tasks

Result = TypeVar("Result")


class Group:
    """A task group to be supervised, and what happened to it."""

    def __init__(self, *, opening_hangs: bool = False, closing_hangs: bool = False) -> None:
        self.told: list[str] = []
        self.held = Supervised(self.opened)
        self._opening_hangs = opening_hangs
        self._closing_hangs = closing_hangs

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[TaskGroup]:
        """Open a task group between two notes."""
        self.told.append("opening")
        try:
            if self._opening_hangs:
                await anyio.sleep_forever()
            async with background_tasks() as tasks:
                yield tasks
                if self._closing_hangs:
                    await anyio.sleep_forever()
        finally:
            self.told.append("closed")


async def elsewhere(call: Awaitable[Result]) -> Result:
    """Await a call in another task."""

    async def run() -> Result:
        return await call

    return await asyncio.create_task(run())


async def fail(error: Exception) -> None:
    """Raise an error in the background."""
    raise error


async def test_opened_and_closed_by_different_tasks() -> None:
    """A task group is entered by one task and left by another, as in fixtures and notebooks."""
    group = Group()
    tasks = await elsewhere(group.held.open())
    ended = anyio.Event()
    tasks.start_soon(ended.wait)
    await elsewhere(group.held.close())

    assert group.told == ["opening", "closed"]


async def test_closed_in_the_order_of_opening() -> None:
    """Of two that one task opened the first may be closed first."""
    first, second = Group(), Group()
    await first.held.open()
    await second.held.open()
    await first.held.close()
    assert second.told == ["opening"]
    await second.held.close()
    assert second.told == ["opening", "closed"]


async def test_open_once_at_a_time() -> None:
    """Entered twice is an error that changes nothing; closed twice is harmless; then it reopens."""
    group = Group()
    await group.held.close()
    tasks = await group.held.open()
    with pytest.raises(LedgerError, match="already open"):
        await group.held.open()
    assert group.held.here() is group.held.resource is tasks
    await asyncio.gather(group.held.close(), group.held.close())
    await group.held.close()
    for use in (group.held.here, lambda: group.held.resource):
        with pytest.raises(LedgerError, match="not open"):
            use()
    await group.held.open()
    await group.held.close()
    assert group.told == ["opening", "closed"] * 2


async def test_cancelled_opening_closes_what_was_open() -> None:
    """Who opens within a time limit that ends gets that, after all is closed; and may try again."""
    group = Group(opening_hangs=True)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(group.held.open(), 0.001)
    assert group.told == ["opening", "closed"]
    with anyio.move_on_after(0):
        await group.held.open()
    assert group.told == ["opening", "closed"] * 2


async def test_closing_ends_an_opening() -> None:
    """One that is still being opened is closed at once, and who opens it is told."""
    group = Group(opening_hangs=True)
    opening = asyncio.create_task(group.held.open())
    await checkpoint()
    await checkpoint()
    await group.held.close()
    with pytest.raises(LedgerError, match="closed before it was open"):
        await opening
    assert group.told == ["opening", "closed"]


async def test_cancelled_closing_is_cut_short() -> None:
    """Who closes and is cancelled is so once all is closed, however long that would have taken."""
    group = Group(closing_hangs=True)
    await group.held.open()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(group.held.close(), 0.001)
    assert group.told == ["opening", "closed"]
    await group.held.open()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await group.held.close()
    assert group.told == ["opening", "closed"] * 2


async def test_an_error_of_opening_is_raised_as_itself() -> None:
    """What keeps it from being opened is raised alone, once; closing has nothing to say."""
    error = KeyError("mine")

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        async with anyio.create_task_group():
            raise error
        yield

    held = Supervised(broken)
    with pytest.raises(KeyError) as caught:
        await held.open()
    assert caught.value is error
    await held.close()


async def test_an_error_in_the_background_closes_it(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, is the cause of what fails from then on, and is raised by closing, once."""
    group, error = Group(), KeyError("mine")
    tasks = await group.held.open()
    tasks.start_soon(fail, error)
    while not group.told[1:]:
        await checkpoint()
    assert "closed by an error in the background" in caplog.text
    with pytest.raises(LedgerError, match=r"closed by an error .*mine") as caught:
        group.held.here()
    assert caught.value.__cause__ is error
    with pytest.raises(KeyError) as raised:
        await group.held.close()
    assert raised.value is error
    await group.held.close()
    await group.held.open()
    await group.held.close()


def test_a_task_of_its_own_may_close_it() -> None:
    """Which ends that task too, within a bounded time, and not the loop that waits for it."""

    async def main() -> list[str]:
        group = Group()
        tasks = await group.held.open()
        tasks.start_soon(group.held.close)
        while not group.told[1:]:  # noqa: ASYNC110 (virtual time)
            await anyio.sleep(1.0)
        return group.told

    assert run_virtually(main) == ["opening", "closed"]


async def test_the_end_of_the_loop_closes_what_nobody_closed() -> None:
    """`asyncio.run` ends its supervisor; then another loop may open it."""
    group = Group()
    await anyio.to_thread.run_sync(asyncio.run, group.held.open())
    assert group.told == ["opening", "closed"]
    with pytest.raises(LedgerError, match="not open"):
        group.held.here()
    await group.held.open()
    await group.held.close()


async def test_another_event_loop_is_refused() -> None:
    """A use, or a close, in another loop than that of the opening says so, and changes nothing."""
    group = Group()
    await group.held.open()

    async def use() -> None:
        with pytest.raises(LedgerError, match="opened in another event loop"):
            group.held.here()
        with pytest.raises(LedgerError, match="opened in another event loop"):
            await group.held.close()

    await anyio.to_thread.run_sync(asyncio.run, use())
    assert group.told == ["opening"]
    await group.held.close()


async def test_a_loop_that_was_closed_has_lost_it() -> None:
    """A loop that is closed without an end of its tasks drives nothing: it can be opened anew."""
    group = Group()

    def abandon() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)
        loop.run_until_complete(group.held.open())
        loop.close()
        return loop

    await anyio.to_thread.run_sync(abandon)
    await group.held.open()
    await group.held.close()


def test_without_asyncio_opening_says_so() -> None:
    """Driven by another library, as by trio, opening is refused in one line."""
    opening: Any = Group().held.open()
    with pytest.raises(LedgerError, match="needs asyncio"):
        opening.send(None)


def test_without_asyncio_no_compactor_runs() -> None:
    """What opens connections for itself says the same."""
    run: Any = Compactor(make_settings()).run_once()
    with pytest.raises(LedgerError, match="needs asyncio"):
        run.send(None)


async def test_a_supervised_context_is_left_by_another_task() -> None:
    """As a context of its own: the body's error is not shown to what is inside."""
    group, error = Group(), KeyError("mine")
    context = supervised(group.opened())
    await elsewhere(context.__aenter__())
    await elsewhere(context.__aexit__(None, None, None))
    assert group.told == ["opening", "closed"]
    with pytest.raises(KeyError) as caught:
        async with supervised(group.opened()):
            raise error
    assert caught.value is error
