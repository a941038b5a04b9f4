"""A scan that was cut off goes on where it was, with what it had found."""

from collections.abc import Iterator
from contextlib import suppress
from unittest.mock import patch

import pytest
from support.audits import audited, mended
from support.lanes import lane_worker
from support.ledgers import HOME, seeded
from support.pipelines import deliveries, message, shown, truth

from ledger.core.errors import AccessDenied
from ledger.pipeline.auditing import scan_checkpoints
from ledger.pipeline.auditing.audit import Report
from ledger.pipeline.auditing.scan_checkpoints import (
    PIECE_PREFIX,
    SCAN_SORT_KEY,
    Checkpoints,
    ScanPosition,
)
from ledger.pipeline.core.registry import registry_partition
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.writes import Delete

RAWS = [message(f"T{number}", 1, 10**number, desk="ABC"[number % 3]) for number in range(12)]
LANE = f"{HOME}/lane"
PLACE = ScanPosition(HOME, ("pk", "sk"), 7)


def make(store: MemoryStore, run: str = "audit 1", seed: int = 1) -> Checkpoints:
    """Return the checkpoints of a run."""
    return Checkpoints(store, "", run, seeded(seed))


def kept(store: MemoryStore) -> list[str]:
    """Return the sort keys of checkpoints."""
    return sorted(
        key
        for key in store.table.partitions.get(registry_partition(), {})
        if key == SCAN_SORT_KEY or key.startswith(PIECE_PREFIX)
    )


@pytest.fixture
def often() -> Iterator[None]:
    """Write a checkpoint after every page."""
    with (
        patch.object(scan_checkpoints, "CHECKPOINT_PAGES", 1),
        patch.object(scan_checkpoints, "PIECE_CHARACTERS", 64),
    ):
        yield


@pytest.mark.usefixtures("often")
async def test_a_checkpoint_is_read_by_its_own_run_alone() -> None:
    """In several pieces; the one before is gone, and another run begins."""
    store = MemoryStore(HOME)
    mine = make(store)
    assert await mine.read() is None
    found = {"truth": {f"category-{number}": f"1.{number}" for number in range(99)}}
    await mine.write(ScanPosition(HOME, ("a", "b"), 3), {})
    await mine.write(PLACE, found)
    assert len(kept(store)) > 3
    assert await make(store).read() == (PLACE, found)
    assert await make(store, "audit 2").read() is None
    await store.write(Delete((registry_partition(), kept(store)[-1])))
    assert await make(store).read() is None
    await mine.forget()
    assert kept(store) == []


@pytest.mark.usefixtures("often")
async def test_a_write_that_is_cut_off_leaves_the_checkpoint_before() -> None:
    """The place is written last, in one item."""
    for number in range(1, 99):
        store = MemoryStore(HOME)
        await make(store).write(PLACE, {"a": "x" * 90})

        def decide(call: FaultCall, number: int = number) -> Fault | None:
            return Raises(AccessDenied("killed")) if call.number == number else None

        faulty = FaultyStore(store, decide)
        again = Checkpoints(faulty, "", "audit 1", seeded(number + 1))
        with suppress(AccessDenied):
            await again.write(ScanPosition(HOME, ("c", "d"), 8), {"a": "y" * 90})
        read = await make(store).read()
        assert read in [
            (PLACE, {"a": "x" * 90}),
            (ScanPosition(HOME, ("c", "d"), 8), {"a": "y" * 90}),
        ]
        if faulty.calls < number:
            break
    else:
        raise AssertionError("the checkpoint never ends")


async def test_a_large_checkpoint_is_written_more_rarely() -> None:
    """Every hundred pages, or as many as cost ten times as much."""
    mine = make(MemoryStore(HOME))
    assert [mine.is_due() for _ in range(100)].index(True) == 99
    await mine.write(PLACE, {"a": f"{seeded(3).getrandbits(8_000_000):x}"})
    assert [mine.is_due() for _ in range(999)].index(True) > 190


async def half_done() -> MemoryStore:
    """Return a table in pages of 5 items, whose lane has left transitions open."""
    store = MemoryStore(HOME, page_items_max=5)
    await lane_worker(deliveries(RAWS[:6]), store).run()
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "transact" else None
    )
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(RAWS), dying).run()
    return store


def killed_at_scan(store: MemoryStore, number: int) -> FaultyStore:
    """Return the store of a run that is killed at its Nth page."""
    scans = 0

    def decide(call: FaultCall) -> Fault | None:
        nonlocal scans
        scans += call.operation == "scan"
        return Raises(AccessDenied("killed")) if scans == number else None

    return FaultyStore(store, decide)


@pytest.mark.usefixtures("often")
async def test_an_audit_goes_on_where_it_was_cut_off() -> None:
    """Killed between any two pages: the same result, and no page is read twice."""
    right: Report | None = None
    for number in range(1, 30):
        store = await half_done()
        dying, again, said = killed_at_scan(store, number), killed_at_scan(store, 99), list[str]()
        try:
            report = await audited(dying)
        except AccessDenied:
            report = await audited(again, on_progress=said.append)
            expected = f"{HOME}: continues after {5 * (number - 1)} items"
            assert (said[0] == expected) == (number > 1)
        else:
            right = report
        assert report.differences == []
        assert (report.records, report.lanes[LANE].records) == (len(RAWS), 6)
        assert report.lanes[LANE].first == f"{7:06d}"
        assert kept(store) == []
        if right is not None:
            break
    assert number > 3


@pytest.mark.usefixtures("often")
async def test_a_mend_goes_on_where_it_was_cut_off() -> None:
    """What it says in the end is of both runs."""
    store = await half_done()
    with pytest.raises(AccessDenied):
        await mended(killed_at_scan(store, 5), LANE, closes=True)
    done = await mended(store, LANE, closes=True)
    assert done.records == 6
    assert done.changes == truth(RAWS[6:])
    assert shown(store.table) == truth(RAWS)
    assert kept(store) == []
