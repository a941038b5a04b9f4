"""Imports under a contract that changes meanwhile, and batches whose markers are hard to read."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest
from support.importing import (
    HOME,
    SETTINGS,
    Fate,
    FateStore,
    csv_of,
    imported,
    markers_of,
    source_of,
    sums_of,
    sums_of_csv,
    surveyed,
)
from support.ledgers import make_services
from support.live import Live, SignedStore

from ledger.core.contract import NO_HOME, Validity
from ledger.core.entry import Item
from ledger.core.errors import (
    ContractStale,
    ImportRefused,
    OutcomeUnknown,
    RegionUnreadable,
    Unreachable,
)
from ledger.settings import Settings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.wrappers.faults import FaultyStore, Raises
from ledger.store.writes import Action, Outcome, Rejected
from ledger.testing.clock import START, ManualClock
from ledger.writes.imports.file_format import BATCH_ROWS
from ledger.writes.imports.importer import BATCHES_PARALLEL, Importer, ImportReport

ROWS = 10 * BATCH_ROWS
AWAY = "eu-west-1"
MOVED = SETTINGS.under(SETTINGS.replace(home=AWAY).terms, home=AWAY)


def moving() -> Settings:
    """Return settings while the home is being moved."""
    terms = SETTINGS.terms
    pending = replace(terms, home=NO_HOME)
    return SETTINGS.under(pending, home=HOME)


def opening(*stores: Store) -> Callable[[], AbstractAsyncContextManager[dict[str, Store]]]:
    """Return what opens the stores of the other regions."""
    return lambda: nullcontext({store.region: store for store in stores})


async def test_a_batch_whose_marker_only_another_region_shows_is_not_written_again() -> None:
    """An import that was begun through a former home may have markers that did not arrive here."""
    former = MemoryTable()
    await imported(csv_of(2 * BATCH_ROWS), FateStore(former))
    away, here = MemoryStore(AWAY), FateStore(MemoryTable())
    first, *_ = markers_of(former)
    away.table.set((first["pk"]["S"], first["sk"]["S"]), first)
    live = Live(SETTINGS)
    importer = Importer(here, live, others=opening(away), services=make_services(seed=1))
    content = csv_of(2 * BATCH_ROWS)
    report = await importer.run(source_of(content), await surveyed(content))
    assert (report.batches, report.batches_there) == (1, 1)
    assert len(here.sent) == 1


async def test_a_region_that_cannot_be_read_stops_an_import_before_it_writes() -> None:
    """It might show the markers of batches that are there already."""
    away = FaultyStore(MemoryStore(AWAY), lambda _call: Raises(Unreachable("no answer")))
    here = FateStore(MemoryTable())
    importer = Importer(here, Live(SETTINGS), others=opening(away), services=make_services(seed=1))
    with pytest.raises(RegionUnreadable, match=AWAY):
        await importer.run(source_of(csv_of(ROWS)), await surveyed(csv_of(ROWS)))
    assert here.sent == []


async def run(
    store: MemoryStore, live: Live, *, clock: ManualClock | None = None, rows: int = ROWS
) -> ImportReport:
    """Import a file under settings that change."""
    importer = Importer(store, live, services=make_services(clock or ManualClock(instant=True), 1))
    return await importer.run(source_of(csv_of(rows)), await surveyed(csv_of(rows)))


@pytest.mark.parametrize("then", [moving(), MOVED], ids=["moving", "moved"])
async def test_a_home_that_was_moved_before_is_noticed_before_anything_is_read(
    then: Settings,
) -> None:
    """What the file says of the home is not enough: the contract is looked at first."""
    clock = ManualClock(instant=True)
    store = SignedStore(HOME, clock)
    with pytest.raises(ImportRefused, match="home"):
        await run(store, Live(SETTINGS, then), clock=clock)
    assert store.requests == 0


@pytest.mark.parametrize("then", [moving(), MOVED], ids=["moving", "moved"])
async def test_a_home_that_is_moved_meanwhile_ends_the_import(then: Settings) -> None:
    """Each batch looks again: two homes could write it before the markers have arrived."""
    store = FateStore(MemoryTable())
    with pytest.raises(ImportRefused, match="home"):
        await run(store, Live(SETTINGS, SETTINGS, SETTINGS, SETTINGS, then))
    assert len(store.sent) <= BATCHES_PARALLEL
    assert len(markers_of(store.table)) == len(store.sent) < ROWS // BATCH_ROWS


async def test_no_batch_is_signed_past_the_view_of_the_contract() -> None:
    """A process that stood still since it looked sends nothing."""
    clock = ManualClock(instant=True)
    over = Validity(START - timedelta(seconds=1), clock.monotonic() + 100)
    store = SignedStore(HOME, clock)
    with pytest.raises(ContractStale):
        await run(store, Live(SETTINGS, validity=over), clock=clock)
    assert list(store.table.items()) == []


class Blind(FateStore):
    """An engine that hands back no item; some of its refusals are of markers that then vanish."""

    def __init__(
        self, table: MemoryTable, fates: Sequence[Fate] = (), *, refusals: int = 0
    ) -> None:
        super().__init__(table, fates)
        self.refusals = refusals
        self.consistent: list[bool] = []

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Refuse a batch for its marker, which is gone by the next look."""
        if self.refusals:
            self.refusals -= 1
            return Rejected(found={len(actions) - 1: None, 0: None})
        outcome = await super().transact(actions, token=token)
        if isinstance(outcome, Rejected):
            return Rejected(found=dict.fromkeys(outcome.found))
        return outcome

    async def get(self, get: Get) -> Item | None:
        """Note how the marker is read."""
        self.consistent.append(get.consistent)
        return await super().get(get)


async def test_a_marker_that_was_handed_back_by_none_is_read_consistently() -> None:
    """An eventual read could miss it, and the batch would be tried for ever."""
    store = Blind(MemoryTable(), ["applied, no answer"])
    report = await imported(csv_of(BATCH_ROWS), store)
    assert store.consistent == [True]
    assert sums_of(store.table) == sums_of_csv(BATCH_ROWS)
    assert (report.rows, report.rows_there) == (BATCH_ROWS, 0)


async def test_a_batch_whose_marker_is_gone_is_written() -> None:
    """Without its marker a batch is not known to be there, so it is not counted as done."""
    store = Blind(MemoryTable(), refusals=2)
    report = await imported(csv_of(BATCH_ROWS), store)
    assert sums_of(store.table) == sums_of_csv(BATCH_ROWS)
    assert report.rows == BATCH_ROWS


async def test_throttling_does_not_make_an_unknown_batch_a_failed_one() -> None:
    """After a try without an answer the rows may be there, whatever later tries say."""
    fates: list[Fate] = ["lost, no answer"]
    fates += ["throttled"] * 1000
    with pytest.raises(OutcomeUnknown, match="nothing is counted twice"):
        await imported(csv_of(BATCH_ROWS), FateStore(MemoryTable(), fates))
