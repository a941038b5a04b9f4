"""Concurrent changes in shared batches: each caller hears of its own change, and of it alone."""

import asyncio
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import HOME, amounts_of, changes
from support.sharing import GatedStore, ones, record, record_all, sharing, turns

from ledger.core.clock_offset import ClockOffset
from ledger.core.errors import (
    ClockOff,
    InvalidAmount,
    InvalidCounter,
    KeyConflict,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    StoreError,
    Throttled,
)
from ledger.core.values import Entry
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    FaultyStore,
    InOrder,
    Lost,
    NeverArrived,
    Partial,
    Raises,
    Seeded,
)
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.group_commit import GroupCommit, linger_seconds
from ledger.writes.writer import Writer

# Sharing


async def test_calls_at_the_same_time_share_batches() -> None:
    """Sixty callers take three requests, and each is given its own entry."""
    store = GatedStore()
    async with sharing(store) as writer:
        told = await record_all(writer, ones(60))
    assert store.sizes == [25, 25, 10]
    assert [entry.change for entry in told if isinstance(entry, Entry)] == amounts_of(60)
    assert changes(store.table, "c") == amounts_of(60)


async def test_a_call_alone_is_sent_at_once_and_alone() -> None:
    """No time passes before a lone call is sent, as a conditional put of its own."""
    store, clock = GatedStore(), ManualClock(instant=True)
    async with sharing(store, clock=clock, writer={"linger": 1.0}) as writer:
        await writer.record(Change("c", 1))
        await writer.record(Change("c", 2))
    assert clock.elapsed == 0
    assert store.sizes == [1, 1]


async def test_no_ids_are_made_by_a_clock_that_is_off() -> None:
    """The clock is looked at once for all calls of a batch, each of which hears of it."""
    store = GatedStore()
    store.clock_offset = ClockOffset(-200.0, -190.0)
    async with sharing(store) as writer:
        calls = [writer.add("c", change) for change in range(30)]
        for call in calls:
            with pytest.raises(ClockOff, match="behind"):
                await call
        assert changes(store.table, "c") == []
        store.clock_offset = ClockOffset(-1.0, 1.0)
        await writer.add("c", 7)
    assert changes(store.table, "c") == [Decimal(7)]


async def test_while_a_request_is_under_way_the_next_ones_gather() -> None:
    """What comes while every allowed request is under way goes together in the next."""
    store = GatedStore()
    store.shut()
    async with (
        sharing(store, writer={"in_flight": 1}) as writer,
        anyio.create_task_group() as tasks,
    ):
        for change in ones(12):
            tasks.start_soon(record, writer, change)
            await turns()
        assert store.sizes == [1]
        store.gate.set()
    assert store.sizes == [1, 11]


async def test_the_queue_is_bounded() -> None:
    """Past `queue_max` callers wait for room, without an id; all are written in the end."""
    store = GatedStore()
    store.shut()
    limits = {"queue_max": 30, "in_flight": 1}
    async with sharing(store, writer=limits) as writer, anyio.create_task_group() as tasks:
        for change in ones(100):
            tasks.start_soon(record, writer, change)
        await turns()
        group = writer._group
        assert group is not None
        assert sum(store.sizes) + len(group._queue) == 30
        store.gate.set()
    assert changes(store.table, "c") == amounts_of(100)
    assert max(store.sizes) == 25


async def test_a_change_is_known_as_soon_as_it_is_durable() -> None:
    """A caller does not wait for others of its batch that were left unprocessed."""
    told: list[Decimal] = []
    clock = ManualClock()
    store = FaultyStore(MemoryStore(HOME), InOrder(Partial(unprocessed=(1,))))

    async def one(writer: Writer, change: Change) -> None:
        told.append((await writer.record(change)).change)

    async with sharing(store, clock=clock) as writer, anyio.create_task_group() as tasks:
        for change in ones(3):
            tasks.start_soon(one, writer, change)
        await turns()
        assert told == [1, 3]
        await clock.advance(60)
        assert told == [1, 3, 2]


async def test_keyed_and_lone_changes_keep_their_conditions() -> None:
    """A call with a key is a conditional put: the same call again, at the same time, is one."""
    clock = ManualClock(instant=True)
    store = GatedStore()
    keyed = Change("c", 5, key="order-1", at=clock.now())
    async with sharing(store, clock=clock) as writer:
        told = await record_all(writer, [keyed, keyed, *ones(2)])
    assert {entry.id for entry in told[:2] if isinstance(entry, Entry)} == {told[0].id}  # type: ignore[union-attr]
    assert store.sizes == [1, 3, 1]  # the second again by itself: it has the first in its way
    assert changes(store.table, "c") == [1, 2, 5]


async def test_keyed_calls_share_requests() -> None:
    """Sixty callers with keys take three requests, and each is given its own entry."""
    clock, store = ManualClock(instant=True), GatedStore()
    asked = [Change("c", n + 1, key=f"k{n}", at=clock.now()) for n in range(60)]
    async with sharing(store, clock=clock) as writer:
        told = await record_all(writer, asked)
        again = await record_all(writer, asked[:1])
    assert store.sizes == [25, 25, 10, 1]
    assert [entry.change for entry in told if isinstance(entry, Entry)] == amounts_of(60)
    assert told[:1] == again


async def test_of_keyed_calls_each_has_an_outcome_of_its_own() -> None:
    """Of one request: throttled is not written, in doubt goes again, another's key conflicts."""
    clock, inner = ManualClock(instant=True), MemoryStore(HOME)
    store = FaultyStore(inner, InOrder(None, Partial(unprocessed=(0,), lost=(1,))), clock=clock)
    keys = [Change("c", n + 1, key=f"k{n}", at=clock.now()) for n in range(4)]
    async with sharing(store, clock=clock) as writer:
        await writer.record(Change("c", 30, key="k2", at=clock.now()))
        told = await record_all(writer, keys)
    assert [type(one) for one in told] == [Throttled, Entry, KeyConflict, Entry]
    assert changes(inner.table, "c") == [2, 4, 30]


# What goes wrong


@pytest.mark.parametrize("fault", [Lost(), NeverArrived()])
async def test_an_unknown_batch_is_each_callers_own_unknown(fault: Lost | NeverArrived) -> None:
    """Past `write_deadline` each caller has its own entry to retry, after which it counts once."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, lambda call: fault if call.operation == "write_batch" else None)
    async with sharing(store) as writer:
        told = await record_all(writer, ones(30))
        errors = [one for one in told if isinstance(one, OutcomeUnknown)]
        assert [len(error.entries) for error in errors] == [1] * 30
        assert [error.entries[0].change for error in errors] == amounts_of(30)
        assert len({id(error) for error in errors}) == 30
        for error in errors:
            store.decide = InOrder()
            await writer.retry(error.entries, together=error.together)
    assert changes(inner.table, "c") == amounts_of(30)


async def test_a_refused_batch_is_refused_for_each_caller() -> None:
    """Where nothing was written every caller gets that error, as an object of its own."""
    store = FaultyStore(MemoryStore(HOME), InOrder(Raises(Throttled("slow down"))))
    async with sharing(store) as writer:
        told = await record_all(writer, ones(25))
    assert all(isinstance(one, Throttled) for one in told)
    assert len({id(one) for one in told}) == 25


async def test_a_wrong_change_harms_no_other() -> None:
    """A change that breaks a rule is refused on its own, before anything is sent."""
    store = GatedStore()
    async with sharing(store, combine=["sum"]) as writer:
        with pytest.raises(InvalidAmount):
            await writer.record(Change("c", 1.5))  # type: ignore[arg-type]
        with pytest.raises(InvalidAmount):
            await writer.record(Change("sum", "1"))  # type: ignore[arg-type]
        with pytest.raises(InvalidCounter):
            await writer.record(Change(["c"], 1))  # type: ignore[arg-type]
        await record_all(writer, ones(2))
    assert store.sizes == [2]


async def test_a_cancelled_caller_takes_nobody_along() -> None:
    """Its change goes on if it is under way, and is not sent if it only waits."""
    store = GatedStore()
    store.shut()
    scopes = [anyio.CancelScope() for _ in range(4)]

    async def one(writer: Writer, number: int) -> None:
        with scopes[number]:
            await writer.record(Change("c", 10**number))

    async with (
        sharing(store, writer={"in_flight": 1}) as writer,
        anyio.create_task_group() as tasks,
    ):
        for number in (0, 1):
            tasks.start_soon(one, writer, number)
        await turns()
        for number in (2, 3):
            tasks.start_soon(one, writer, number)
        await turns()
        scopes[0].cancel()
        scopes[3].cancel()
        await turns()
        store.gate.set()
    assert changes(store.table, "c") == [1, 10, 100]


async def test_room_that_comes_too_late_is_given_back() -> None:
    """A caller cancelled in the turn in which it is granted room leaves it to the next."""
    store = GatedStore()
    store.shut()
    async with sharing(store, writer={"queue_max": 1}) as writer:

        async def record_then_cancel() -> None:
            await writer.record(Change("c", 1))
            late.cancel()

        first = asyncio.ensure_future(record_then_cancel())
        await turns()
        late = asyncio.ensure_future(writer.record(Change("c", 2)))
        await turns()
        store.gate.set()
        await asyncio.wait([first, late])
        assert late.cancelled()
        with anyio.fail_after(5):
            await writer.record(Change("c", 3))
    assert changes(store.table, "c") == [1, 3]


async def test_callers_that_share_one_future_are_cancelled_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant: one future for all callers of an entry, and one of them cancels all."""
    shared: list[asyncio.Future[Entry]] = []
    own = GroupCommit._wait

    def one_for_all(self: GroupCommit) -> "asyncio.Future[Entry]":
        shared[:] = shared or [own(self)]
        return shared[0]

    monkeypatch.setattr(GroupCommit, "_wait", one_for_all)
    store, done = GatedStore(), []
    store.shut()

    async def one(writer: Writer) -> None:
        done.append(await writer.record(Change("c", 1)))

    async with sharing(store) as writer:
        first, second = (asyncio.ensure_future(one(writer)) for _ in range(2))
        await turns()
        first.cancel()
        await turns()
        assert second.cancelled()
    assert done == []


async def test_closing_leaves_nobody_waiting() -> None:
    """What is under way is unknown, with its entry; what waits is not written, and said so."""
    store = GatedStore()
    store.shut()
    errors: list[LedgerError] = []

    async def one(writer: Writer, change: Change) -> None:
        try:
            await writer.record(change)
        except LedgerError as error:
            errors.append(error)

    limits = {"in_flight": 1}
    async with anyio.create_task_group() as tasks, sharing(store, writer=limits) as writer:
        for change in ones(2):
            tasks.start_soon(one, writer, change)
            await turns()
    assert sorted(type(error).__name__ for error in errors) == ["NotSent", "OutcomeUnknown"]
    unknown = next(error for error in errors if isinstance(error, OutcomeUnknown))
    assert [entry.change for entry in unknown.entries] == [1]
    with pytest.raises(NotSent, match="closed"):
        await writer.record(Change("c", 3))


@given(
    st.integers(0, 10**6), st.floats(0, 0.6), st.integers(1, 90), st.booleans(), st.integers(0, 4)
)
async def test_property_each_change_once(
    seed: int,
    share: float,
    calls: int,
    combine: bool,  # noqa: FBT001
    keyed: int,
) -> None:
    """Whatever goes wrong: acknowledged is counted, refused is not, unknown is after a retry."""
    inner = MemoryStore(HOME)
    store = FaultyStore(inner, Seeded(seed, share=share), clock=ManualClock(instant=True))
    at = ManualClock().now()
    asked = [
        Change(f"c{number % 3}", 2**number, key=f"k{number}", at=at)
        if number % 4 < keyed
        else Change(f"c{number % 3}", 2**number)
        for number in range(calls)
    ]
    async with sharing(store, combine=["c1", "c2"] if combine else []) as writer:
        told = await record_all(writer, asked)
        while store.in_flight:
            await store.land()
        store.decide = InOrder()
        for one in told:
            if isinstance(one, OutcomeUnknown):
                await writer.retry(one.entries, together=one.together)
    wanted = sum(
        int(change.change)
        for change, one in zip(asked, told, strict=True)
        if not isinstance(one, StoreError)
    )
    assert sum(int(item["change"]["N"]) for item in inner.table.items()) == wanted


# The linger


@pytest.mark.parametrize(
    ("case", "seconds"),
    [
        ({}, 0.002),
        ({"gap_seconds": 0.00001, "waiting": 5}, 0.0002),
        ({"gap_seconds": 0.0001, "waiting": 24}, 0.0001),
        ({"waiting": 25}, 0.0),
        ({"waiting": 400}, 0.0),
        ({"is_idle": True}, 0.0),
        ({"gap_seconds": 0.002}, 0.0),
        ({"gap_seconds": 9.0}, 0.0),
    ],
)
def test_linger(case: dict[str, Any], seconds: float) -> None:
    """Waiting lasts no longer than the linger, nor than it takes to fill a batch."""
    usual: dict[str, Any] = {
        "gap_seconds": 0.0001,
        "waiting": 1,
        "is_idle": False,
    }
    assert linger_seconds(0.002, **{**usual, **case}) == pytest.approx(seconds)


async def test_the_pace_is_forgotten_soon() -> None:
    """After a long silence calls that come fast wait for each other again within a few batches."""
    store, clock = GatedStore(), ManualClock(instant=True)
    waits: list[float] = []
    sleep: Callable[[float], Any] = clock.sleep

    async def noted(seconds: float) -> None:
        waits.append(seconds)
        await sleep(seconds)

    clock.sleep = noted  # type: ignore[method-assign]
    async with sharing(store, clock=clock, combine=["c"], writer={"linger": 0.01}) as writer:
        await writer.record(Change("c", 1))
        clock.pass_by(10_000)
        for _ in range(4):
            await record_all(writer, ones(50))
        assert waits
