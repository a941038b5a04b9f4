"""What a caller may choose: no item left, no steal, data in a transaction, a list, a watch."""

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from support.leases import FIRST, KEY, TERMS, World

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidCounter, InvalidInput, LeaseLost
from ledger.primitives.leases.grant_environment import environment_of, grant_from
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseGrant, NotHeld, own_key, record_of
from ledger.primitives.leases.queries import list_leases
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, Late, Lost, NeverArrived
from ledger.store.writes import Applied, Delete, Put, Unknown
from ledger.testing.clock import START

PAGE_7: Item = {"page": {"N": "7"}}
WORK: Item = {"pk": {"S": "report"}, "sk": {"S": "part 7"}}


# --- delete_on_release


def deleting(world: World, owner: str = "one") -> Lease:
    """Return a contender that leaves no item behind."""
    return world.contender(owner, delete_on_release=True)


async def test_a_release_may_delete_the_item(world: World) -> None:
    """Nothing is left, and the next holder's epoch is above the deleted one's."""
    async with deleting(world).held(0) as held:
        assert isinstance(held, LeaseGrant)
        await world.clock.advance(1.0)
    assert world.table.get(KEY) is None
    assert await world.contender("two").acquire(0) == LeaseGrant(KEY, "two", FIRST + 1000)


async def test_a_release_deletes_no_other_s_item(world: World) -> None:
    """An item that another took meanwhile stays as it is."""
    one = deleting(world)
    await one.acquire(0)
    await world.force_taken("thief")
    before = world.item()
    assert await one.release()
    assert world.item() == before


@pytest.mark.parametrize(
    ("faults", "is_free"),
    [([Lost()], True), ([NeverArrived()], True), ([NeverArrived()] * 3, False)],
)
async def test_an_ambiguous_delete_is_read_again(
    world: World,
    faults: list[Fault],
    is_free: bool,  # noqa: FBT001 (a column of the table)
) -> None:
    """A delete without an answer is repeated while the table shows us, within a bound."""
    one = deleting(world)
    await one.acquire(0)
    world.fail_writes(*faults)
    assert await one.release() is is_free
    assert (world.table.get(KEY) is None) is is_free


async def test_a_delete_gets_past_a_heartbeat_in_flight(world: World) -> None:
    """A heartbeat that lands just before the delete does not keep the item from being deleted."""
    one = deleting(world)
    await one.acquire(0)
    world.fail_writes(Late())
    await one.heartbeat()
    assert isinstance(await world.store.land(), Applied)
    assert await one.release()
    assert world.table.get(KEY) is None


async def test_an_earlier_holding_gives_up_no_later_one(world: World) -> None:
    """A late release of the same contender finds a record of its own, of another epoch."""
    one = world.contender("one")
    await one.acquire(0)
    earlier = one._holding
    assert earlier is not None
    await one.release()
    await one.acquire(0)
    before = world.item()
    assert await earlier.give_up(one._item, delete=False)
    assert world.item() == before


# --- take_expired


async def test_a_lease_that_is_never_stolen_stays_with_a_dead_holder(world: World) -> None:
    """Without `take_expired` a contender waits, however long the record stays the same."""
    await world.contender("dead").acquire(0)
    two = world.contender("two")
    outcomes: list[LeaseGrant | NotHeld] = []

    async def wait() -> None:
        outcomes.append(await two.acquire(1000.0, take_expired=False))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await world.clock.advance(1000.0)
    assert outcomes == [NotHeld(KEY, "dead", FIRST, 0.0)]
    assert record_of(world.item()).owner == "dead"
    assert await two.acquire(0) == LeaseGrant(KEY, "two", FIRST + 1)


@pytest.mark.parametrize("by", ["release", "delete"])
async def test_a_lease_that_is_never_stolen_is_taken_once_free(world: World, by: str) -> None:
    """Released by its holder, or deleted by an operator, it is taken within a poll."""
    one, two = world.contender("one"), world.contender("two")
    await one.acquire(0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: two.acquire(take_expired=False))
        await world.clock.advance(100.0)
        if by == "release":
            await one.release()
        else:
            await world.store.write(Delete(KEY))
        await world.clock.advance(TERMS.poll_seconds)
        tasks.cancel_scope.cancel()
    assert record_of(world.item()).owner == "two"


async def test_one_s_own_late_acquisition_is_no_steal(world: World) -> None:
    """An acquisition of ours that landed late is taken over without `take_expired` too."""
    world.fail_writes(Late())
    one = world.contender("one")
    assert isinstance(await one.acquire(0, take_expired=False), NotHeld)
    assert isinstance(await world.store.land(), Applied)
    assert isinstance(await one.acquire(0, take_expired=False), LeaseGrant)


# --- data in a transaction


async def test_data_is_stored_with_the_work(world: World) -> None:
    """Both are there or neither; it is a heartbeat as well, and the next ones know its record."""
    one = world.contender("one")
    await one.acquire(0)
    await world.clock.advance(9.0)
    assert isinstance(await one.transact([Put(WORK)], data=PAGE_7), Applied)
    assert (world.table.get(("report", "part 7")), record_of(world.item()).data) == (WORK, PAGE_7)
    assert one.held_until == 39.0
    assert await one.heartbeat()
    assert record_of(world.item()).data == PAGE_7
    await one.release()
    assert await world.contender("two").acquire(0) == LeaseGrant(KEY, "two", FIRST + 1, PAGE_7)


async def test_data_is_stored_under_the_fence(world: World) -> None:
    """After a theft neither the work nor the data is written."""
    one = world.contender("one")
    await one.acquire(0)
    await world.force_taken("thief")
    before = world.item()
    with pytest.raises(LeaseLost, match="'thief' has it"):
        await one.transact([Put(WORK)], data=PAGE_7)
    assert world.item() == before
    assert world.table.get(("report", "part 7")) is None


async def test_data_is_not_stored_by_an_earlier_holding_of_the_same_owner(world: World) -> None:
    """A process that was started again under a fixed `owner` has another epoch."""
    zombie = world.contender("one")
    await zombie.acquire(0)
    await world.force_taken("one")
    before = world.item()
    with pytest.raises(LeaseLost, match="'one' has it"):
        await zombie.transact([Put(WORK)], data=PAGE_7)
    assert world.item() == before
    assert world.table.get(("report", "part 7")) is None


async def test_data_of_a_transaction_without_an_answer_is_recognized(world: World) -> None:
    """It landed: the next heartbeat finds a record of its own, not a thief's."""
    one = world.contender("one")
    await one.acquire(0)
    lost = iter([Lost()])
    world.store.decide = lambda call: next(lost, None) if call.operation == "transact" else None
    assert isinstance(await one.transact([Put(WORK)], data=PAGE_7), Unknown)
    assert not await one.heartbeat()
    assert await one.heartbeat()
    assert record_of(world.item()).data == PAGE_7


async def test_data_takes_no_token(world: World) -> None:
    """A repeat would write another record, which DynamoDB refuses under the same token."""
    one = world.contender("one")
    await one.acquire(0)
    with pytest.raises(InvalidInput, match="takes no token, got 't'"):
        await one.transact([Put(WORK)], data=PAGE_7, token="t")


# --- the list


async def test_all_leases_are_listed(world: World) -> None:
    """Each with owner, since when and epoch, a compactor's too, and nothing else of the table."""
    await world.contender("one").acquire(0)
    await world.clock.advance(5.0)
    async with world.contender("two", name="nightly", key=own_key("nightly")).held(0):
        pass
    await world.store.write(Put(WORK))
    await world.store.write(Put({"pk": {"S": "~leased"}, "sk": {"S": "other"}}))
    small = MemoryStore("eu-west-1", world.table, page_items_max=1)
    found = sorted([record async for record in list_leases(small)], key=lambda one: one.title)
    assert [(lease.title, lease.owner, lease.epoch) for lease in found] == [
        ("nightly", "", FIRST + 5000),
        ("~lease compactor", "one", FIRST),
    ]
    assert found[1].since == START
    assert found == [record_of(world.item(own_key("nightly"))), record_of(world.item())]


async def test_a_damaged_lease_in_the_list_is_named(world: World) -> None:
    """What lies under `~lease` and is no lease is an error that names it."""
    await world.store.write(Put({"pk": {"S": "~lease~nightly"}, "sk": {"S": "lease"}}))
    with pytest.raises(DamagedItem, match="~lease~nightly"):
        _ = [record async for record in list_leases(world.store)]


# --- the watch


async def watched(world: World, seconds: float) -> list[bool]:
    """Return what a watch of the lease says, if it ends within these seconds."""
    said: list[bool] = []

    async def watch() -> None:
        said.append(await world.contender("watcher").watch())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        await world.clock.advance(seconds)
        tasks.cancel_scope.cancel()
    return said


async def test_a_watch_sees_a_holder_that_is_alive(world: World) -> None:
    """The next heartbeat ends the watch."""
    async with world.contender("one").held(0):
        await world.clock.advance(1.0)
        assert await watched(world, TERMS.heartbeat_seconds + TERMS.poll_seconds) == [True]


async def test_a_watch_of_a_dead_holder_takes_a_lease(world: World) -> None:
    """It ends after as long as its owner declared, not before."""
    await world.contender("dead").acquire(0)
    assert await watched(world, TERMS.lease_seconds - 0.1) == []
    assert await watched(world, TERMS.lease_seconds + 0.1) == [False]


async def test_a_watch_of_a_free_lease_ends_at_once(world: World) -> None:
    """Never held, or released: there is no holder to be alive."""
    assert await watched(world, 0.0) == [False]
    one = world.contender("one")
    await one.acquire(0)
    await one.release()
    assert await watched(world, 0.0) == [False]


# --- the holding in the environment


def test_a_holding_is_handed_on_by_the_environment() -> None:
    """A program that was given the variables fences by the same holding."""
    grant = LeaseGrant(own_key("nightly"), "one", FIRST)
    assert grant_from(environment_of("nightly", grant)) == grant


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("LEDGER_LEASE_EPOCH", "", "LEDGER_LEASE_EPOCH is not set"),
        ("LEDGER_LEASE_EPOCH", "-7", "whole number, got '-7'"),
        ("LEDGER_LEASE_OWNER", "", "LEDGER_LEASE_OWNER is not set"),
    ],
)
def test_an_environment_without_a_holding_is_refused(name: str, value: str, reason: str) -> None:
    """The error names the variable and the rule."""
    grant = LeaseGrant(own_key("nightly"), "one", FIRST)
    with pytest.raises(InvalidInput, match=reason):
        grant_from({**environment_of("nightly", grant), name: value})


# --- errors

WRONG: dict[str, tuple[str, Callable[[Lease], Coroutine[Any, Any, object]]]] = {
    "a wait that is no number": ("wait_seconds", lambda lease: lease.acquire("5")),  # type: ignore[arg-type]
    "a wait of NaN": ("wait_seconds", lambda lease: lease.acquire(float("nan"))),
    "a wait below 0": ("a number from 0, or None, got -1", lambda lease: lease.acquire(-1)),
    "a wait of True": ("a number from 0, or None, got True", lambda lease: lease.acquire(True)),  # noqa: FBT003
    "data that is no map": ("data must be a map", lambda lease: lease.heartbeat(data=[1])),  # type: ignore[arg-type]
    "data of Python's": ("data must be a map", lambda lease: lease.heartbeat(data={"a": 1})),  # type: ignore[dict-item]
    "an empty region": ("home must be", lambda lease: lease.hand_over("")),
}


@pytest.mark.parametrize("case", WRONG)
async def test_bad_input_is_refused_by_name(world: World, case: str) -> None:
    """It names the value and the rule, and the lease stays as it is."""
    reason, call = WRONG[case]
    one = world.contender("one")
    if "wait" not in case:
        await one.acquire(0)
    with pytest.raises(InvalidInput, match=reason):
        await call(one)


def test_the_name_of_a_lease_is_called_so() -> None:
    """An error of its rules does not speak of a counter."""
    with pytest.raises(InvalidCounter, match="name of a lease must have 1 to 1,024 bytes, got ''"):
        own_key("")


def test_an_owner_is_a_text(world: World) -> None:
    """A number as owner is refused before anything is sent."""
    with pytest.raises(InvalidInput, match="owner of lease 'compactor' must be a text, got 7"):
        world.contender(7)  # type: ignore[arg-type]
