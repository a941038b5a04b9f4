"""A rebuild gives every state the categories of the settings of now, once, whatever cuts it off."""

import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from support.audits import audited, mended, rebuilt
from support.lanes import lane_worker
from support.ledgers import HOME
from support.pipelines import deliveries, map_items, message, shown

from ledger.core.amounts import EXACT
from ledger.core.entry import Item
from ledger.core.errors import AccessDenied, FormConflict, InvalidInput, LedgerError
from ledger.pipeline.auditing import rebuild, scan_checkpoints
from ledger.pipeline.core.items import position_key, state_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.core.registry import FORM_PREFIX, region_key, registry_partition, task_of
from ledger.pipeline.sources.source import ListSource
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Page, Scan
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Outcome

LANE = f"{HOME}/lane"
RAWS = [message(f"T{number}", 1, 10**number, desk="ABC"[number % 3]) for number in range(9)]
BY_BOTH: dict[str, Any] = {"categories": ["both/{Hierarchy.RiskType}/{Hierarchy.Desk}"]}
COUNTED: dict[str, Any] = {**BY_BOTH, "measures": {"count": ["trades/{Hierarchy.Desk}"]}}


def right(raws: Sequence[bytes], *, counts: bool = False) -> dict[str, Decimal]:
    """Return the totals by both, without code of ours; each raw is the newest of its record."""
    sums: dict[str, Decimal] = {}
    for told in map(json.loads, raws):
        place = told["Hierarchy"]
        name = f"both/{place['RiskType']}/{place['Desk']}"
        sums[name] = EXACT.add(sums.get(name, 0), told["Value"])
        if counts:
            name = f"trades/{place['Desk']}"
            sums[name] = sums.get(name, Decimal(0)) + 1
    return sums


def with_t4(newest: bytes) -> list[bytes]:
    """Return the records, T4 in another version."""
    return [*(raw for raw in RAWS if b'"T4"' not in raw), newest]


async def filled(page_items_max: int = 7) -> MemoryStore:
    """Return a table in small pages, with what one lane has brought in."""
    store = MemoryStore(HOME, page_items_max=page_items_max)
    await lane_worker(deliveries(RAWS), store).run()
    return store


def killed_at(store: Store, operation: str) -> FaultyStore:
    """Return the store of a process that is killed at its first request of a kind."""
    return FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == operation else None
    )


def forget_fields(store: MemoryStore, *records: str) -> None:
    """Let states keep no field."""
    for record in records:
        item = dict(store.table.get(state_key(record)) or {})
        del item["fields"]
        store.table.set(state_key(record), item)


async def test_states_get_the_categories_of_now_and_a_second_measure() -> None:
    """Old categories are left, an audit is clean, and again no state is written."""
    store, said = await filled(), list[str]()
    done = await rebuilt(store, on_progress=said.append, **COUNTED)
    assert (done.records, done.rewritten, done.is_complete) == (9, 9, True)
    assert shown(store.table) == right(RAWS, counts=True)
    assert map_items(store.table) == []
    assert (await audited(store)).differences == []
    assert any("its table read" in line for line in said)
    again = await rebuilt(killed_at(store, "transact"), **COUNTED)
    assert (again.records, again.rewritten, again.changes) == (9, 0, {})
    back = await rebuilt(store)
    assert back.changes == {name: by.copy_negate() for name, by in done.changes.items()}


async def test_a_dry_run_says_what_would_change_and_writes_nothing() -> None:
    """By category, as the rebuild then does it."""
    store = await filled()
    before = {name: dict(items) for name, items in store.table.partitions.items()}
    dry = await rebuilt(store, is_dry=True, **BY_BOTH)
    assert before == store.table.partitions
    assert dry == await rebuilt(store, **BY_BOTH)
    assert dry.changes["risk/Delta"] == -111_111_111
    assert dry.changes["both/Delta/A"] == 1_001_001


async def test_a_dry_run_counts_a_state_that_records_bring_once() -> None:
    """However often its record is read, and whether it keeps its fields or not."""
    store = await filled()
    forget_fields(store, "T1", "T4")
    source = ListSource(deliveries([*RAWS, *RAWS]))
    dry = await rebuilt(store, source, is_dry=True, **BY_BOTH)
    assert (dry.rewritten, dry.lacking, dry.is_complete) == (9, 0, True)
    assert dry == await rebuilt(store, source, **BY_BOTH)


async def test_states_without_the_fields_are_left_and_named_until_records_bring_them() -> None:
    """Of the same version; an older or a newer one, or one without a state, changes nothing."""
    store = await filled()
    forget_fields(store, "T1", "T4")
    done = await rebuilt(store, **BY_BOTH)
    assert (done.rewritten, done.lacking, done.is_complete) == (7, 2, False)
    assert sorted(done.listed) == [
        f"record {one}: as its state keeps it, the record has no field Hierarchy.RiskType"
        for one in ("T1", "T4")
    ]
    assert (await audited(store)).differences == []
    raws = [message("T1", 0, 5), *RAWS, message("T4", 2, 5), message("T99", 1, 1), b"{}"]
    again = await rebuilt(store, ListSource(deliveries(raws)), **BY_BOTH)
    assert (again.older, again.newer, again.unknown, again.dead) == (1, 1, 1, 1)
    assert again.listed == ["file 0 at 13: the record has no field Hierarchy.RiskType"]
    assert (again.rewritten, again.lacking, again.is_complete) == (2, 0, True)
    assert shown(store.table) == right(RAWS)
    assert (await audited(store)).differences == []


async def test_a_record_brings_a_value_of_another_field_too() -> None:
    """Where states must say which of both they hold."""
    raws = [json.dumps({**json.loads(raw), "Lots": 3}).encode() for raw in RAWS]
    store = MemoryStore(HOME)
    await lane_worker(deliveries(raws), store).run()
    lots = {"id": "TradeID", "version": "Version", "value": "Lots"}
    by_lots: dict[str, Any] = {**BY_BOTH, "fields": lots}
    with pytest.raises(InvalidInput, match="was Value, is Lots: name Lots in"):
        await rebuilt(store, **by_lots)
    assert (await rebuilt(store, keep_fields=["Lots"], **by_lots)).lacking == 9
    source = ListSource(deliveries(raws))
    assert (await rebuilt(store, source, keep_fields=["Lots"], **by_lots)).is_complete
    assert set(shown(store.table).values()) == {Decimal(9)}
    assert (await rebuilt(store, **by_lots)).rewritten == 0, "the other form is forgotten"


async def test_what_the_form_cannot_take_is_left_and_named() -> None:
    """As a state whose category would be of the values and of the counts."""
    store = await filled()
    done = await rebuilt(
        store, categories=["{Hierarchy.Desk}"], measures={"count": ["A", "n/{Hierarchy.Desk}"]}
    )
    assert (done.rewritten, done.refused, done.is_complete) == (6, 3, False)
    assert all("A is of pipeline.categories and pipeline.measures" in one for one in done.listed)
    assert (await audited(store)).differences == []


@pytest.mark.slow
@pytest.mark.parametrize("is_applied", [False, True])
async def test_it_may_be_cut_off_anywhere(*, is_applied: bool) -> None:
    """Killed before or after any of its requests, and run again: each state once."""
    kill = Raises(AccessDenied("killed"), applied=is_applied)
    for number in range(1, 200):
        store = await filled()

        def decide(call: FaultCall, number: int = number) -> Fault | None:
            return kill if call.number == number else None

        faulty = FaultyStore(store, decide)
        with (
            patch.object(scan_checkpoints, "CHECKPOINT_PAGES", 1),
            patch.object(rebuild, "TOGETHER_MAX", 2),
        ):
            with suppress(AccessDenied):
                await rebuilt(faulty, **COUNTED)
            done = await rebuilt(store, **COUNTED)
        assert done.records == len(RAWS), number
        assert shown(store.table) == right(RAWS, counts=True), number
        assert (await audited(store)).differences == []
        if faulty.calls < number:
            break
    else:
        raise AssertionError("the rebuild never ends")


def killed_at_scan(store: Store, number: int) -> FaultyStore:
    """Return the store of a process that is killed at a request for a page."""
    pages = count(1)
    return FaultyStore(
        store,
        lambda call: (
            Raises(AccessDenied("killed"))
            if call.operation == "scan" and next(pages) == number
            else None
        ),
    )


def checkpoint_of(store: MemoryStore) -> dict[str, Item]:
    """Return the items of the checkpoint that is there."""
    registry = store.table.partitions[registry_partition("")]
    return {name: item for name, item in registry.items() if name.startswith("scan")}


def put_back(store: MemoryStore, left: dict[str, Item]) -> None:
    """Write a checkpoint late: as a process does that was stopped before it, and woke."""
    for sort_key, item in left.items():
        store.table.set((registry_partition(""), sort_key), item)


async def test_a_checkpoint_that_is_left_is_of_no_later_run() -> None:
    """Its run went on and ended, another gave the states the former form, then this one again."""
    store = await filled(page_items_max=3)
    with patch.object(scan_checkpoints, "CHECKPOINT_PAGES", 1):
        with pytest.raises(AccessDenied):
            await rebuilt(killed_at_scan(store, 6), seed=1, **BY_BOTH)
        left, said = checkpoint_of(store), list[str]()
        assert len(left) == 2
        await rebuilt(store, seed=2, on_progress=said.append, **BY_BOTH)
        assert any("continues after" in line for line in said)
        await rebuilt(store, seed=3)
        put_back(store, left)
        done = await rebuilt(store, seed=4, **BY_BOTH)
    assert done.rewritten == len(RAWS)
    assert shown(store.table) == right(RAWS)


async def test_a_rebuild_that_another_took_over_begins_from_the_start() -> None:
    """What it had rewritten before its checkpoint may be of the other form by then."""
    store = await filled(page_items_max=3)
    with patch.object(scan_checkpoints, "CHECKPOINT_PAGES", 1):
        with pytest.raises(AccessDenied):
            await rebuilt(killed_at_scan(store, 6), seed=1, **BY_BOTH)
        left = checkpoint_of(store)
        with pytest.raises(AccessDenied):
            await rebuilt(killed_at_scan(store, 6), seed=2)
        put_back(store, left)
        await rebuilt(store, seed=3, **BY_BOTH)
    assert shown(store.table) == right(RAWS)
    assert (await audited(store)).differences == []


class Woken(ForwardingStore):
    """The store of a process that is stopped before its second page, while others do something."""

    def __init__(self, inner: Store, others: Callable[[], Awaitable[None]]) -> None:
        super().__init__(inner)
        self._others: Callable[[], Awaitable[None]] | None = others
        self._pages = 0

    async def scan(self, scan: Scan) -> Page:
        """Read a page, the second after the others."""
        self._pages += 1
        if self._pages == 2 and self._others is not None:
            others, self._others = self._others, None
            await others()
        return await super().scan(scan)


async def test_a_process_that_wakes_in_a_later_run_does_not_end_it() -> None:
    """It has looked at a part of the states in the run before: it says that it did not do all."""
    store = await filled(page_items_max=3)

    async def others() -> None:
        await rebuilt(store, seed=2, **BY_BOTH)
        await rebuilt(store, seed=3)
        with pytest.raises(AccessDenied):
            await rebuilt(killed_at_scan(store, 1), seed=4, **BY_BOTH)

    with pytest.raises(LedgerError, match="another run"):
        await rebuilt(Woken(store, others), seed=1, **BY_BOTH)
    assert task_of(store.table.get(region_key(HOME))) == "rebuild"
    await rebuilt(store, seed=5, **BY_BOTH)
    assert shown(store.table) == right(RAWS)


class Between(ForwardingStore):
    """A store that does something else before its first transaction."""

    def __init__(self, inner: Store, does: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._does: Callable[[], Awaitable[object]] | None = does

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        does, self._does = self._does, None
        if does is not None:
            await does()
        return await super().transact(actions, token=token)


async def corrected(store: MemoryStore) -> None:
    """Let a lane of the new form correct a record while its state is being rebuilt."""

    async def lane() -> None:
        await lane_worker(deliveries([message("T4", 2, 7)]), store, lane="new", **BY_BOTH).run()

    await rebuilt(Between(store, lane), **BY_BOTH)


async def test_a_lane_of_the_form_goes_on_meanwhile() -> None:
    """A state that it has rewritten since is not overwritten, and counts once."""
    store = await filled(page_items_max=99)
    await corrected(store)
    assert shown(store.table) == right(with_t4(message("T4", 2, 7)))
    assert (await audited(store)).differences == []
    assert lane_state_of(store.table.get(position_key(f"{HOME}/new"))).required == ""


async def test_without_the_condition_on_what_was_read_a_correction_is_lost() -> None:
    """The mutant: its state is put back as it was, and its category counts it twice."""
    store = await filled(page_items_max=99)
    with patch.object(rebuild, "still_there", lambda _: None):
        await corrected(store)
    assert {difference.category for difference in (await audited(store)).differences} > {
        "risk/Delta"
    }


async def test_no_lane_is_opened_under_another_form_until_it_ends() -> None:
    """Nor is one that is new; what to do is said, and after the end any form goes on."""
    store = await filled()
    with pytest.raises(AccessDenied):
        await rebuilt(killed_at(store, "scan"), **BY_BOTH)
    more = [*RAWS, message("T77", 1, 1)]
    for lane in ("lane", "other"):
        with pytest.raises(FormConflict, match=f"{lane} may not begin.*categories was .*both/"):
            await lane_worker(deliveries(more), store, lane=lane).run()
    with pytest.raises(InvalidInput, match="`ledger pipeline rebuild` is under way"):
        await mended(store)
    await rebuilt(store, **BY_BOTH)
    assert shown(store.table) == right(RAWS)
    assert "required" not in (store.table.get(region_key(HOME)) or {})
    await lane_worker(deliveries(more), store).run()
    forms = [key for key in store.table.partitions[registry_partition()] if FORM_PREFIX in key]
    assert len(forms) == 2, "the former one was forgotten, and is introduced again"


async def test_a_lane_left_marked_is_opened_under_any_form() -> None:
    """What the registry says counts: the rebuild was cut off while it gave lanes free."""
    store = await filled()
    states = 0

    def decide(call: FaultCall) -> Fault | None:
        nonlocal states
        states += call.operation == "write"
        return Raises(AccessDenied("killed")) if states == 99 else None

    counting = FaultyStore(store, decide)
    await rebuilt(counting, **BY_BOTH)
    last, states, store = states, 99 - states, await filled()
    with pytest.raises(AccessDenied):
        await rebuilt(FaultyStore(store, decide), **BY_BOTH)
    assert last > 3
    assert lane_state_of(store.table.get(position_key(LANE))).required
    await lane_worker(deliveries([*RAWS, message("T77", 1, 1)]), store).run()
    assert not lane_state_of(store.table.get(position_key(LANE))).required


async def test_a_lane_that_is_open_under_another_form_is_named_first() -> None:
    """Nothing is required then: it goes on, or is mended."""
    store = MemoryStore(HOME)
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(RAWS), killed_at(store, "transact")).run()
    with pytest.raises(FormConflict, match=f"lane {LANE} has a batch under way.*mend {LANE}`"):
        await rebuilt(store, **BY_BOTH)
    assert "required" not in (store.table.get(region_key(HOME)) or {})
    await mended(store, LANE)
    assert (await rebuilt(store, **BY_BOTH)).rewritten == len(RAWS)
    assert shown(store.table) == right(RAWS)


async def test_open_transitions_stay() -> None:
    """A lane of the form may have a batch under way: it is committed as it was written."""
    store = await filled()
    await rebuilt(store, **BY_BOTH)
    more = [message("T4", 2, 5)]
    dying = killed_at(store, "transact")
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(more), dying, lane="two", **COUNTED).run()
    assert (await rebuilt(store, **COUNTED)).rewritten == len(RAWS) - 1
    assert (await audited(store)).differences == []
    await lane_worker(deliveries(more), store, lane="two", **COUNTED).run()
    assert shown(store.table) == right(with_t4(*more), counts=True)


async def test_a_rebuild_for_other_settings_takes_an_abandoned_one_over() -> None:
    """The one before, come back, notices it before it writes."""
    store = await filled()

    async def other() -> None:
        await rebuilt(store, **COUNTED)

    with pytest.raises(LedgerError, match="another run has ended this rebuild"):
        await rebuilt(Between(store, other), **BY_BOTH)
    assert shown(store.table) == right(RAWS, counts=True)
    assert (await audited(store)).differences == []
