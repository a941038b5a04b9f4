"""The guard by condition: what is there only gets newer."""

from itertools import permutations

import pytest
from support.guarding import ARRIVALS, Noting, condition_guard, event, record_in, record_put
from support.ledgers import HOME

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidInput, Throttled
from ledger.primitives.versions import Handled, Refused, Skipped, version_of
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import (
    Fault,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.store.writes import Put, Unknown

PLACE: Item = {"pk": {"S": "customer"}, "sk": {"S": "7"}}
KEY = ("customer", "7")


def faulty(*faults: Fault | None) -> FaultyStore:
    """Return a store whose calls go wrong in this order."""
    return FaultyStore(MemoryStore(HOME), InOrder(*faults))


async def test_the_worked_example_by_condition() -> None:
    """Of versions 1, 4, 3, 2, 5 three are written, by five calls: one each, with nothing before."""
    store = Noting()
    guard = condition_guard(store)
    outcomes = [await guard.put(PLACE, version=version) for version in ARRIVALS]
    assert outcomes == [Handled(1), Handled(4), Skipped(3, 4), Skipped(2, 4), Handled(5)]
    assert store.count("write") == len(store.calls) == 5


async def test_whatever_the_order_the_newest_stays() -> None:
    """In every order of five versions, duplicates among them, the newest is there in the end."""
    for order in permutations((0, 1, 2, 2, 3)):
        store = MemoryStore(HOME)
        for version in order:
            await condition_guard(store).put(PLACE, version=version)
        assert version_of(store.table.get(KEY)) == 3


async def test_negative_twin_without_the_condition_older_overwrites_newer() -> None:
    """The same arrivals put without a condition: the last to arrive stays, though it is old."""
    store = MemoryStore(HOME)
    for version in (1, 4, 3, 2):
        await store.write(Put({**PLACE, "version": {"N": str(version)}}))
    assert version_of(store.table.get(KEY)) == 2


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_put_is_repeated_until_known(fault: Fault) -> None:
    """After an unknown outcome the put is repeated, which cannot harm, and ends as handled."""
    store = faulty(fault)
    assert await condition_guard(store).put(PLACE, version=2) == Handled(2)
    while store.in_flight:
        await store.land()
    assert version_of(await store.get(Get(KEY))) == 2


async def test_a_late_put_never_brings_an_old_version_back() -> None:
    """A put that lands after a newer version has come is refused as late."""
    store = faulty(Late())
    assert isinstance(await condition_guard(store, tries_max=1).put(PLACE, version=2), Unknown)
    assert await condition_guard(store).put(PLACE, version=3) == Handled(3)
    await store.land()
    assert version_of(await store.get(Get(KEY))) == 3


async def test_errors_before_and_after_an_unanswered_put() -> None:
    """A store error alone raises; after an unanswered try the outcome stays unknown."""
    down = Raises(Throttled("slow down"))
    with pytest.raises(Throttled):
        await condition_guard(faulty(down)).put(PLACE, version=1)
    outcome = await condition_guard(faulty(Lost(), down), tries_max=2).put(PLACE, version=1)
    assert isinstance(outcome, Unknown)


async def test_an_item_without_a_version_is_never_overwritten() -> None:
    """An item that was written without a version is damage: no one can tell whether it is old."""
    store = MemoryStore(HOME)
    store.table.set(KEY, PLACE)
    with pytest.raises(DamagedItem):
        await condition_guard(store).put(PLACE, version=1)


async def test_actions_are_done_once_for_each_newer_version() -> None:
    """Several writes stand and fall with the event's version, in one transaction."""
    store = MemoryStore(HOME)
    guard = condition_guard(store)
    outcomes = [await guard.handle(event(version), [record_put(version)]) for version in (2, 2, 1)]
    assert outcomes == [Handled(2), Skipped(2, 2), Skipped(1, 2)]
    assert record_in(store.table) == 2


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_transaction_is_repeated_under_its_token(fault: Fault) -> None:
    """A transaction without an answer is repeated, and is known in the end to be done once."""
    store = faulty(fault)
    assert await condition_guard(store).handle(event(2), [record_put(2)]) == Handled(2)
    while store.in_flight:
        await store.land()
    assert version_of(await store.get(Get(event(2).key))) == 2


async def test_the_callers_own_condition_is_told_apart() -> None:
    """A false condition of the caller's is no old version; its position is the caller's."""
    store = MemoryStore(HOME)
    store.table.set(KEY, PLACE)
    actions = [record_put(1), Put(PLACE, Absent())]
    assert await condition_guard(store).handle(event(1), actions) == Refused({1: PLACE})
    assert record_in(store.table) is None
    assert await condition_guard(store).handle(event(1), [record_put(1)]) == Handled(1)


async def test_refused_after_an_unanswered_try_is_unknown() -> None:
    """A try in flight can land once the caller's condition is true again: it is not refused."""
    store = faulty(None, Late())
    await store.write(Put(PLACE))
    outcome = await condition_guard(store).handle(event(1), [Put(PLACE, Absent())])
    assert isinstance(outcome, Unknown)


async def test_a_transaction_has_room_for_99_actions() -> None:
    """A hundredth action is refused before anything is sent."""
    store = faulty()
    with pytest.raises(InvalidInput, match="at most 99, got 100"):
        await condition_guard(store).handle(event(1), [record_put(1)] * 100)
    assert store.calls == 0


async def test_what_is_no_event_no_item_and_no_action_is_refused() -> None:
    """Each gets an error of ours that names it, before anything is sent."""
    store = faulty()
    guard = condition_guard(store)
    with pytest.raises(InvalidInput, match="event must be an Event"):
        await guard.handle(("customer", 1), [])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="actions must be a list of actions, got None"):
        await guard.handle(event(1), None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="item must be a mapping"):
        await guard.put("item", version=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="key must be two texts"):
        await guard.put({"pk": "customer", "sk": {"S": "7"}}, version=1)  # type: ignore[dict-item]
    with pytest.raises(InvalidInput, match="consistent must be True or False, got 'no'"):
        await guard.read(KEY, consistent="no")  # type: ignore[arg-type]
    assert store.calls == 0


async def test_nothing_is_put_among_what_is_the_ledger_s_own() -> None:
    """A partition that begins with `~` is refused, by each call that writes, before it is sent."""
    store = faulty()
    guard = condition_guard(store)
    own = ("~contract", "contract")
    with pytest.raises(InvalidInput, match="partition must not begin with '~', got '~contract'"):
        await guard.put({"pk": {"S": own[0]}, "sk": {"S": own[1]}}, version=1)
    with pytest.raises(InvalidInput, match="partition must not begin with '~', got '~contract'"):
        await guard.delete(own, version=1)
    with pytest.raises(InvalidInput, match="partition must not begin with '~', got '~contract'"):
        await guard.adopt(own, version=1)
    assert store.calls == 0
