"""The clock that tests move: every task runs until it sleeps, and idle turns are not waited for."""

import asyncio
from collections.abc import Awaitable, Callable

import anyio.lowlevel
import pytest
import uvloop

from ledger.testing.clock import TURNS_MAX, ManualClock

Factory = Callable[[], asyncio.AbstractEventLoop]
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])


def run(loop: Factory, work: Callable[[], Awaitable[None]]) -> None:
    """Run work on a loop of its own."""

    async def main() -> None:
        await work()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


@LOOPS
def test_each_task_runs_until_it_sleeps(loop: Factory) -> None:
    """However many turns each takes, up to the limit; one that sleeps is woken in its time."""
    turns = {"short": 1, "long": TURNS_MAX - 1}
    slept: list[str] = []
    clock = ManualClock()

    async def task(name: str) -> None:
        for _ in range(turns[name]):
            await anyio.lowlevel.checkpoint()
        await clock.sleep(5)
        slept.append(name)

    async def work() -> None:
        async with anyio.create_task_group() as tasks:
            for name in turns:
                tasks.start_soon(task, name)
            await clock.run_pending()
            await clock.advance(4)
            assert slept == []
            await clock.advance(1)
            assert slept == ["short", "long"]

    run(loop, work)


def test_a_loop_with_nothing_to_do_is_turned_once() -> None:
    """What is ready is seen: else each step of time would cost `TURNS_MAX` turns.

    Callbacks of other tasks keep a loop busy, so the turns are counted by its clock, which it reads
    in each.
    """
    turns = 0

    class Counted(asyncio.SelectorEventLoop):
        def time(self) -> float:
            nonlocal turns
            turns += 1
            return super().time()

    async def work() -> None:
        clock = ManualClock()
        before = turns
        await clock.advance(1)
        assert turns - before < TURNS_MAX / 10

    run(Counted, work)
