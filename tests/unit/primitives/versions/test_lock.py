"""The guard by lock: one handler at a time, of newer versions only."""

from typing import cast

import pytest
from support.guarding import (
    ARRIVALS,
    Handling,
    Noting,
    condition_guard,
    event,
    lock_guard,
    record_in,
    record_put,
)
from support.leases import FIRST
from support.ledgers import AWAY, HOME, make_services

from ledger.core.errors import InvalidInput, LeaseLost
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import record_of
from ledger.primitives.versions import (
    Busy,
    Event,
    Handled,
    LockGuard,
    LockLost,
    Skipped,
    version_of,
)
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Late, Lost, NeverArrived
from ledger.store.writes import Action, Unknown
from ledger.testing.clock import ManualClock

EXPECTED = [Handled(1), Handled(4), Skipped(3, 4), Skipped(2, 4), Handled(5)]


@pytest.mark.parametrize(("check_first", "lock_calls"), [(False, 10), (True, 6)])
async def test_the_worked_example_by_lock(*, check_first: bool, lock_calls: int) -> None:
    """Versions 1, 4, 3, 2, 5: three are handled; 10 calls of the lock, 6 with the check before it.

    A call of the lock is one conditional write of it: to acquire, keep (none here: handling takes
    no time) or to release it. Reads are in the next test.
    """
    store, handler = Noting(), Handling()
    guard = lock_guard(store, check_first=check_first)
    outcomes = [await guard.handle(event(version), handler) for version in ARRIVALS]
    assert outcomes == EXPECTED
    assert handler.versions == [1, 4, 5]
    assert store.lock_calls.total() == lock_calls
    assert store.lock_calls == {"acquire": lock_calls / 2, "release": lock_calls / 2}
    assert record_in(store.table) == 5


@pytest.mark.parametrize(("check_first", "requests"), [(False, 23), (True, 20)])
async def test_the_worked_example_in_requests(*, check_first: bool, requests: int) -> None:
    """With every read and transaction counted, the check before the lock saves 3 requests of 23."""
    store = Noting()
    for version in ARRIVALS:
        await lock_guard(store, check_first=check_first).handle(event(version), Handling())
    assert len(store.calls) == requests


async def test_a_long_handling_calls_the_lock_more_often() -> None:
    """Handling that takes 3.5 s under heartbeats of 1 s takes three calls more to keep the lock."""
    store, clock = Noting(), ManualClock()

    async def takes_long(_: Event, __: Lease) -> list[Action]:
        await clock.advance(3.5)
        return []

    assert await lock_guard(store, clock=clock).handle(event(1), takes_long) == Handled(1)
    assert store.lock_calls == {"acquire": 1, "heartbeat": 3, "release": 1}


async def test_kinds_of_one_subject_share_its_lock_and_not_its_versions() -> None:
    """An address at version 1 is new though the balance is at 9; both wait for one lock."""
    store = Noting()
    guard = lock_guard(store)
    assert await guard.handle(event(9, "balance"), Handling()) == Handled(9)
    assert await guard.handle(event(1, "address"), Handling()) == Handled(1)

    async def meanwhile(_: Event, lease: Lease) -> list[Action]:
        busy = await lock_guard(store).handle(event(2, "address"), Handling(), wait_seconds=0)
        assert busy == Busy(lease.owner)
        return []

    assert await guard.handle(event(10, "balance"), meanwhile) == Handled(10)


async def test_a_guard_over_two_tables() -> None:
    """A handler writes a second table by itself: guarded there by condition, here by the lock."""
    store, other = Noting(), MemoryStore(HOME)
    mirror = condition_guard(other)
    place = {"pk": {"S": "mirror"}, "sk": {"S": "7"}}

    async def both(event: Event, lease: Lease) -> list[Action]:
        lease.check()
        await mirror.put(place, version=event.version)
        return [record_put(event.version)]

    guard = lock_guard(store)
    assert [await guard.handle(event(version), both) for version in ARRIVALS] == EXPECTED
    assert record_in(store.table) == version_of(other.table.get(("mirror", "7"))) == 5


async def test_a_handler_that_fails_gives_the_lock_back_and_leaves_no_version() -> None:
    """What a handler raises is raised; the next delivery is handled at once, without a wait."""
    store = Noting()

    async def fails(_: Event, __: Lease) -> list[Action]:
        raise RuntimeError("the mail server is down")

    with pytest.raises(RuntimeError, match="mail server"):
        await lock_guard(store).handle(event(1), fails)
    outcome = await lock_guard(store).handle(event(1), Handling(), wait_seconds=0)
    assert outcome == Handled(1)


async def test_a_handler_that_finds_its_lock_lost_ends_as_lock_lost() -> None:
    """`LeaseLost` from the handler's own check is an outcome, and no version is written."""
    store = Noting()

    async def finds_out(_: Event, __: Lease) -> list[Action]:
        raise LeaseLost("somebody has it")

    assert await lock_guard(store).handle(event(1), finds_out) == LockLost("somebody has it")
    assert await store.get(Get(event(1).key)) is None


def in_commit(*faults: Fault) -> FaultyStore:
    """Return a store whose transactions go wrong in this order."""
    left = list(faults)

    def decide(call: FaultCall) -> Fault | None:
        return left.pop(0) if call.operation == "transact" and left else None

    return FaultyStore(Noting(), decide)


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_commit_is_repeated_under_its_token(fault: Fault) -> None:
    """A commit without an answer is repeated, and the handler is run only once."""
    store, handler = in_commit(fault), Handling()
    assert await lock_guard(store, clock=ManualClock(instant=True)).handle(
        event(1), handler
    ) == Handled(1)
    assert handler.versions == [1]


async def test_a_commit_without_any_answer_is_unknown() -> None:
    """Without any answer the outcome is unknown; the next delivery finds out and does no harm."""
    store, handler = in_commit(Lost(), Lost()), Handling()
    guard = lock_guard(store, clock=ManualClock(instant=True), tries_max=2)
    assert isinstance(await guard.handle(event(1), handler), Unknown)
    assert await lock_guard(store).handle(event(1), handler) == Skipped(1, 1)
    assert handler.versions == [1]


async def test_the_lock_is_released_and_kept_in_the_table() -> None:
    """Afterwards no one owns the lock; its item stays, with the epoch that fences the next."""
    store = Noting()
    await lock_guard(store).handle(event(1), Handling())
    item = store.table.get(("~version~customer-7", "~lock"))
    assert item is not None
    assert (record_of(item).released, record_of(item).epoch) == (True, FIRST)


async def test_the_longest_subject_has_a_lock() -> None:
    """Whatever is a subject, of up to 1,024 bytes, can be locked."""
    event = Event("s" * 1024, 1)
    assert await lock_guard(Noting()).handle(event, Handling()) == Handled(1)


async def test_the_lock_of_another_region_is_refused_with_the_right_advice() -> None:
    """The error says what guards must do, and nothing of the compactor's move of home."""
    store = Noting()
    await lock_guard(store).handle(event(1), Handling())
    elsewhere = MemoryStore(AWAY, store.table)
    with pytest.raises(LeaseLost, match="all work through one region") as raised:
        await lock_guard(elsewhere).handle(event(2), Handling())
    assert "move-home" not in str(raised.value)


async def test_what_a_handler_must_not_return_is_named() -> None:
    """A handler that forgets its list, or returns other things, gets an error of ours."""
    for returned in (None, {1, 2}, [("pk", "sk")], "text"):

        async def forgets(_: Event, __: Lease, returned: object = returned) -> list[Action]:
            return cast("list[Action]", returned)

        with pytest.raises(InvalidInput, match="actions must be a list of actions, got"):
            await lock_guard(Noting()).handle(event(1), forgets)


async def test_an_owner_and_an_event_are_checked() -> None:
    """An owner is a text, since an empty one means released; only an event is handled."""
    for owner in ("", None, 7):
        with pytest.raises(InvalidInput, match="owner must be a text that is not empty"):
            LockGuard(Noting(), owner=owner, services=make_services(ManualClock()))  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="event must be an Event, got int 7"):
        await lock_guard(Noting()).handle(7, Handling())  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="check_first must be True or False, got 'no'"):
        lock_guard(Noting(), check_first="no")  # type: ignore[arg-type]


async def test_a_handler_must_be_callable() -> None:
    """What cannot be called is refused before anything is sent."""
    store = Noting()
    with pytest.raises(InvalidInput, match="handler must be callable, got None"):
        await lock_guard(store).handle(event(1), None)  # type: ignore[arg-type]
    assert store.calls == []
