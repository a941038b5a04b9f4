"""Several contents under consecutive numbers: all of them, or none."""

import pytest
from support.ledgers import HOME, make_services

from ledger.core.entry import Item
from ledger.core.errors import InvalidInput
from ledger.primitives.sequences import (
    NUMBER_MAX,
    AfterRace,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    SortKeySequence,
    sort_key_of,
)
from ledger.primitives.sequences.sort_key_sequence import AppendOptions
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Page, Query
from ledger.store.retry import Backoff
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Late, Lost, NeverArrived
from ledger.testing.clock import ManualClock

PARTITION = "~sequence~project"
THREE: list[Item] = [{"line": {"N": str(line)}} for line in range(3)]


def sequence(
    store: Store, *, seed: int = 7, after_race: AfterRace = "query", tries_max: int = 8
) -> SortKeySequence:
    """Return a client of the project's items."""
    return SortKeySequence(
        store,
        "project",
        services=make_services(seed=seed),
        options=AppendOptions(after_race=after_race, backoff=Backoff(tries_max=tries_max)),
    )


def put_rival(table: MemoryTable, number: int) -> None:
    """Put another client's item."""
    key = sort_key_of(number)
    item = {"pk": {"S": PARTITION}, "sk": {"S": key}, "~token": {"S": "another"}}
    table.set((PARTITION, key), item)


class RacingStore(MemoryStore):
    """A store in which a rival puts items after each of the first queries."""

    def __init__(self, *, rivals: list[int]) -> None:
        super().__init__(HOME)
        self.rivals = rivals

    async def query(self, query: Query) -> Page:
        """Read, and let the rival be faster."""
        page = await super().query(query)
        if self.rivals:
            put_rival(self.table, self.rivals.pop(0))
        return page


async def test_contents_lie_under_consecutive_numbers() -> None:
    """They are read back in their order, and the next call goes on behind them."""
    client = sequence(MemoryStore(HOME))
    first = await client.append_many(THREE)
    assert first == Numbered(1, 3)
    assert isinstance(first, Numbered)
    assert [await client.read(number) for number in first.numbers] == THREE
    assert await client.append(THREE[0]) == Numbered(4)


@pytest.mark.parametrize("after_race", ["query", "add_one"])
async def test_a_lost_race_moves_all_of_them(after_race: AfterRace) -> None:
    """Where the first number is taken none is put there; all go behind."""
    store = RacingStore(rivals=[1, 2])
    outcome = await sequence(store, after_race=after_race).append_many(THREE)
    rivals = 2 if after_race == "query" else 1
    assert outcome == Numbered(rivals + 1, 3)
    assert len(store.table.partitions[PARTITION]) == rivals + 3


async def test_a_number_taken_behind_the_first_is_a_lost_race_too() -> None:
    """None of the items is put where one of their numbers is another's."""
    store = RacingStore(rivals=[3])
    assert await sequence(store).append_many(THREE) == Numbered(4, 3)
    assert sorted(map(int, store.table.partitions[PARTITION])) == [3, 4, 5, 6]


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_transaction_puts_them_once(fault: Fault) -> None:
    """Three items under three numbers, whatever became of the first try."""
    store = FaultyStore(MemoryStore(HOME, table := MemoryTable()), InOrder(None, fault))
    assert await sequence(store).append_many(THREE) == Numbered(1, 3)
    while store.in_flight:
        await store.land()
    assert len(table.partitions[PARTITION]) == 3


async def test_what_stayed_open_is_resumed_as_a_whole() -> None:
    """`MaybeNumbered` says how many it is about, and goes on with all of them."""
    store = FaultyStore(MemoryStore(HOME, table := MemoryTable()), InOrder(None, Late()))
    outcome = await sequence(store, tries_max=1).append_many(THREE)
    assert isinstance(outcome, MaybeNumbered)
    assert (outcome.number, outcome.count, outcome.is_callers) == (1, 3, False)
    await store.land()
    assert await sequence(store, seed=8).append_many(THREE, resume=outcome) == Numbered(1, 3)
    assert len(table.partitions[PARTITION]) == 3


async def test_the_end_is_an_answer_to_all() -> None:
    """Where fewer numbers are left than contents nothing is put, and one more fits."""
    table = MemoryTable()
    put_rival(table, NUMBER_MAX - 2)
    client = sequence(MemoryStore(HOME, table))
    assert await client.append_many(THREE) == NotNumbered("exhausted")
    assert await client.append_many(THREE[:2]) == Numbered(NUMBER_MAX - 1, 2)


@pytest.mark.parametrize("added_max", [0, 65, True, 1.0, None])
def test_how_often_one_is_added_has_bounds(added_max: object) -> None:
    """A bound that is none is refused when the sequence is made."""
    with pytest.raises(InvalidInput, match="added_max must be a whole number from 1 to 64"):
        SortKeySequence(
            MemoryStore(HOME),
            "project",
            services=make_services(ManualClock()),
            options=AppendOptions(added_max=added_max),  # type: ignore[arg-type]
        )
