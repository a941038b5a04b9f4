from datetime import UTC, timedelta
from itertools import pairwise

from ledger.clock import Clock, SystemClock, blocking_sleep, system_random


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
