from decimal import Decimal

import pytest
from support.counting import known_counter

from ledger.core.errors import InvalidAmount, InvalidEntry, InvalidInput, RequestRefused
from ledger.primitives.counters.slots import SLOTS
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.store.writes import Applied, Rejected, Unknown, Update
from ledger.testing.clock import ManualClock


async def test_slots_are_taken_and_given_back() -> None:
    """Each token holds a slot once; a full set takes no other, a slot given back is free."""
    counter = known_counter("slots", MemoryStore("us-east-1"), maximum=2)
    assert await counter.add(1, token="ann") == Applied(value=Decimal(1))
    assert await counter.add(1, token="ann") == Rejected("applied before")
    assert await counter.add(1, token="bob") == Applied(value=Decimal(2))
    assert await counter.add(1, token="ann") == Rejected("applied before")
    assert await counter.add(1, token="cid") == Rejected("threshold", "maximum 2")
    assert await counter.add(-1, token="ann") == Applied(value=Decimal(1))
    assert await counter.add(-1, token="ann") == Rejected("no such slot")
    assert await counter.add(1, token="cid") == Applied(value=Decimal(2))
    assert await counter.value() == 2


async def test_slots_are_whole_and_what_is_given_back_is_named() -> None:
    """A change is a whole number of slots, and who gives back has to say what."""
    counter = known_counter("slots", MemoryStore("us-east-1"))
    for change in (0, Decimal("0.5"), Decimal("-1.5")):
        with pytest.raises(InvalidAmount, match="whole number"):
            await counter.add(change, token="t")
    with pytest.raises(InvalidEntry, match="token"):
        await counter.add(-1)
    with pytest.raises(InvalidInput, match="minimum"):
        known_counter("slots", MemoryStore("us-east-1"), minimum=-1)


async def test_the_size_of_an_item_is_told_by_its_rule() -> None:
    """At 400 KB a set is full, whatever its maximum, and the rejection names the rule."""
    store = MemoryStore("us-east-1")
    counter = known_counter("slots", store, maximum=10**6)
    many = [f"{number:01000d}" for number in range(409)]
    await store.write(Update(counter.key(0), add={SLOTS: {"SS": many}}))
    outcome = await counter.add(1, token="x" * 1000)
    assert isinstance(outcome, Rejected)
    assert outcome.reason == "size"
    assert "409,600 (400 KB)" in outcome.detail
    assert "409 slots are taken by 409 tokens" in outcome.detail
    assert isinstance(await counter.add(1, token="short"), Applied)


async def test_another_refusal_is_an_error() -> None:
    """What DynamoDB refuses for another reason is not taken for a full set."""
    refused = Raises(RequestRefused("no"))
    store = FaultyStore(MemoryStore("us-east-1"), InOrder(refused), clock=ManualClock(instant=True))
    with pytest.raises(RequestRefused, match="no"):
        await known_counter("slots", store).add(1)


@pytest.mark.parametrize("maximum", [0, Decimal("0.9")])
async def test_a_maximum_below_one_holds_nothing(maximum: Decimal) -> None:
    """Not even the first token, when there is no set yet."""
    counter = known_counter("slots", MemoryStore("us-east-1"), maximum=maximum)
    assert isinstance(await counter.add(1), Rejected)


async def test_a_lost_answer_is_read_from_the_set() -> None:
    """A repeat that meets its own token has its slot; one that meets a full set knows nothing."""
    inner = MemoryStore("us-east-1")
    store = FaultyStore(inner, InOrder(Lost()), clock=ManualClock(instant=True))
    assert await known_counter("slots", store, maximum=1).add(1, token="ann") == Applied()
    store = FaultyStore(inner, InOrder(NeverArrived()), clock=ManualClock(instant=True))
    outcome = await known_counter("slots", store, maximum=1).add(1, token="bob")
    assert isinstance(outcome, Unknown)
    assert outcome.token == "bob"


async def test_a_lost_give_back_is_known_by_the_look_before() -> None:
    """Lost or never arrived, the slot is free afterwards, and the change counted once."""
    for fault in (Lost(), NeverArrived()):
        inner = MemoryStore("us-east-1")
        await known_counter("slots", inner).add(1, token="ann")
        store = FaultyStore(inner, InOrder(None, fault), clock=ManualClock(instant=True))
        outcome = await known_counter("slots", store).add(-1, token="ann")
        assert isinstance(outcome, Applied)
        assert await known_counter("slots", inner).value() == 0


async def test_what_was_never_held_is_not_given_back_by_a_repeat() -> None:
    """Without the look before, a repeat that finds no such token would take it for its own work."""
    store = FaultyStore(MemoryStore("us-east-1"), _lost, clock=ManualClock(instant=True))
    assert await known_counter("slots", store).add(-1, token="ann") == Rejected("no such slot")


def _lost(call: FaultCall) -> Fault | None:
    return NeverArrived() if call.operation == "write" and call.number < 3 else None


async def test_a_late_take_comes_after_the_slot_was_given_back() -> None:
    """What the method cannot see: a token given back while its own take is still under way."""
    inner = MemoryStore("us-east-1")
    store = FaultyStore(inner, InOrder(Late()), clock=ManualClock(instant=True))
    counter = known_counter("slots", store)
    await counter.add(1, token="ann")
    await counter.add(-1, token="ann")
    await store.land()
    assert await counter.value() == 1
