"""A round against a running stub: its sums, and what becomes of wrong ones."""

from collections.abc import AsyncIterator

import pytest
from lab.bench import plain, writes
from lab.bench.control import StubControl, running_stub
from lab.bench.load import Work
from lab.bench.rounds import Round, Task
from lab.bench.stub_pages import COMBINED

from ledger.core.errors import LedgerError

pytestmark = pytest.mark.slow

NO_HINTS = {"transport": "lean", "compactor": {"hint_every": 0}}
"""Hints to the compactor are items too."""


@pytest.fixture(scope="module")
async def stub() -> AsyncIterator[StubControl]:
    """Run one stub for the whole module."""
    async with running_stub() as stub:
        yield stub


def round_of(stub: StubControl, **options: object) -> Round:
    """Return a round of a tenth of a second."""
    return Round(Task("", 0.1, options, stub.url))


async def test_group_commit_is_measured_with_its_units(stub: StubControl) -> None:
    """Each change is an item and a write unit, in far fewer requests."""
    round_ = round_of(stub, callers=50, counters=1_000, settings=NO_HINTS)
    found = await writes.record(round_)
    assert found.work > 0
    assert found.units == found.items == found.work
    assert found.requests < found.work / 2


async def test_combining_takes_fewer_items_than_changes(stub: StubControl) -> None:
    """The stub receives sums; the units are of what it received."""
    round_ = round_of(stub, callers=50, counters=2, name=COMBINED, settings=NO_HINTS)
    found = await writes.record(round_)
    assert found.units == found.items < found.work / 2


async def test_a_round_without_a_call_is_an_error(stub: StubControl) -> None:
    """Where no call ended in time there is nothing to divide by, and no result."""
    with pytest.raises(LedgerError, match=r"no call ended in 0\.1 s"):
        await writes.record(
            round_of(stub, calls_per_second=1, counters=1, callers=1, settings=NO_HINTS)
        )


async def test_calls_are_offered_at_a_rate(stub: StubControl) -> None:
    """A case with a rate is measured so, whatever its callers; none too many is begun."""
    round_ = round_of(stub, calls_per_second=500, counters=100, callers=1, settings=NO_HINTS)
    found = await writes.record(round_)
    assert 0 < found.calls <= 50


async def test_memory_under_overload_is_sampled(stub: StubControl) -> None:
    """The round has the memory, early and late."""
    options = {"callers": 50, "counters": 100, "service_seconds": 0.01, "settings": NO_HINTS}
    found = await writes.overload(round_of(stub, **options))
    assert found.extra["MB, first fifth"] > 1
    assert found.extra["MB, last fifth"] > 1


def test_early_and_late_leave_out_the_beginning() -> None:
    """A tenth of the samples is the start; of the others the first and the last fifth count."""
    samples = [1.0] + [10.0, 20.0] + [99.0] * 5 + [30.0, 40.0]
    found = writes.early_and_late(samples)
    assert found == {"MB, first fifth": 10.0, "MB, last fifth": 40.0}


async def test_a_wrong_sum_is_no_result(stub: StubControl, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that reports changes it has not written is found out."""
    recording = writes.recording

    def boasting(*arguments: object) -> Work:
        work = recording(*arguments)  # type: ignore[arg-type]

        async def boast(number: int) -> tuple[int, int]:
            changes, amount = await work(number)
            return changes, amount + 1

        return boast

    monkeypatch.setattr(writes, "recording", boasting)
    with pytest.raises(LedgerError, match="were acknowledged"):
        await writes.record(round_of(stub, callers=2, counters=5, settings={}))


async def test_plain_clients_write_the_same_items(stub: StubControl) -> None:
    """The baselines are counted by the same stub: a unit and an item a change."""
    found = await plain.put(round_of(stub, callers=2))
    assert found.items == found.requests == found.work == found.units
