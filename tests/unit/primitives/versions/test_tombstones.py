"""What was deleted keeps its version: older ones are dropped, newer ones begin it again."""

from itertools import permutations

import pytest
from support.guarding import SUBJECT, Handling, Noting, condition_guard, event, lock_guard
from support.ledgers import HOME

from ledger.core.entry import Item, Key
from ledger.core.errors import DamagedItem, InvalidInput
from ledger.primitives.leases.lease import Lease
from ledger.primitives.versions import Event, Handled, Skipped, is_tombstone, version_of
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Late, Lost, NeverArrived
from ledger.store.writes import Action, Delete
from ledger.testing.clock import START

KEY: Key = ("customer", "7")
PLACE: Item = {"pk": {"S": "customer"}, "sk": {"S": "7"}, "city": {"S": "Riga"}}
DAY = 86400.0


async def test_after_a_delete_older_versions_are_dropped() -> None:
    """Version 3 deletes; version 2 and a repeat of 3 change nothing, version 4 begins again."""
    store = MemoryStore(HOME)
    guard = condition_guard(store)
    assert await guard.put(PLACE, version=1) == Handled(1)
    assert await guard.delete(KEY, version=3) == Handled(3)
    assert await guard.put(PLACE, version=2) == Skipped(2, 3)
    assert await guard.delete(KEY, version=3) == Skipped(3, 3)
    assert await guard.read(KEY) is None
    assert await guard.put(PLACE, version=4) == Handled(4)
    assert await guard.read(KEY) == {**PLACE, "version": {"N": "4"}}


async def test_negative_twin_a_plain_delete_lets_an_older_version_back() -> None:
    """The same events with the item itself deleted: version 2 is handled again."""
    store = MemoryStore(HOME)
    guard = condition_guard(store)
    assert await guard.put(PLACE, version=3) == Handled(3)
    await store.write(Delete(KEY))
    assert await guard.put(PLACE, version=2) == Handled(2)


async def test_a_delete_may_come_before_any_version() -> None:
    """A delete that overtakes what it deletes leaves a tombstone where nothing was."""
    store = MemoryStore(HOME)
    guard = condition_guard(store)
    assert await guard.read(KEY) is None
    assert await guard.delete(KEY, version=2) == Handled(2)
    assert await guard.put(PLACE, version=1) == Skipped(1, 2)


async def test_whatever_the_order_the_newest_stays_deletes_among_them() -> None:
    """In every order of four versions, 1 and 3 of them deletes, what stays is the newest."""
    for newest in (3, 4):
        for order in permutations(range(newest + 1)):
            store = MemoryStore(HOME)
            guard = condition_guard(store)
            for version in order:
                if version % 2:
                    await guard.delete(KEY, version=version)
                else:
                    await guard.put(PLACE, version=version)
            assert version_of(store.table.get(KEY)) == newest
            assert (await guard.read(KEY) is None) is (newest == 3)


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_delete_is_repeated_until_known(fault: Fault) -> None:
    """After an unknown outcome the tombstone is put again, which cannot harm."""
    store = FaultyStore(MemoryStore(HOME), InOrder(fault))
    guard = condition_guard(store)
    assert await guard.delete(KEY, version=2) == Handled(2)
    while store.in_flight:
        await store.land()
    assert await guard.put(PLACE, version=1) == Skipped(1, 2)


async def test_a_tombstone_expires_after_the_stated_retention() -> None:
    """With a retention it has `~expires`, that much later than now; a newer record has not."""
    store = MemoryStore(HOME)
    guard = condition_guard(store, tombstone_seconds=7 * DAY)
    await guard.delete(KEY, version=1)
    item = store.table.get(KEY)
    assert item is not None
    assert int(item["~expires"]["N"]) == START.timestamp() + 7 * DAY
    await guard.put(PLACE, version=2)
    assert "~expires" not in (store.table.get(KEY) or {})


async def test_a_tombstone_never_expires_before_its_retention() -> None:
    """`~expires` has whole seconds: a part of one is rounded up."""
    store = MemoryStore(HOME)
    await condition_guard(store, tombstone_seconds=0.25).delete(KEY, version=1)
    item = store.table.get(KEY)
    assert item is not None
    assert int(item["~expires"]["N"]) == START.timestamp() + 1


async def test_without_a_retention_a_tombstone_stays() -> None:
    """By default no tombstone expires: the guarantee has no end."""
    store = MemoryStore(HOME)
    await condition_guard(store).delete(KEY, version=1)
    assert store.table.get(KEY) == {
        "pk": {"S": "customer"},
        "sk": {"S": "7"},
        "version": {"N": "1"},
        "~deleted": {"BOOL": True},
    }


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "7", True])
async def test_a_retention_that_is_none_is_refused(seconds: object) -> None:
    """A retention is over 0 and finite."""
    with pytest.raises(InvalidInput, match=r"tombstone_seconds must be .*, got"):
        condition_guard(MemoryStore(HOME), tombstone_seconds=seconds)


async def test_an_event_that_deletes_leaves_its_version_by_condition() -> None:
    """Actions that delete a record stand with a tombstone of the event's version, which expires."""
    store = MemoryStore(HOME)
    guard = condition_guard(store, tombstone_seconds=DAY)
    store.table.set(KEY, PLACE)
    assert await guard.handle(event(3, deletes=True), [Delete(KEY)]) == Handled(3)
    item = store.table.get(event(3).key)
    assert item is not None
    assert is_tombstone(item)
    assert int(item["~expires"]["N"]) == START.timestamp() + DAY
    assert await guard.handle(event(2), []) == Skipped(2, 3)
    assert await guard.handle(event(4), []) == Handled(4)
    assert store.table.get(event(4).key) == {
        "pk": {"S": f"~version~{SUBJECT}"},
        "sk": {"S": "record"},
        "version": {"N": "4"},
    }


async def test_an_event_that_deletes_leaves_its_version_by_lock() -> None:
    """A handler that deletes leaves the version behind: what is older is not even locked for."""
    store = Noting()
    guard = lock_guard(store, tombstone_seconds=DAY)
    store.table.set(KEY, PLACE)

    async def deletes(event: Event, _: Lease) -> list[Action]:
        assert event.deletes
        return [Delete(KEY)]

    assert await guard.handle(event(3, deletes=True), deletes) == Handled(3)
    assert store.table.get(KEY) is None
    before = store.lock_calls.total()
    assert await guard.handle(event(2), Handling()) == Skipped(2, 3)
    assert store.lock_calls.total() == before
    item = store.table.get(event(3).key)
    assert item is not None
    assert int(item["~expires"]["N"]) == START.timestamp() + DAY
    assert await guard.handle(event(4), Handling()) == Handled(4)
    assert not is_tombstone(store.table.get(event(4).key) or {})


async def test_what_a_tombstone_is_made_of_is_reserved() -> None:
    """No record can pass for a tombstone, a key is two texts, and damage is never deleted over."""
    store = MemoryStore(HOME)
    guard = condition_guard(store)
    with pytest.raises(InvalidInput, match="must not have '~deleted'"):
        await guard.put({**PLACE, "~deleted": {"BOOL": True}}, version=1)
    for key in (("customer", ""), "customer", ("customer", 7), ("a", "b", "c")):
        with pytest.raises(InvalidInput, match="key must be two texts"):
            await guard.delete(key, version=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="key must be two texts"):
        await guard.put({"pk": {"S": "customer"}}, version=1)
    store.table.set(KEY, PLACE)
    with pytest.raises(DamagedItem):
        await guard.delete(KEY, version=1)
