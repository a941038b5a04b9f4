"""An item that was made without a version gets one, by the caller's word, once."""

import pytest
from support.guarding import condition_guard
from support.ledgers import HOME

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidInput, Throttled
from ledger.primitives.versions import Adopted, Handled, Refused, Skipped, version_of
from ledger.store.conditions import Equals
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Late, Lost, NeverArrived
from ledger.store.wrappers.faults import Raises as Fails
from ledger.store.writes import Put, Unknown, Update

KEY = ("customer", "7")
PLACE: Item = {"pk": {"S": "customer"}, "sk": {"S": "7"}, "city": {"S": "Riga"}}


def unversioned() -> MemoryStore:
    """Return a store with an item that another program made."""
    store = MemoryStore(HOME)
    store.table.set(KEY, PLACE)
    return store


async def test_an_adopted_item_is_guarded_from_then_on() -> None:
    """At version 3 it keeps its content; 3 and older are old, 4 is newer."""
    store = unversioned()
    guard = condition_guard(store)
    with pytest.raises(DamagedItem):
        await guard.put(PLACE, version=4)
    assert await guard.adopt(KEY, version=3) == Adopted(3)
    assert store.table.get(KEY) == {**PLACE, "version": {"N": "3"}}
    assert await guard.put(PLACE, version=3) == Skipped(3, 3)
    assert await guard.put(PLACE, version=4) == Handled(4)


async def test_a_version_is_never_taken_away() -> None:
    """An item that has one, be it a tombstone, keeps it, whether adopted older or newer."""
    store = unversioned()
    guard = condition_guard(store)
    assert await guard.adopt(KEY, version=3) == Adopted(3)
    assert await guard.adopt(KEY, version=3) == Skipped(3, 3)
    assert await guard.adopt(KEY, version=2) == Skipped(2, 3)
    assert await guard.adopt(KEY, version=9) == Skipped(9, 3)
    await guard.delete(KEY, version=5)
    assert await guard.adopt(KEY, version=9) == Skipped(9, 5)
    assert version_of(store.table.get(KEY)) == 5


async def test_mutant_adopted_whatever_is_there_an_older_version_is_handled() -> None:
    """Without the condition, an adoption that comes late lets an old version over a newer one."""
    store = unversioned()
    guard = condition_guard(store)
    await guard.adopt(KEY, version=1)
    await guard.put(PLACE, version=5)
    await store.write(Update(KEY, set={"version": {"N": "1"}}))
    assert await guard.put(PLACE, version=2) == Handled(2)


async def test_what_is_not_there_is_not_adopted() -> None:
    """No item is made where none is, and the outcome says that there is none."""
    store = MemoryStore(HOME)
    assert await condition_guard(store).adopt(KEY, version=3) == Refused({0: None})
    assert store.table.get(KEY) is None


async def test_the_item_that_was_judged_is_the_one_adopted() -> None:
    """With a condition, an item that changed since the caller judged it is left as it is."""
    store = unversioned()
    guard = condition_guard(store)
    seen = Equals("city", PLACE["city"])
    changed = {**PLACE, "city": {"S": "Oslo"}}
    await store.write(Put(changed))
    assert await guard.adopt(KEY, version=3, condition=seen) == Refused({0: changed})
    await store.write(Put(PLACE))
    assert await guard.adopt(KEY, version=3, condition=seen) == Adopted(3)


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_adoption_is_repeated_until_known(fault: Fault) -> None:
    """After an unknown outcome it is tried again, and finds its own version there or puts it."""
    store = FaultyStore(unversioned(), InOrder(fault))
    guard = condition_guard(store)
    assert await guard.adopt(KEY, version=3) == Adopted(3)
    assert await guard.put(PLACE, version=4) == Handled(4)
    while store.in_flight:
        await store.land()
    assert await guard.put(PLACE, version=3) == Skipped(3, 4)


async def test_errors_before_and_after_an_unanswered_adoption() -> None:
    """A store error alone raises; refused or failing after an unanswered try, it stays unknown."""
    down = Fails(Throttled("slow down"))
    with pytest.raises(Throttled):
        await condition_guard(FaultyStore(unversioned(), InOrder(down))).adopt(KEY, version=1)
    failing = FaultyStore(unversioned(), InOrder(NeverArrived(), down))
    assert isinstance(await condition_guard(failing, tries_max=2).adopt(KEY, version=1), Unknown)
    gone = FaultyStore(MemoryStore(HOME), InOrder(NeverArrived()))
    assert isinstance(await condition_guard(gone).adopt(KEY, version=1), Unknown)


async def test_what_is_no_version_is_refused() -> None:
    """The caller's word is a version, and an attribute of that name that is none is damage."""
    store = unversioned()
    guard = condition_guard(store)
    with pytest.raises(InvalidInput, match="version must be"):
        await guard.adopt(KEY, version=-1)
    store.table.set(KEY, {**PLACE, "version": {"S": "3"}})
    with pytest.raises(DamagedItem):
        await guard.adopt(KEY, version=3)
