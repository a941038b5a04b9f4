"""Stalls of a process: which of its clocks they stop, and what stays within its bounds."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import anyio
import pytest
from proof.simulator import loop
from proof.simulator.clocks import START
from proof.simulator.process import RELIABLE, Process, Reliability
from proof.simulator.randomness import stream
from proof.simulator.world import World
from support.ledgers import HOME

from ledger.runtime.clock import ElapsedTime

SKEW = 60.0
SPAN = 20_000.0
OFTEN = Reliability(steps_per_fault=40, crash_share=0.0, stall_seconds_max=(30.0, 300.0))
READ_DEADLINE, OBSERVATION_DELAY = 15.0, 20.0
PAGES_MAX = 6


class Look(NamedTuple):
    """A look of a process at its clocks: by the world when it began and ended, and what it saw."""

    begins: float
    elapsed: float
    monotonic: float
    off_seconds: float
    ends: float


def process(seed: int, reliability: Reliability, world: World) -> Process:
    """Return a process of a seed."""
    return Process(
        f"process {seed}",
        world=world,
        randomness=stream(seed, "process"),
        reliability=reliability,
        skew_seconds=SKEW,
        span=SPAN,
    )


async def looks(seed: int) -> list[Look]:
    """Return looks, one after each page, of a process that often stalls."""
    world = World((HOME,), loop=asyncio.get_running_loop(), randomness=stream(seed, "world"))
    one = process(seed, OFTEN, world)
    elapsed, found = ElapsedTime(one.clock), []
    while one.local < SPAN:
        await one.until(one.local + 2.0)
        begins, seconds, monotonic = one.local, elapsed.seconds(), one.clock.monotonic()
        off = one.clock.wall(one.local) - START - timedelta(seconds=one.local)
        found.append(Look(begins, seconds, monotonic, off.total_seconds(), one.local))
    return found


def reads(found: Sequence[Look]) -> Iterator[tuple[Look, Look]]:
    """Yield the looks before and after reads of up to `PAGES_MAX` pages."""
    for pages in range(1, PAGES_MAX + 1):
        yield from zip(found, found[pages:], strict=False)


@pytest.mark.parametrize("seed", range(6))
def test_a_wall_clock_stays_within_the_skew(seed: int) -> None:
    """However often it stood still: merging assumes that any two are within `clock_skew`."""
    offs = [look.off_seconds for look in loop.run(partial(looks, seed))]
    assert max(map(abs, offs)) <= SKEW / 2 + 1e-3


@pytest.mark.parametrize("seed", range(6))
def test_a_read_that_seems_short_was_short(seed: int) -> None:
    """Within `read_deadline` by elapsed time it took less than `observation_delay` in the world."""
    took = [
        (last.begins - first.ends, last.elapsed - first.elapsed, last.monotonic - first.monotonic)
        for first, last in reads(loop.run(partial(looks, seed)))
    ]
    assert max(real for real, elapsed, _ in took if elapsed <= READ_DEADLINE) < OBSERVATION_DELAY
    assert max(real for real, _, monotonic in took if monotonic <= READ_DEADLINE) > 100


async def waking() -> float:
    """Return how much monotonic time a process that never fails sees in a minute."""
    world = World((HOME,), loop=asyncio.get_running_loop(), randomness=stream(1, "world"))
    well = process(1, RELIABLE, world)
    before = well.clock.monotonic()
    await anyio.sleep(60)
    return well.clock.monotonic() - before


def test_a_process_that_never_stalls_sees_all_time() -> None:
    """Its monotonic clock is off by its rate alone."""
    assert loop.run(waking) == pytest.approx(60, rel=0.01)
