"""Audits, rebuilds, moves and resets whose writes are not answered: none is taken for done."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from support.lanes import lane_worker
from support.ledgers import HOME, make_services, seeded
from support.pipelines import deliveries, map_items, message, pipeline_settings, shown, truth

from ledger.core.entry import entry_id, entry_item, key_of
from ledger.core.errors import InvalidInput, Unreachable
from ledger.core.values import Entry
from ledger.pipeline.auditing.audit import Audit
from ledger.pipeline.auditing.mend import Mend
from ledger.pipeline.auditing.move import Move
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.auditing.task import UNDER_WAY, AnsweredStore
from ledger.pipeline.core.registry import region_key
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, NeverArrived
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Applied, Outcome, Put, Unknown, Update, Write
from ledger.testing.clock import ManualClock

AT = datetime(2026, 1, 1, tzinfo=UTC)
LANE = f"{HOME}/lane"
RAWS = [message(f"T{number}", 1, 10**number, desk="AB"[number % 2]) for number in range(5)]
WRITES = frozenset({"write", "transact"})
BY_DESK: dict[str, Any] = {"categories": ["by/{Hierarchy.Desk}"]}
DESKS = {"by/A": Decimal(10_101), "by/B": Decimal(1_010)}
ALL = truth(RAWS)
Run = Callable[[Store], Awaitable[None]]


def settings_of(**pipeline: Any) -> Settings:
    """Return settings of one region."""
    settings = pipeline_settings(**pipeline)
    return settings.replace(home=HOME, regions={HOME: settings.regions[HOME]})


def later() -> ManualClock:
    """Return a clock behind that of the lane: reduces of the same items have tokens by the time."""
    clock = ManualClock(instant=True)
    clock.pass_by(1000)
    return clock


async def audit(store: Store, **pipeline: Any) -> None:
    """Audit; nothing may differ."""
    clock, settings = later(), settings_of(**pipeline)
    report = await Audit({HOME: store}, settings, services=make_services(clock)).run()
    assert report.differences == []


async def rebuild(store: Store) -> None:
    """Give the states other categories."""
    clock, settings = later(), settings_of(**BY_DESK)
    await StateRebuild({HOME: store}, settings, services=make_services(clock)).run()


async def move(store: Store) -> None:
    """Move the states to a table of their own, and back."""
    for table in ("ledger-states", None):
        clock, settings = later(), settings_of(state_table=table)
        await Move({HOME: store}, settings, services=make_services(clock)).run()


async def reset(store: Store) -> None:
    """Take everything out."""
    clock, settings = later(), settings_of()
    await Reset({HOME: store}, settings, services=make_services(clock)).run()


async def mend(store: Store) -> None:
    """Close a lane for good."""
    clock, settings = later(), settings_of()
    made = Mend({HOME: store}, settings, services=make_services(clock), lane=LANE, closes=True)
    await made.run_lane()


async def filled() -> MemoryStore:
    """Return a table with what one lane has brought in."""
    store = MemoryStore(HOME)
    await lane_worker(deliveries(RAWS), store, settings=settings_of()).run()
    return store


class Nth:
    """Lets one write, counted from 1, go without an answer."""

    def __init__(self, number: int, fault: Fault) -> None:
        self.writes = 0
        self._number = number
        self._fault = fault

    def __call__(self, call: FaultCall) -> Fault | None:
        """Decide on a call."""
        self.writes += call.operation in WRITES
        is_it = call.operation in WRITES and self.writes == self._number
        return self._fault if is_it else None


@pytest.mark.parametrize("fault", [NeverArrived(), Lost()], ids=["never arrived", "lost"])
@pytest.mark.parametrize(
    ("run", "totals"),
    [(audit, ALL), (rebuild, DESKS), (move, ALL), (reset, {}), (mend, ALL)],
    ids=["audit", "rebuild", "move", "reset", "mend"],
)
async def test_whichever_write_is_not_answered_all_is_done(
    run: Run, totals: Mapping[str, Decimal], fault: Fault
) -> None:
    """It is sent again; totals are right, nothing waits, and nothing is under way any more."""
    number, nth = 0, Nth(0, fault)
    while nth.writes >= number:
        number += 1
        store, nth = await filled(), Nth(number, fault)
        await run(FaultyStore(store, nth, clock=ManualClock(instant=True)))
        assert shown(store.table) == totals, number
        assert map_items(store.table) == []
        region = store.table.get(region_key(HOME)) or {}
        assert not {*UNDER_WAY} & {*region}, number
        await audit(store, **(BY_DESK if run is rebuild else {}))
    assert number > 3


@pytest.mark.parametrize("fault", [NeverArrived(), Lost()], ids=["never arrived", "lost"])
async def test_a_mended_total_is_named_although_the_write_was_not_answered(fault: Fault) -> None:
    """It is written once, and the report names it."""
    number, nth = 0, Nth(0, fault)
    while nth.writes >= number:
        number += 1
        store, nth = await filled(), Nth(number, fault)
        item = entry_item(Entry("risk/Delta", str(entry_id(AT, 7)), Decimal(5)))
        store.table.set(key_of(item), item)
        services = make_services(later())
        assert (await Audit({HOME: store}, settings_of(), services=services).run()).differences
        faulty = FaultyStore(store, nth, clock=ManualClock(instant=True))
        mend = Mend({HOME: faulty}, settings_of(), services=services)
        assert await mend.run_totals() == {"risk/Delta": Decimal(-5)}, number
        await audit(store)
    assert number > 2


async def test_what_ended_meanwhile_is_not_under_way() -> None:
    """A region that another task gave free between two requests is claimed at the second try."""

    class Ending(ForwardingStore):
        """Frees the region of another task once that has kept a claim out."""

        is_free = False

        async def write(self, write: Write) -> Outcome:
            outcome = await super().write(write)
            if not self.is_free and not isinstance(outcome, Applied):
                self.is_free = True
                await super().write(Update(region_key(HOME), remove=("task",)))
            return outcome

    store = await filled()
    await store.write(Update(region_key(HOME), set={"task": {"S": "reset"}}))
    with pytest.raises(InvalidInput, match="`ledger pipeline reset` is under way in"):
        await audit(store)
    ending = Ending(store)
    await audit(ending)
    assert ending.is_free


async def test_a_write_that_is_never_answered_is_an_error() -> None:
    """It says so, and that it may have been applied."""
    store = FaultyStore(MemoryStore(HOME), lambda _call: NeverArrived())
    answered = AnsweredStore(store, clock=ManualClock(instant=True), randomness=seeded())
    put = Put({"pk": {"S": "a"}, "sk": {"S": "b"}})
    assert isinstance(await store.write(put), Unknown)
    with pytest.raises(Unreachable, match="may have been applied: run this again"):
        await answered.write(put)
    with pytest.raises(Unreachable, match=HOME):
        await answered.transact([put])
