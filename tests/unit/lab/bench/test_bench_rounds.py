"""A round against a running stub: its sums, and what becomes of wrong ones."""

from collections.abc import AsyncIterator

import pytest

from ledger.core.errors import LedgerError
from ledger.lab.bench import engines, plain, writes
from ledger.lab.bench.control import StubControl, running_stub
from ledger.lab.bench.load import Work
from ledger.lab.bench.rounds import Round, Task

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
    assert found.units == found.extra["items"] == found.work
    assert found.requests < found.work / 2


async def test_combining_takes_fewer_items_than_changes(stub: StubControl) -> None:
    """The stub receives sums; the units are of what it received."""
    settings = {**NO_HINTS, "combine": ["combined-*"]}
    round_ = round_of(stub, callers=50, counters=2, prefix="combined-", settings=settings)
    found = await writes.record(round_)
    assert found.units == found.extra["items"] < found.work / 2


async def test_shards_spread_what_one_counter_gets(stub: StubControl) -> None:
    """The stub counts by partition: of four shards none gets far more than its share."""
    settings = {**NO_HINTS, "shards": {"hot": 4}}
    options = {"counters": 1, "prefix": "hot", "counts_partitions": True}
    found = await writes.record(round_of(stub, callers=200, settings=settings, **options))
    assert 1 <= found.extra["busiest partition, times even"] < 1.5
    assert len(stub.arrived().partitions) == 4


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


@pytest.mark.engines("dynoxide")
async def test_what_was_acknowledged_is_in_the_engine() -> None:
    """On dynoxide the changes are read back: as many as were acknowledged, with their sum."""
    options = {"callers": 50, "counters": 1_000, "settings": NO_HINTS}
    found = await engines.record(Round(Task("", 0.1, options)))
    assert found.extra["items"] == found.work == found.units > 0


async def test_plain_clients_write_the_same_items(stub: StubControl) -> None:
    """The baselines are counted by the same stub: a unit and an item a change."""
    found = await plain.aiobotocore_put(round_of(stub, callers=2))
    assert found.extra["items"] == found.requests == found.work == found.units
    found = await plain.boto3_batch_writer(round_of(stub, size=50))
    assert found.extra["items"] == found.work == 25 * found.requests
