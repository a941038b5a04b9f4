"""Slots by the number: a token takes several and gives the same back, in sets of both forms."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import fate_of, known_counter
from support.ledgers import HOME, seeded

from ledger.core.entry import Item
from ledger.core.errors import AmountOverflow, DamagedItem
from ledger.primitives.counters.slot_item import FILLED, SLOTS, SlotSet
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.wrappers.faults import FaultyStore, InOrder, Lost, NeverArrived, Seeded
from ledger.store.writes import Applied, Outcome, Put, Rejected, Unknown, Update, Write
from ledger.testing.clock import ManualClock

KEY = ("~count~0~counter", "slots")


class Between(MemoryStore):
    """A store in which others act before one of its writes."""

    def __init__(self, act: Callable[[MemoryStore], Awaitable[object]], *, before: int = 1) -> None:
        super().__init__(HOME)
        self._act = act
        self._left = before

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, after the others if it is that one."""
        self._left -= 1
        if self._left == 0:
            await self._act(MemoryStore(HOME, self.table))
        return await super().write(write)


async def of_single_slots(store: MemoryStore, *tokens: str) -> None:
    """Take one slot by each token: a set, and nothing else."""
    await store.write(Update(KEY, add={SLOTS: {"SS": list(tokens)}}))


async def shown(store: MemoryStore) -> SlotSet:
    """Return what the item shows."""
    return SlotSet.of(await store.get(Get(KEY)))


async def test_several_slots_are_taken_and_given_back() -> None:
    """A change of k takes k, within the maximum; what is given back is what was taken."""
    counter = known_counter("slots", MemoryStore(HOME), maximum=10)
    assert await counter.add(1, token="ann") == Applied(value=Decimal(1))
    assert await counter.add(6, token="bob") == Applied(value=Decimal(7))
    assert await counter.add(4, token="cid") == Rejected("threshold", "maximum 10")
    assert await counter.add(3, token="cid") == Applied(value=Decimal(10))
    assert await counter.add(1, token="dan") == Rejected("threshold", "maximum 10")
    assert await counter.add(-6, token="bob") == Applied(value=Decimal(4))
    assert await counter.add(-6, token="bob") == Rejected("no such slot")
    assert await counter.add(-1, token="ann") == Applied(value=Decimal(3))
    assert await counter.add(11, token="eve") == Rejected("threshold", "maximum 10")
    assert await counter.value() == 3


@pytest.mark.parametrize(("taken", "wanted"), [(3, 2), (3, 1), (1, 3), (3, -2), (1, -3), (3, -1)])
async def test_another_number_under_a_token_is_a_conflict(taken: int, wanted: int) -> None:
    """A token stands for the number that it took, when it is repeated and when it gives back."""
    counter = known_counter("slots", MemoryStore(HOME))
    await counter.add(taken, token="t")
    assert await counter.add(taken, token="t") == Rejected("applied before")
    outcome = await counter.add(wanted, token="t")
    assert outcome == Rejected(
        "token conflict", f"the token holds {taken} slots, not {abs(wanted)}"
    )
    assert await counter.value() == taken


async def test_sets_of_an_earlier_release_go_on() -> None:
    """As long as each token takes one, the item stays as it was made, for both releases."""
    store = MemoryStore(HOME)
    await of_single_slots(store, "a", "b")
    counter = known_counter("slots", store, maximum=3)
    assert await counter.value() == 2
    assert await counter.add(1, token="a") == Rejected("applied before")
    assert await counter.add(1, token="c") == Applied(value=Decimal(3))
    assert await counter.add(1, token="d") == Rejected("threshold", "maximum 3")
    assert await counter.add(-1, token="b") == Applied(value=Decimal(2))
    assert FILLED not in (await store.get(Get(KEY)) or {})


async def test_a_set_of_an_earlier_release_is_counted_once() -> None:
    """The first token that takes several makes it counted, with all who were there."""
    store = MemoryStore(HOME)
    await of_single_slots(store, "a", "b")
    counter = known_counter("slots", store, maximum=6)
    assert await counter.add(5, token="c") == Rejected("threshold", "maximum 6")
    assert await counter.add(3, token="a") == Rejected(
        "token conflict", "the token holds 1 slots, not 3"
    )
    assert await counter.add(3, token="c") == Applied(value=Decimal(5))
    assert await shown(store) == SlotSet(frozenset("ab"), {"c": Decimal(3)}, Decimal(5))
    assert await counter.add(-1, token="a") == Applied(value=Decimal(4))
    assert await known_counter("slots", store, maximum=6).add(2, token="d") == Applied(
        value=Decimal(6)
    )


RACES: dict[str, tuple[int, Callable[[MemoryStore], Awaitable[object]], Outcome, int]] = {
    "another comes": (
        3,
        lambda store: known_counter("slots", store).add(1, token="x"),
        Applied(value=Decimal(6)),
        6,
    ),
    "one leaves": (
        3,
        lambda store: known_counter("slots", store).add(-1, token="a"),
        Applied(value=Decimal(4)),
        4,
    ),
    "another counts": (
        3,
        lambda store: known_counter("slots", store).add(2, token="x"),
        Applied(value=Decimal(7)),
        7,
    ),
    "the room is gone": (
        3,
        lambda store: known_counter("slots", store).add(4, token="x"),
        Rejected("threshold", "maximum 8"),
        6,
    ),
    "the same token": (
        3,
        lambda store: known_counter("slots", store).add(3, token="t"),
        Rejected("applied before"),
        5,
    ),
    "the same token, one slot": (
        3,
        lambda store: known_counter("slots", store).add(1, token="t"),
        Rejected("token conflict", "the token holds 1 slots, not 3"),
        3,
    ),
    "one slot, while another counts": (
        1,
        lambda store: known_counter("slots", store).add(4, token="x"),
        Applied(value=Decimal(7)),
        7,
    ),
    "one slot, the last one gone": (
        1,
        lambda store: known_counter("slots", store).add(6, token="x"),
        Rejected("threshold", "maximum 8"),
        8,
    ),
}


@pytest.mark.parametrize("race", RACES)
async def test_a_set_is_counted_under_races(race: str) -> None:
    """Whatever others do between the look and the write, every slot is counted once."""
    size, act, expected, value = RACES[race]
    store = Between(act)
    await of_single_slots(MemoryStore(HOME, store.table), "a", "b")
    counter = known_counter("slots", store, maximum=8)
    assert await counter.add(size, token="t") == expected
    assert await counter.value() == value
    found = await shown(store)
    assert found.filled == len(found.singles) + sum(found.holders.values())


async def test_giving_back_under_races() -> None:
    """A token given back meanwhile and taken again with another number keeps what it has now."""

    async def swap(store: MemoryStore) -> None:
        other = known_counter("slots", store)
        await other.add(-1, token="a")
        await other.add(5, token="a")

    async def count(store: MemoryStore) -> None:
        await known_counter("slots", store).add(5, token="x")

    for act, expected, value in (
        (swap, Rejected("token conflict", "the token holds 5 slots, not 1"), 5),
        (count, Applied(value=Decimal(5)), 5),
    ):
        store = Between(act)
        await of_single_slots(MemoryStore(HOME, store.table), "a")
        assert await known_counter("slots", store).add(-1, token="a") == expected
        assert await known_counter("slots", store).value() == value


@pytest.mark.parametrize("size", [1, 3])
async def test_a_lost_answer_of_several(size: int) -> None:
    """A repeat that meets its own token has its slots."""
    inner, looks = MemoryStore(HOME), [None] * (size != 1)
    store = FaultyStore(inner, InOrder(*looks, Lost()), clock=ManualClock(instant=True))
    counter = known_counter("slots", store, maximum=3)
    assert isinstance(await counter.add(size, token="t"), Applied)
    assert await known_counter("slots", inner).value() == size


@pytest.mark.parametrize(("counted", "expected"), [(True, Unknown), (False, Rejected)])
async def test_what_was_sent_for_a_plain_set_is_void_once_it_is_counted(
    counted: bool,  # noqa: FBT001 (by table)
    expected: type[Outcome],
) -> None:
    """A try without an answer may land later, unless it was for the form that is no more."""

    async def fill(store: MemoryStore) -> None:
        await known_counter("slots", store).add(3, token="x")

    inner = Between(fill)
    other = known_counter("slots", MemoryStore(HOME, inner.table))
    if counted:
        await other.add(2, token="a")
    await other.add(1, token="b")
    store = FaultyStore(inner, InOrder(None, NeverArrived()), clock=ManualClock(instant=True))
    counter = known_counter("slots", store, maximum=6)
    assert isinstance(await counter.add(3, token="t"), expected)


async def test_a_token_that_took_the_place_of_another_is_not_counted_twice() -> None:
    """As many members as were seen, but one of them is the token itself: it holds its one slot."""

    async def trade(store: MemoryStore) -> None:
        other = known_counter("slots", store)
        await other.add(-1, token="a")
        await other.add(1, token="t")

    inner = Between(trade)
    await of_single_slots(MemoryStore(HOME, inner.table), "a")
    outcome = await known_counter("slots", inner).add(3, token="t")
    assert outcome == Rejected("token conflict", "the token holds 1 slots, not 3")
    assert await shown(inner) == SlotSet(frozenset({"t"}))


async def test_numbers_too_large_are_errors() -> None:
    """What 38 digits cannot hold is refused, and nothing is written."""
    counter = known_counter("slots", MemoryStore(HOME))
    most = 10**38 - 1
    await counter.add(most, token="t")
    with pytest.raises(AmountOverflow):
        await counter.add(2, token="u")
    assert await counter.value() == most


async def test_a_damaged_number_is_an_error() -> None:
    """An item whose number is none is reported with its key."""
    store = MemoryStore(HOME)
    item: Item = {"pk": {"S": KEY[0]}, "sk": {"S": KEY[1]}, FILLED: {"S": "two"}}
    await store.write(Put(item))
    with pytest.raises(DamagedItem, match="filled must be a number"):
        await known_counter("slots", store).value()


@given(seed=st.integers(0, 10**6), share=st.sampled_from((0.0, 0.3, 0.6)))
def test_every_slot_is_held_by_a_token(seed: int, share: float) -> None:
    """Several processes under faults: the number taken is what tokens hold, and never too much."""

    async def run() -> None:
        inner, chance = MemoryStore(HOME), seeded(seed)
        await of_single_slots(inner, "t0", "old")
        faulty = FaultyStore(inner, Seeded(seed, share=share), clock=ManualClock(instant=True))
        counters: list[Any] = [
            known_counter("slots", faulty, randomness=seeded(seed + place), maximum=9)
            for place in range(3)
        ]
        for _ in range(14):
            token, change = f"t{chance.randrange(4)}", chance.choice((1, 1, 2, 4, -1, -2, -4))
            fate = await fate_of(chance.choice(counters).add(change, token=token))
            found = await shown(inner)
            assert found.filled == len(found.singles) + sum(found.holders.values()) <= 9
            if isinstance(fate, Applied) and not faulty.in_flight:
                assert found.held(token) == max(0, change)
        while faulty.in_flight:
            await fate_of(faulty.land())  # type: ignore[arg-type]
            found = await shown(inner)
            assert found.filled == len(found.singles) + sum(found.holders.values()) <= 9

    anyio.run(run)
