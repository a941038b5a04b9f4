"""What is forgotten of a pipeline's states, what stays exact, and what is refused from then on."""

import json
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.forgets import EACH, KEEP, MARGIN, audit_of, dated, forgotten, keeping, one_region
from support.lanes import lane_worker
from support.ledgers import HOME, make_services
from support.pipelines import deliveries, pipeline_settings, shown, truth
from support.tiers import few_fast

from ledger.core.clock_offset import ClockOffset
from ledger.core.errors import (
    AccessDenied,
    AmountOverflow,
    ClockOff,
    FormConflict,
    InvalidInput,
    LedgerError,
    SettingsError,
)
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.core.items import STATE_PREFIX, state_item, state_key, state_of
from ledger.pipeline.core.registry import (
    forgotten_key,
    forgotten_of,
    region_key,
    registry_partition,
)
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Scan
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Raises
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Unknown, Update, Write
from ledger.testing.clock import START, ManualClock

OLD, YOUNG = KEEP - 10, 5.0
"""Ages of records in seconds: within the time they are kept, and not long after it."""
RAWS = [dated(f"T{number}", 1, 10**number, OLD) for number in range(4)]
NEW = [dated(f"N{number}", 1, 5, YOUNG) for number in range(2)]
LATER = START + timedelta(seconds=2 * MARGIN)


def at(moment: Any = LATER) -> ManualClock:
    """Return a clock at a moment, whose sleeps are over at once."""
    clock = ManualClock(instant=True)
    clock.wall = moment
    return clock


async def run(store: Any, raws: list[bytes], keep: float | None = KEEP, **given: Any) -> list[str]:
    """Bring records in through a lane; returns why some were refused."""
    letters = DeadLetterList()
    settings = one_region(keeping(keep, **given.pop("group", {})))
    worker = lane_worker(deliveries(raws), store, letters=letters, settings=settings, **given)
    await worker.run()
    return [letter.reason for letter in letters.letters]


def states_in(store: MemoryStore) -> set[str]:
    """Return the ids of the records that have a state."""
    begins = state_key("")[0]
    names = store.table.partitions
    return {name.removeprefix(begins) for name in names if name.startswith(STATE_PREFIX)}


async def test_old_states_go_and_totals_stay() -> None:
    """An audit finds all exact; a late correction is a dead letter that says why."""
    store = MemoryStore(HOME)
    assert await run(store, [*RAWS, *NEW]) == []
    assert (await forgotten(store)).records == 0  # nothing is older than that, and the margin
    done = await forgotten(store, clock=at())
    assert (done.records, done.left) == (len(RAWS), 0)
    assert states_in(store) == {"N0", "N1"}
    report = await audit_of(store)
    assert (report.records, report.forgotten, report.differences) == (2, len(RAWS), [])
    late = [dated("T1", 2, 77, OLD), dated("T0", 1, 1, OLD)]
    reasons = await run(store, [*late, dated("N1", 2, 6, YOUNG)], lane="late", clock=at(START))
    assert len(reasons) == len(late)
    assert "At is 2" in reasons[0]
    assert "pipeline.keep_states" in reasons[0]
    right = truth_of([*RAWS, NEW[0], dated("N1", 2, 6, YOUNG)])
    assert shown(store.table) == right
    assert (await audit_of(store)).differences == []
    assert (await forgotten(store, clock=at())).records == 0


def truth_of(raws: list[bytes]) -> dict[str, Decimal]:
    """Return the totals that the newest versions make."""
    risks = {name: sum_ for name, sum_ in truth(raws).items() if name.startswith("risk/")}
    newest: dict[str, Decimal] = {}
    for raw in raws:
        told = json.loads(raw)
        newest[EACH.format(TradeID=told["TradeID"])] = Decimal(told["Value"])
    return {**risks, **newest}


async def test_states_keep_the_time_of_their_records_while_there_is_a_setting() -> None:
    """Until something is forgotten, records of any age are taken."""
    store = MemoryStore(HOME)
    assert await run(store, [dated("T0", 1, 5, KEEP + 1), NEW[0]]) == []
    assert await run(store, [dated("T1", 1, 5, KEEP + 1)], None, lane="other") == []
    assert states_in(store) == {"N0", "T0", "T1"}
    state = state_of(store.table.get(state_key("N0")) or {})
    assert state.at == START - timedelta(seconds=YOUNG)
    assert state_of(state_item("N0", state)) == state
    assert state_of(store.table.get(state_key("T1")) or {}).at is None


async def test_the_time_of_a_record_never_changes() -> None:
    """A newer version with another time is a dead letter, an older one is stale as ever."""
    store = MemoryStore(HOME)
    moved = dated("N0", 3, 9, YOUNG + 1)
    reasons = await run(store, [dated("N0", 2, 5, YOUNG), dated("N0", 1, 4, YOUNG + 2)])
    assert reasons == []
    (reason,) = await run(store, [moved], lane="other")
    assert "with pipeline.keep_states it never changes" in reason
    assert shown(store.table) == truth_of([dated("N0", 2, 5, YOUNG)])
    assert await run(store, [moved], None, lane="third") == [reason]


@pytest.mark.parametrize("keep", [None, 10 * KEEP])
async def test_what_was_forgotten_stays_refused_whatever_the_settings_say(
    keep: float | None,
) -> None:
    """The moment is in the registry and in every lane, of before and new."""
    store = MemoryStore(HOME)
    await run(store, RAWS)
    await forgotten(store, clock=at())
    for lane in ("lane", "new"):
        reasons = await run(store, [*NEW, *RAWS, *RAWS], keep, lane=lane)
        assert len(reasons) == 2 * len(RAWS) - (2 if lane == "lane" else 0), lane
    assert shown(store.table) == truth_of([*RAWS, *NEW])
    moment = forgotten_of(store.table.get(region_key(HOME)))
    assert await forgotten(store, 10 * KEEP, clock=at())  # less would be kept: nothing is done
    assert forgotten_of(store.table.get(region_key(HOME))) == moment
    plain = one_region(pipeline_settings())
    with pytest.raises(FormConflict, match=r"fields\.time is needed"):
        await lane_worker(deliveries(NEW), store, lane="plain", settings=plain).run()
    with pytest.raises(InvalidInput, match="keep_states is not set"):
        await forgotten(store, None)


async def test_what_is_not_settled_is_committed_first() -> None:
    """A state whose lane died before it committed stays, though its record is refused again."""
    store = MemoryStore(HOME)
    dying = FaultyStore(store, killed_in_a_commit)
    with pytest.raises(AccessDenied):
        await run(dying, RAWS)
    done = await forgotten(store, clock=at())
    assert (done.records, done.left, done.lanes) == (0, len(RAWS), {f"{HOME}/lane"})
    assert (await audit_of(store)).differences == []
    assert len(await run(store, RAWS)) == len(RAWS)
    assert shown(store.table) == truth_of(RAWS)
    again = await forgotten(store, clock=at(LATER + timedelta(seconds=5)))
    assert (again.records, again.left) == (len(RAWS), 0)
    assert (await audit_of(store)).differences == []


def killed_in_a_commit(call: FaultCall) -> Fault | None:
    """Let a worker die in its first transaction."""
    return Raises(AccessDenied("killed")) if call.operation == "transact" else None


@pytest.mark.parametrize("table", few_fast(["ledger-states", None], fast=1))
async def test_it_may_be_cut_off_anywhere(table: str | None) -> None:
    """Killed before or after any request, and run again: each image is in one sum, once."""
    group: dict[str, Any] = {"state_table": table}
    for is_applied in (False, True):
        for number in range(1, 200):
            store = MemoryStore(HOME, page_items_max=3)
            if table:
                store.table.set(region_key(HOME), in_table(table))
            await run(store, [*RAWS, *NEW], group=group)
            kill = Raises(AccessDenied("killed"), applied=is_applied)

            def decide(call: FaultCall, number: int = number, kill: Fault = kill) -> Fault | None:
                return kill if call.number == number else None

            faulty = FaultyStore(store, decide)
            with suppress(AccessDenied):
                await forgotten(faulty, clock=at(), **group)
            await run(store, [*RAWS, *NEW], lane="again", group=group)
            await forgotten(store, clock=at(LATER + timedelta(seconds=1)), **group)
            report = await audit_of(store, **group)
            found = report.records, report.forgotten, report.differences
            assert found == (len(NEW), len(RAWS), []), number
            assert shown(store.table) == truth_of([*RAWS, *NEW])
            if faulty.calls < number:
                break
        else:
            raise AssertionError("it never ends")


def in_table(table: str) -> dict[str, Any]:
    """Return the registry's item of a region whose states lie in a table of their own."""
    partition, sort_key = region_key(HOME)
    return {"pk": {"S": partition}, "sk": {"S": sort_key}, "states": {"S": table}}


async def test_states_of_many_categories_are_forgotten_in_parts() -> None:
    """However many there are, each transaction stays within what DynamoDB takes."""
    store = MemoryStore(HOME)
    many = [dated(f"T{number}", 1, number + 1, OLD) for number in range(150)]
    await run(store, many)
    assert (await forgotten(store, clock=at())).records == len(many)
    report = await audit_of(store)
    assert (report.forgotten, report.differences) == (len(many), [])


async def test_an_idle_worker_looks_at_its_lane_before_it_goes_on() -> None:
    """A batch that comes long after the last is judged by what was forgotten meanwhile."""
    store, clock = MemoryStore(HOME), ManualClock(instant=True)
    await run(store, RAWS, lane="first")
    letters = DeadLetterList()

    class Pausing(type(lane_worker([], store)._source)):  # type: ignore[misc]
        async def batches(self, after: str, *, most: int) -> Any:
            del most
            one, two = deliveries([NEW[0], dated("T1", 2, 9, OLD)])
            if after < one.position:
                yield [one]
            clock.wall += timedelta(seconds=2 * MARGIN)
            await forgotten(store, clock=at(clock.wall))
            clock.wall -= timedelta(seconds=MARGIN)  # set back: too far for what was seen
            if after < two.position:
                yield [two]

    worker = lane_worker(
        Pausing([]), store, letters=letters, clock=clock, settings=one_region(keeping(None))
    )
    await worker.run()
    assert [letter.position for letter in letters.letters] == ["000002"]
    assert shown(store.table) == truth_of([*RAWS, NEW[0]])


async def test_a_sum_without_room_forgets_nothing() -> None:
    """What would not fit in 38 digits is refused, and the states stay."""
    store = MemoryStore(HOME)
    await run(store, RAWS)
    partition, sort_key = forgotten_key(HOME, "risk/Delta")
    full = {"pk": {"S": partition}, "sk": {"S": sort_key}, "value": {"N": "9" * 23}}
    store.table.set((partition, sort_key), full)
    with pytest.raises(AmountOverflow, match="has no room left"):
        await forgotten(store, clock=at())
    assert len(states_in(store)) == len(RAWS)
    assert store.table.get((partition, sort_key)) == full


async def test_a_run_that_another_has_ended_stops() -> None:
    """It deletes nothing more once its moment is in the registry no longer."""
    store = MemoryStore(HOME)
    await run(store, RAWS)

    class Ended(ForwardingStore):
        async def scan(self, scan: Scan) -> Page:
            page = await super().scan(scan)
            await super().write(Update(region_key(HOME), remove=("forgetting", "task")))
            return page

    with pytest.raises(LedgerError, match="another run has ended this one"):
        await forgotten(Ended(store), clock=at())
    assert len(states_in(store)) == len(RAWS)


async def test_a_reset_forgets_what_was_forgotten() -> None:
    """All totals are 0 then, and records of any age come as for the first time."""
    store = MemoryStore(HOME)
    await run(store, [*RAWS, *NEW])
    await forgotten(store, clock=at())
    settings = one_region(keeping())
    clock = ManualClock(instant=True)
    done = await Reset({HOME: store}, settings, services=make_services(clock)).run()
    assert (done.records, shown(store.table)) == (len(RAWS) + len(NEW), {})
    assert await run(store, [*RAWS, *NEW], clock=at(START + timedelta(seconds=1))) == []
    assert shown(store.table) == truth_of([*RAWS, *NEW])
    assert (await audit_of(store)).differences == []


def test_how_long_states_are_kept_goes_by_a_records_own_time() -> None:
    """Without a field of it the setting is refused."""
    with pytest.raises(SettingsError, match=r"keep_states needs pipeline\.fields\.time"):
        pipeline_settings(keep_states="400d")


async def test_a_lane_whose_entry_got_no_answer_is_entered_again() -> None:
    """Else a moment before which records are refused would never be left in its item."""
    store = MemoryStore(HOME)
    lost: list[str] = []

    class Losing(ForwardingStore):
        async def write(self, write: Write) -> Outcome:
            if write.key[1].startswith("lane#") and not lost:
                lost.append(write.key[1])
                return Unknown("no answer")
            return await super().write(write)

    await run(Losing(store), NEW)
    assert store.table.get((registry_partition(), lost[0])) is not None


async def test_nothing_is_forgotten_by_a_clock_that_is_off() -> None:
    """It would take young records for old ones: refused before anything is noted."""
    store = MemoryStore(HOME)
    await run(store, RAWS)
    store.clock_offset = ClockOffset(-200.0, -190.0)
    with pytest.raises(ClockOff, match="clock"):
        await forgotten(store, clock=at())
    assert len(states_in(store)) == len(RAWS)
    store.clock_offset = None
    assert (await forgotten(store, clock=at())).records == len(RAWS)
