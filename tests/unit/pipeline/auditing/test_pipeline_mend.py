"""What a mend commits of a dead lane, and what it writes of a damaged total: each once."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from unittest.mock import patch

import pytest
from support.audits import audited, mended, without_rev
from support.lanes import lane_worker
from support.ledgers import AWAY, HOME, make_services
from support.pipelines import (
    deliveries,
    map_items,
    message,
    pipeline_settings,
    position,
    shown,
    truth,
)

from ledger.core.amounts import EXACT
from ledger.core.errors import AccessDenied, InvalidInput, LaneClosed, LedgerError, Throttled
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.mend import Mend
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.core.items import position_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, lane_state_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.core.registry import lane_entry
from ledger.pipeline.sources.source import ListSource
from ledger.reads.history import HistoryRange, history
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Page, Scan
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Action, Delete, Outcome
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change, plan_entry

LANE = f"{HOME}/lane"
RAWS = [message(f"T{number}", 1, 10**number) for number in range(4)]


async def dead_lane(store: MemoryStore, raws: Sequence[bytes] = RAWS) -> None:
    """Let states take in a lane's records, and its worker die before it commits them."""
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "transact" else None
    )
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(raws), dying).run()


async def test_a_closed_lane_has_left_nothing() -> None:
    """What lay open is in the totals, the lane stays closed, and again changes nothing."""
    store = MemoryStore(HOME)
    await dead_lane(store)
    assert (await audited(store)).lanes[LANE].records == len(RAWS)
    done = await mended(store, LANE, closes=True)
    assert done.records == len(RAWS)
    assert shown(store.table) == truth(RAWS) == done.changes
    assert map_items(store.table) == []
    with pytest.raises(LaneClosed, match="a lane of another name"):
        await lane_worker(deliveries(RAWS), store).run()
    assert (await mended(store, LANE, closes=True)).records == 0
    assert (await audited(store)).differences == []
    await lane_worker(deliveries(RAWS), store, lane="another").run()
    assert shown(store.table) == truth(RAWS)


async def test_an_audit_says_for_how_long_a_lane_holds_back() -> None:
    """Since its worker last wrote its item; of an item that does not say it, nothing."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    await dead_lane(store)
    clock.wall += timedelta(hours=5)
    assert (await audited(store, clock=clock)).lanes[LANE].held_seconds == 5 * 3600
    lane = lane_state_of(store.table.get(position_key(LANE)))
    store.table.set(position_key(LANE), lane_item(LANE, replace(lane, at=0)))
    assert (await audited(store)).lanes[LANE].held_seconds is None


async def test_an_audit_is_exact_to_the_last_digit() -> None:
    """Values of 30 digits differ from nothing, before their lane has committed them and after."""
    store = MemoryStore(HOME)
    raws = [message(f"T{n}", 1, f"-12345678901234{n}.000000000000009") for n in range(4)]
    await dead_lane(store, raws)
    assert (await audited(store)).differences == []
    await lane_worker(deliveries(raws), store).run()
    assert set(shown(store.table).values()) == {Decimal("-493827156049366.000000000000036")}
    assert (await audited(store)).differences == []


async def test_a_lane_that_is_not_closed_goes_on_under_any_form() -> None:
    """What lay open under other settings is committed, and the lane begins where it was."""
    store = MemoryStore(HOME)
    await dead_lane(store)
    await mended(store, LANE)
    more = [*RAWS, message("T9", 1, 7)]
    await lane_worker(deliveries(more), store, record_bytes_max=1000).run()
    assert shown(store.table) == truth(more)


async def test_a_mend_may_be_cut_off_anywhere() -> None:
    """Killed before or after any of its requests, and run again: each transition counts once."""
    for is_applied in (False, True):
        for number in range(1, 60):
            store = MemoryStore(HOME)
            await dead_lane(store)
            kill = Raises(AccessDenied("killed"), applied=is_applied)

            def decide(call: FaultCall, number: int = number, kill: Fault = kill) -> Fault | None:
                return kill if call.number == number else None

            faulty = FaultyStore(store, decide)
            with suppress(AccessDenied):
                await mended(faulty, LANE, closes=True)
            await mended(store, LANE, closes=True)
            assert shown(store.table) == truth(RAWS), number
            if faulty.calls < number:
                break
        else:
            raise AssertionError("the mend never ends")


class MendedBetween(ListSource):
    """Records of a lane, between whose batches another lane is mended."""

    def __init__(self, raws: Sequence[bytes], store: MemoryStore) -> None:
        super().__init__(deliveries(raws))
        self.store = store

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield a record at a time."""
        async for batch in super().batches(after, most=most):
            yield batch
            await mended(self.store, LANE, closes=True)


async def beside_a_mend() -> MemoryStore:
    """Let a lane write what it remembers from before a mend, and mend again."""
    store = MemoryStore(HOME)
    await dead_lane(store)
    more = [RAWS[0], message("T0", 2, 5)]
    await lane_worker(MendedBetween(more, store), store, lane="other", batch_max=1).run()
    await mended(store, LANE, closes=True)
    return store


async def test_what_is_remembered_of_a_state_does_not_undo_a_mend() -> None:
    """A state rewritten under the same version is another one."""
    right = truth([*RAWS, message("T0", 2, 5)])
    assert shown((await beside_a_mend()).table) == right
    with without_rev():
        assert shown((await beside_a_mend()).table) != right


async def test_a_damaged_total_is_mended_once_by_an_entry_that_says_so() -> None:
    """The audit names the category and by how much; the mend writes that, and no more."""
    store, settings = MemoryStore(HOME), pipeline_settings()
    await lane_worker(deliveries(RAWS), store).run()
    stray = plan_entry(
        Change("risk/Delta", Decimal("-0.5")), region=HOME, settings=settings, now=START, suffix=1
    )
    await store.write(stray.put)
    said: list[str] = []
    (found,) = (await audited(store, on_progress=said.append)).differences
    assert (found.category, found.change) == ("risk/Delta", Decimal("0.5"))
    assert said[:2] == [
        f"{HOME}: its table read, {sum(map(len, store.table.partitions.values())) - 1} items",
        "1 categories differ: the next look is in 2 s, since entries may still be on their way",
    ]
    for written in ({"risk/Delta": Decimal("0.5")}, {}):
        assert await mended(store) == written
    assert shown(store.table) == truth(RAWS)
    assert (await audited(store)).differences == []
    reading = history(store, HistoryRange("risk/Delta"), consistent=True)
    notes = [entry.note async for entry in reading if entry.note]
    assert notes == ["pipeline: mended after audit 1"]


async def test_a_total_that_has_come_right_since_is_not_mended() -> None:
    """What the audit before found does not outlive the one after it."""
    store, settings = MemoryStore(HOME), pipeline_settings()
    await lane_worker(deliveries(RAWS), store).run()
    for suffix, change in ((1, "-0.5"), (2, "0.5")):
        stray = Change("risk/Delta", Decimal(change))
        planned = plan_entry(stray, region=HOME, settings=settings, now=START, suffix=suffix)
        await store.write(planned.put)
        assert len((await audited(store)).differences) == (suffix == 1)
    assert await mended(store) == {}
    assert shown(store.table) == truth(RAWS)


async def test_a_lane_begins_under_the_audit_that_runs_and_leaves_one_that_has_ended() -> None:
    """A new lane carries the number of the audit; one left with another takes the one of now."""
    store = MemoryStore(HOME)
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "scan" else None
    )
    await lane_worker(deliveries(RAWS[:1]), store).run()
    with pytest.raises(AccessDenied):
        await audited(dying)

    def state(lane: str) -> LaneState:
        return lane_state_of(store.table.get(position_key(f"{HOME}/{lane}")))

    await lane_worker(deliveries(RAWS), store, lane="new").run()
    assert (state("lane").audit, state("lane").retain) == (1, position(1))
    assert (state("new").audit, state("new").retain) == (1, "")
    assert (await audited(store)).differences == []
    assert (state("lane").audit, state("new").audit) == (0, 0)
    left = replace(state("lane"), audit=1, retain=position(1))
    store.table.set(position_key(LANE), lane_item(LANE, left))
    await lane_worker(deliveries(RAWS), store).run()
    assert (state("lane").audit, state("lane").retain) == (0, "")
    assert shown(store.table) == truth(RAWS)


class Meanwhile(ForwardingStore):
    """A store that does something else first, once: at its first commit, or its first scan."""

    def __init__(
        self,
        inner: Store,
        *,
        at: str,
        does: Callable[[], Awaitable[object]],
        error: Exception | None,
    ) -> None:
        super().__init__(inner)
        self._at = at
        self._does: Callable[[], Awaitable[object]] | None = does
        self._error = error

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        await self._first("transact")
        return await super().transact(actions, token=token)

    async def scan(self, scan: Scan) -> Page:
        """Read a page."""
        await self._first("scan")
        return await super().scan(scan)

    async def _first(self, operation: str) -> None:
        if operation == self._at and (does := self._does) is not None:
            self._does = None
            await does()
            if self._error is not None:
                raise self._error


@pytest.mark.parametrize("closes", [False, True])
async def test_a_worker_forgets_what_it_knew_of_states_before_a_mend(*, closes: bool) -> None:
    """What it wrote itself, and a mend has committed, it would commit again."""
    store = MemoryStore(HOME)

    async def mend() -> None:
        await mended(store, LANE, closes=closes)

    late = Meanwhile(store, at="transact", does=mend, error=Throttled("later"))
    working = lane_worker(deliveries(RAWS), late).run()
    if closes:
        with pytest.raises(LaneClosed):
            await working
    else:
        await working
    assert shown(store.table) == truth(RAWS)


async def test_of_two_runs_of_an_audit_the_later_says_that_the_other_ended_it() -> None:
    """What it read after that need not be at the cut."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    both = Meanwhile(store, at="scan", does=lambda: audited(store), error=None)
    with pytest.raises(LedgerError, match="audit 1 was ended by another run of it"):
        await audited(both)


async def test_an_audit_leaves_nothing_in_the_sums() -> None:
    """What was added since its cut is told apart for as long as it runs."""
    store = MemoryStore(HOME)
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "scan" else None
    )
    with pytest.raises(AccessDenied):
        await audited(dying)
    await lane_worker(deliveries(RAWS), store).run()

    def marks() -> set[str]:
        items = store.table.partitions["risk/Delta"].values()
        return {name for item in items for name in item if name.startswith("since")}

    assert marks() == {"since.1"}
    assert (await audited(store)).differences == []
    assert marks() == set()


async def test_one_task_at_a_time() -> None:
    """A mend is refused while an audit is under way, and says what to do."""
    store = MemoryStore(HOME)
    await dead_lane(store)
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "scan" else None
    )
    with pytest.raises(AccessDenied):
        await audited(dying)
    with pytest.raises(InvalidInput, match=f"`ledger pipeline audit` is under way in {HOME}"):
        await mended(store, LANE)
    assert (await audited(store)).number == 1
    assert (await audited(store)).number == 2
    with pytest.raises(InvalidInput, match="was never opened"):
        await mended(store, "nowhere/x")


@pytest.mark.parametrize("dies_in", [HOME, AWAY])
async def test_a_task_cut_off_in_its_end_and_another_do_not_refuse_each_other(dies_in: str) -> None:
    """The region that is claimed first is given free last."""
    stores: dict[str, Store] = {region: MemoryStore(region) for region in (HOME, AWAY)}
    writes = 0

    def decide(call: FaultCall) -> Fault | None:
        nonlocal writes
        writes += call.operation == "write"
        return Raises(AccessDenied("killed")) if writes == 2 else None

    settings, dying = pipeline_settings(), {**stores, dies_in: FaultyStore(stores[dies_in], decide)}
    services = make_services()
    with pytest.raises(AccessDenied):
        await Mend(dying, settings, services=services).run_totals()
    with pytest.raises(InvalidInput, match="`ledger pipeline mend` is under way"):
        await Audit(stores, settings, services=services).run()
    await Mend(stores, settings, services=services).run_totals()
    assert (await Audit(stores, settings, services=services).run()).number == 1


async def test_a_mend_that_does_not_close_the_lane_counts_twice() -> None:
    """The mutant: a commit that was in flight lands beside the mend's."""
    store = MemoryStore(HOME)
    await dead_lane(store)
    closed: list[str] = []

    async def none_closed(self: Mend) -> str:
        position = (await self.lane(LANE)).position
        await lane_worker(deliveries(RAWS), store).run()
        closed.append(position)
        return position

    with patch.object(Mend, "_close", none_closed):
        await mended(store, LANE, closes=True)
    assert closed == [""]
    assert shown(store.table) == {
        name: EXACT.multiply(2, total) for name, total in truth(RAWS).items()
    }


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_closed_lane_is_reset_by_its_position(*, is_listed: bool) -> None:
    """Whether the list of lanes names it, or only what lies in its partition does."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries([RAWS[0]]), store).run()
    await mended(store, LANE, closes=True)
    if not is_listed:
        entry = lane_entry(LANE)
        await store.write(Delete((entry["pk"]["S"], entry["sk"]["S"])))
    searches = list[str]()
    settings = pipeline_settings()
    await Reset(
        {HOME: store},
        settings.replace(home=HOME, regions={HOME: settings.regions[HOME]}),
        services=make_services(),
        on_progress=searches.append,
    ).run()
    assert shown(store.table) == {}
    assert ("searching again" in "".join(searches)) is not is_listed
