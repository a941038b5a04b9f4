"""Tests of the event loop on virtual time."""

import asyncio
import signal
import time

import anyio
import pytest
from proof.simulator.loop import Stuck, run


def test_time_passes_without_waiting() -> None:
    """A day of sleeping takes no time, and the loop's clock says that a day has passed."""

    async def main() -> float:
        await anyio.sleep(86_400)
        return anyio.current_time()

    started = time.monotonic()
    assert run(main) == pytest.approx(86_400)
    assert time.monotonic() - started < 60


def test_timers_fire_in_order_of_time() -> None:
    """Whatever was started first, what sleeps shorter wakes first."""
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await anyio.sleep(seconds)
        woken.append(seconds)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for seconds in (3.0, 0.5, 2.0, 100.0):
                tasks.start_soon(sleeper, seconds)

    run(main)
    assert woken == [0.5, 2.0, 3.0, 100.0]


def test_deadlines_are_virtual() -> None:
    """A timeout of an hour ends a wait for ever."""

    async def main() -> bool:
        with anyio.move_on_after(3600) as scope:
            await anyio.sleep_forever()
        return scope.cancelled_caught

    assert run(main)


def test_nothing_left_to_happen_is_an_error() -> None:
    """A wait that nothing can end raises instead of hanging."""
    with pytest.raises(Stuck, match="waits for ever"):
        run(anyio.sleep_forever)


def test_endless_moment_is_an_error() -> None:
    """A loop that spins without time passing raises instead of hanging."""

    async def main() -> None:
        while True:  # noqa: ASYNC110 (a loop that never lets time pass is what is shown)
            await asyncio.sleep(0)

    with pytest.raises(Stuck, match="spins"):
        run(main)


def test_sets_of_tasks_have_one_order() -> None:
    """Tasks hash by their number, so that a set of them is walked in the same order every time."""

    async def main() -> list[int]:
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(5)]
        await asyncio.gather(*tasks)
        return [hash(task) for task in tasks]

    first = run(main)
    assert first == run(main)
    assert first == sorted(set(first))


def test_ctrl_c_ends_a_run() -> None:
    """An interrupt unwinds what runs and is raised as such, as on any other loop."""
    unwound = []

    async def main() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await anyio.sleep(1)
        finally:
            unwound.append(True)

    with pytest.raises(KeyboardInterrupt):
        run(main)
    assert unwound == [True]
