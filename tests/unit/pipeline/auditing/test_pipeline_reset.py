"""A reset takes what records added out of the totals, once, and leaves the rest as it is."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from proof.simulator.supervisor import REGISTRY
from support.audits import audited, mended
from support.lanes import lane_worker
from support.ledgers import HOME, make_services, seeded
from support.pipelines import (
    deliveries,
    map_items,
    message,
    pipeline_settings,
    shown,
    truth,
)

from compactor.job import Compactor
from ledger.core.entry import Item
from ledger.core.errors import AccessDenied, InvalidInput, LaneClosed, LedgerError
from ledger.pipeline.auditing import reset as resetting
from ledger.pipeline.auditing.reset import QUIET_SECONDS, Reset, ResetResult
from ledger.pipeline.core import category_sums
from ledger.pipeline.core.category_sums import Changes
from ledger.pipeline.core.items import PIPELINE_PREFIX, STATE_PREFIX, position_key
from ledger.pipeline.core.lane_state import LaneState, lane_item, lane_state_of
from ledger.pipeline.core.registry import region_key
from ledger.pipeline.stages.lanes import Lanes
from ledger.reads.history import HistoryRange, history
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.conditions import Has
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.reads import Get, Page, Scan
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Check
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change, plan_entry

LANE = f"{HOME}/lane"
RAWS = [message(f"T{number}", 1, 10**number) for number in range(4)]
MORE = [message("T0", 2, 5, "Vega"), message("T9", 1, "2.5")]


def settings_of(**pipeline: Any) -> Settings:
    """Return settings of one region."""
    settings = pipeline_settings(**pipeline)
    return settings.replace(home=HOME, regions={HOME: settings.regions[HOME]})


async def reset(
    store: Store, *, is_forced: bool = False, clock: ManualClock | None = None, **pipeline: Any
) -> ResetResult:
    """Reset a pipeline of one region's table."""
    return await Reset(
        {store.region: store},
        settings_of(**pipeline),
        services=make_services(clock or ManualClock(instant=True)),
        is_forced=is_forced,
    ).run()


def killed_at(number: int) -> Callable[[FaultCall], Fault | None]:
    """Return the fault of a process that ends behind a request."""
    return lambda call: (
        Raises(AccessDenied("killed"), applied=True) if call.number == number else None
    )


def kept(store: MemoryStore, prefix: str) -> list[str]:
    """Return the partitions that begin so."""
    return sorted(name for name in store.table.partitions if name.startswith(prefix))


def lane_state(store: MemoryStore, lane: str = LANE) -> LaneState:
    """Return a lane's item."""
    return lane_state_of(store.table.get(position_key(lane)))


async def dead_lane(store: Store, raws: Sequence[bytes], lane: str = "lane") -> None:
    """Let a worker die before it commits records."""
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "transact" else None
    )
    with pytest.raises(AccessDenied):
        await lane_worker(deliveries(raws), dying, lane=lane).run()


def later(seconds: float = 1000) -> ManualClock:
    """Return a clock of a later time: reduces of the same map items have tokens by the time."""
    clock = ManualClock(instant=True)
    clock.pass_by(seconds)
    return clock


def empty(key: tuple[str, str]) -> dict[str, dict[str, str]]:
    """Return an item that has nothing but its key."""
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


async def test_a_pipeline_begins_again() -> None:
    """Totals are 0 and no state is left; the same records are brought in again, and audited."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries([*RAWS, *MORE]), store).run()
    await lane_worker(deliveries(RAWS), store, lane="other").run()
    done = await reset(store)
    assert (done.records, done.lanes) == (5, 2)
    assert done.categories == {"risk/Delta", "risk/Vega", "desk/EMEA/A"}
    assert shown(store.table) == {}
    assert kept(store, STATE_PREFIX) == map_items(store.table) == []
    assert (await audited(store)).differences == []
    assert (lane_state(store).position, lane_state(store).is_closed) == ("", False)
    await lane_worker(deliveries([*RAWS, *MORE]), store, clock=later()).run()
    assert shown(store.table) == truth([*RAWS, *MORE])
    assert (await audited(store)).differences == []


async def test_states_that_are_too_much_together_are_taken_out_one_by_one() -> None:
    """Of more categories than the map items of one batch hold, none is left out."""
    store = MemoryStore(HOME)

    def divided(changes: Changes) -> Sequence[Changes] | None:
        return category_sums.divided(changes) if len(changes) <= 3 else None

    raws = [message("T0", 1, 5), message("T1", 1, 7, "Vega", "B")]
    await lane_worker(deliveries(raws), store).run()
    with patch.object(resetting, "divided", divided):
        assert (await reset(store)).records == len(raws)
    assert (shown(store.table), kept(store, STATE_PREFIX)) == ({}, [])


@pytest.mark.parametrize("totals", ["sums", "entries"])
async def test_what_others_added_stays(totals: str) -> None:
    """Another pipeline on the same categories, an entry in one of them, and other counters."""
    store = MemoryStore(HOME)
    settings = settings_of(name="b", totals=totals)
    others = [message("T1", 7, 1000), message("T7", 1, 3)]
    await lane_worker(deliveries(others), store, settings=settings).run()
    for number, counter in enumerate(("risk/Delta", "stock")):
        change = Change(counter, Decimal("0.25"))
        planned = plan_entry(change, region=HOME, settings=settings, now=START, suffix=number + 1)
        await store.write(planned.put)
    before = {name: dict(items) for name, items in store.table.partitions.items()}
    shown_before = shown(store.table)
    await lane_worker(deliveries([*RAWS, *MORE]), store, totals=totals).run()
    assert shown(store.table) != shown_before
    await reset(store, totals=totals)
    assert shown(store.table) == shown_before
    own = {f"{PIPELINE_PREFIX}.b", f"{PIPELINE_PREFIX}.b~{LANE}", "stock", *kept(store, "~state.b")}
    assert len(own) == 5
    assert {name: store.table.partitions[name] for name in own} == {
        name: before[name] for name in own
    }


async def test_entries_and_what_was_merged_of_them_are_taken_out_by_entries_that_say_so() -> None:
    """A net has counted the pipeline's entries with those of others: it stays."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    await lane_worker(deliveries(RAWS), store, totals="entries", clock=clock).run()
    settings = settings_of(totals="entries").replace(
        compactor={"fold_min": 1, "prune_min": 1, "hint_every": 0, "scan_every": 0}
    )
    clock.pass_by(1000)
    compactor = Compactor(
        settings,
        registry=REGISTRY,
        stores={HOME: store},
        services=Services.of(clock=clock, randomness=seeded(), registry=REGISTRY),
    )
    assert (await compactor.run_once()).folds
    assert shown(store.table) == truth(RAWS)
    await reset(store, totals="entries", clock=clock)
    assert shown(store.table) == {}
    reading = history(store, HistoryRange("risk/Delta"), consistent=True)
    assert [entry.note async for entry in reading if entry.note] == ["pipeline: reset"]


@pytest.mark.slow
@pytest.mark.parametrize("totals", ["sums", "entries"])
async def test_a_reset_may_be_cut_off_anywhere(totals: str) -> None:
    """Killed before or after any of its requests, and run again: each state is taken out once."""
    more = [message(f"M{number}", 1, number + 1) for number in range(30)]
    for is_applied in (False, True):
        for number in range(1, 200):
            store = MemoryStore(HOME)
            await lane_worker(deliveries([*RAWS, *more]), store, totals=totals).run()
            kill = Raises(AccessDenied("killed"), applied=is_applied)

            def decide(call: FaultCall, number: int = number, kill: Fault = kill) -> Fault | None:
                return kill if call.number == number else None

            faulty = FaultyStore(store, decide)
            with suppress(AccessDenied):
                await reset(faulty, totals=totals)
            await reset(store, totals=totals)
            assert shown(store.table) == {}, number
            assert kept(store, STATE_PREFIX) == map_items(store.table) == []
            assert not lane_state(store).is_closed
            if faulty.calls < number:
                break
        else:
            raise AssertionError("the reset never ends")


async def test_an_open_lane_is_not_reset_unless_forced() -> None:
    """What its worker left open was in no total, and is taken out of none."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store, lane="quiet").run()
    await dead_lane(store, [*RAWS, *MORE])
    before = shown(store.table)
    with pytest.raises(InvalidInput, match=f"nothing was reset: lane {LANE} is open"):
        await reset(store)
    assert shown(store.table) == before == truth(RAWS)
    assert (await audited(store)).differences == []  # it is not under way any more
    assert not lane_state(store, f"{HOME}/quiet").is_closed
    await reset(store, is_forced=True)
    assert shown(store.table) == {}
    await lane_worker(deliveries([*RAWS, *MORE]), store).run()
    assert shown(store.table) == truth([*RAWS, *MORE])


@pytest.mark.slow
async def test_lanes_that_a_reset_has_closed_go_on_if_it_is_refused_when_run_again() -> None:
    """Killed anywhere: lanes go on, or it has begun, then it says so and is brought to its end."""
    quiet, raws = f"{HOME}/quiet", [*RAWS, *MORE]
    refusals = set[str]()
    for number in range(1, 100):
        store = MemoryStore(HOME)
        for lane in ("lane", "quiet"):
            await lane_worker(deliveries(RAWS), store, lane=lane).run()
        faulty = FaultyStore(store, killed_at(number))
        with suppress(AccessDenied):
            await reset(faulty)
        if faulty.calls < number:
            break
        if lane_state(store).is_resetting:
            with pytest.raises(LaneClosed, match="until `ledger pipeline reset` has come to its"):
                await lane_worker(deliveries(raws), store).run()
        await dead_lane(store, raws, lane="new")
        try:
            await reset(store)
        except InvalidInput as error:
            refusals.add(str(error).partition(":")[0])
            if str(error).startswith("the reset"):
                await reset(store, is_forced=True)
                assert shown(store.table) == {}, number
        assert not lane_state(store).is_closed
        assert not lane_state(store, quiet).is_closed
        for lane in ("new", "lane", "quiet"):
            await lane_worker(deliveries(raws), store, lane=lane, clock=later()).run()
        assert shown(store.table) == truth(raws), number
        assert (await audited(store)).differences == []
    assert refusals == {"nothing was reset", "the reset was interrupted, and is not complete"}


async def test_a_lane_that_moves_is_not_reset() -> None:
    """It is looked at twice; those that were closed meanwhile go on."""
    store = MemoryStore(HOME)
    for lane in ("lane", "quiet"):
        await lane_worker(deliveries(RAWS), store, lane=lane).run()

    class Moving(ManualClock):
        async def sleep(self, seconds: float) -> None:
            if seconds == QUIET_SECONDS:
                await lane_worker(deliveries([*RAWS, *MORE]), store).run()
            await super().sleep(seconds)

    with pytest.raises(InvalidInput, match=f"lane {LANE} was written meanwhile"):
        await reset(store, clock=Moving(instant=True))
    assert shown(store.table) == truth([*RAWS, *MORE])
    await lane_worker(deliveries([*RAWS, *MORE]), store, lane="quiet").run()
    assert (await audited(store)).differences == []


async def test_a_worker_that_lives_on_forgets_what_it_knew_of_states() -> None:
    """As a function does that was warm: what comes again is new; the mutant has no fence."""
    for is_broken in (False, True):
        store, clock = MemoryStore(HOME), later()
        worker = lane_worker(deliveries(RAWS), store, clock=clock)
        await worker.run()
        fence = lane_state(store).fence
        await reset(store)
        if is_broken:
            left = replace(lane_state(store), fence=fence)
            store.table.set(position_key(LANE), lane_item(LANE, left))
        clock.pass_by(1000)
        await worker.run()
        assert (len(kept(store, STATE_PREFIX)) == len(RAWS)) is not is_broken
        assert (shown(store.table) == truth(RAWS)) or is_broken


async def test_a_lane_that_was_fenced_reads_of_others_what_is_there_now() -> None:
    """Their positions may have gone back: none is remembered, nor read as a replica had it."""
    store, gets = MemoryStore(HOME), list[bool]()

    class Noting(ForwardingStore):
        async def get(self, get: Get) -> Item | None:
            gets.append(get.consistent)
            return await super().get(get)

    store.table.set(position_key("other"), lane_item("other", LaneState(rev=1, position="07")))
    lanes = Lanes(LANE, Noting(store), ManualClock())
    await lanes.load()
    assert (await lanes.committed(["other"]))["other"] == "07"
    store.table.set(position_key("other"), lane_item("other", LaneState(rev=2, fence=2)))
    assert (await lanes.committed(["other"]))["other"] == "07"
    lanes.forget()
    assert (await lanes.committed(["other"]))["other"] == ""
    store.table.set(position_key(LANE), lane_item(LANE, LaneState(rev=2, fence=2)))
    await lanes.load()
    lanes.forget()
    await lanes.committed(["other"])
    assert gets == [True, False, False, True, True]


async def test_a_claim_of_a_file_and_notes_of_a_stream_are_forgotten() -> None:
    """All that lies beside a lane's position goes, the position itself begins again."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    partition = position_key(LANE)[0]
    for key in ((partition, "finished"), (f"{PIPELINE_PREFIX}~{HOME}/@abc", "file#00001")):
        store.table.set(key, empty(key))
    await reset(store)
    assert list(store.table.partitions[partition]) == ["position"]
    assert not store.table.partitions.get(f"{PIPELINE_PREFIX}~{HOME}/@abc")
    registry = store.table.partitions[PIPELINE_PREFIX]
    assert {key.partition("#")[0] for key in registry} == {"lane", "region", "home"}


class WrittenBeside(ForwardingStore):
    """A store beside whose first scan a worker of a lane that is not known writes states."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self._memory = inner
        self.scans = 0

    async def scan(self, scan: Scan) -> Page:
        """Read a page; what comes after it is not on it."""
        page = await super().scan(scan)
        self.scans += 1
        if self.scans == 1:
            await dead_lane(self._memory, [message("T0", 3, 7), message("L1", 1, 9)], lane="late")
        return page


@pytest.mark.parametrize("is_forced", [True, False])
async def test_states_written_meanwhile_are_searched_for_again(*, is_forced: bool) -> None:
    """A lane that is found by what it wrote is closed before that is judged."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    beside = WrittenBeside(store)
    await reset(beside, is_forced=is_forced)
    assert beside.scans >= 2
    assert shown(store.table) == {}
    assert kept(store, STATE_PREFIX) == []
    late = [message("T0", 3, 7), message("L1", 1, 9)]
    await lane_worker(deliveries(late), store, lane="late").run()
    assert shown(store.table) == truth(late)


async def test_no_lane_goes_on_while_a_reset_is_under_way() -> None:
    """One that was cut off is continued, and only then do workers begin; nor does an audit."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    dying = FaultyStore(
        store, lambda call: Raises(AccessDenied("killed")) if call.operation == "scan" else None
    )
    with pytest.raises(AccessDenied):
        await reset(dying)
    with pytest.raises(LaneClosed):
        await lane_worker(deliveries([*RAWS, *MORE]), store).run()
    with pytest.raises(InvalidInput, match="`ledger pipeline reset` is under way"):
        await audited(store)
    with pytest.raises(InvalidInput, match="`ledger pipeline reset` is under way"):
        await mended(store, LANE)
    await reset(store)
    assert shown(store.table) == {}


async def test_workers_that_never_stop_are_an_error() -> None:
    """Each search finds states that were written during the one before."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()

    class Endless(ForwardingStore):
        scans = 0

        async def scan(self, scan: Scan) -> Page:
            self.scans += 1
            await dead_lane(store, [message(f"N{self.scans}", 1, 1)], lane=f"new-{self.scans}")
            return await super().scan(scan)

    with pytest.raises(LedgerError, match="workers still write states"):
        await reset(Endless(store), is_forced=True)


class ResetBeside(ForwardingStore):
    """A store beside whose first scan another run of the reset comes to its end."""

    def __init__(self, inner: MemoryStore, *, then: Sequence[bytes] = ()) -> None:
        super().__init__(inner)
        self._memory = inner
        self._then = then
        self._is_done = False

    async def scan(self, scan: Scan) -> Page:
        """Read a page; what comes after it is not on it."""
        if not self._is_done:
            page = await super().scan(scan)
            self._is_done = True
            await reset(self._memory)
            if self._then:
                await lane_worker(deliveries(self._then), self._memory, clock=later()).run()
            return page
        return await super().scan(scan)


@pytest.mark.parametrize("rule", ["still_there", "none"])
async def test_of_two_runs_each_state_is_taken_out_by_one(rule: str) -> None:
    """The one that comes later finds nothing; the mutant takes states out that are gone."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    is_broken = rule == "still_there"
    with patch.object(resetting, rule, lambda _state: None, create=not is_broken):
        if is_broken:
            with patch.object(resetting, "Check", lambda key, _: Check(key, Has("last"))):
                store.table.set(region_key(HOME), {"last": {"N": "1"}, **empty(region_key(HOME))})
                await reset(ResetBeside(store), clock=later())
        else:
            await reset(ResetBeside(store), clock=later())
    assert (shown(store.table) == {}) is not is_broken


async def test_a_run_that_another_one_has_ended_takes_nothing_more_out() -> None:
    """Lanes may have begun again by then, at positions that it takes for committed."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store).run()
    again = [message(f"T{number}", 2, 7) for number in range(4)]
    with pytest.raises(LedgerError, match="this reset was finished by another run of it"):
        await reset(ResetBeside(store, then=again), clock=later(2000))
    assert shown(store.table) == truth(again)
