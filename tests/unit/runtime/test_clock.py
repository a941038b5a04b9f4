import os
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from itertools import pairwise

import pytest

from ledger.runtime.clock import Clock, ElapsedTime, SystemClock, blocking_sleep, system_random
from ledger.testing.clock import ManualClock


def test_the_time_of_day_is_aware_and_in_utc() -> None:
    """Ids are made of this time, so it carries its zone."""
    assert SystemClock().now().tzinfo is UTC


async def test_elapsed_time_never_falls_and_covers_a_sleep() -> None:
    """Sleeping takes at least its time on the same monotonic clock."""
    clock: Clock = SystemClock()
    readings = [clock.monotonic()]
    for _ in range(3):
        await clock.sleep(0.001)
        readings.append(clock.monotonic())
    assert all(after - before >= 0.001 for before, after in pairwise(readings))


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="Linux has this clock")
def test_the_monotonic_clock_counts_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the system's monotonic clocks it is the one that goes on meanwhile."""
    shown = {time.CLOCK_BOOTTIME: 36_001.0, time.CLOCK_MONOTONIC: 1.0}
    monkeypatch.setattr(time, "clock_gettime", shown.__getitem__)
    assert SystemClock().monotonic() == 36_001.0


@pytest.mark.parametrize(
    ("moves", "expected"),
    [
        ([("pass", 5.0)], 5.0),
        ([("suspend", 5.0)], 5.0),
        ([("pass", 5.0), ("suspend", 7.0)], 12.0),
        ([("suspend", -90.0), ("pass", 5.0)], 5.0),
        ([("suspend", 30.0), ("suspend", -90.0), ("pass", 5.0)], 35.0),
        ([("suspend", 0.001)] * 3, 0.0),
    ],
)
def test_elapsed_time_is_the_larger_of_both_clocks_from_look_to_look(
    moves: list[tuple[str, float]], expected: float
) -> None:
    """A suspension counts, and a wall clock that is set back takes nothing away."""
    clock = ManualClock()
    elapsed = ElapsedTime(clock)
    before = elapsed.seconds()
    for move, seconds in moves:
        (clock.pass_by if move == "pass" else clock.suspend)(seconds)
        elapsed.seconds()
    assert elapsed.seconds() - before == pytest.approx(expected)


def test_a_blocking_sleep_takes_its_time() -> None:
    """The commands' wait is measured on the same clock."""
    clock = SystemClock()
    before, elapsed = clock.now(), clock.monotonic()
    blocking_sleep(0.001)
    assert clock.monotonic() - elapsed >= 0.001
    assert clock.now() - before < timedelta(hours=1)


def test_system_randomness_cannot_be_seeded() -> None:
    """Two processes that seed alike still draw different ids."""
    first, second = system_random(), system_random()
    first.seed(7)
    second.seed(7)
    assert first.getrandbits(128) != second.getrandbits(128)


def test_a_forked_child_does_not_draw_what_its_parent_has_in_stock() -> None:
    """Ids of a child differ from those that its parent goes on to make."""
    drawn = system_random()
    drawn.getrandbits(64)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, drawn.getrandbits(64).to_bytes(8, "big"))
        os._exit(0)
    os.waitpid(child, 0)
    theirs = int.from_bytes(os.read(reading, 8), "big")
    for end in (reading, writing):
        os.close(end)
    assert theirs not in {drawn.getrandbits(64) for _ in range(1000)}


def test_threads_never_draw_the_same() -> None:
    """What one thread has drawn from the stock no other is given."""
    drawn = system_random()
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: [drawn.getrandbits(64) for _ in range(5000)], range(4)))
    assert len({word for part in parts for word in part}) == 20_000
