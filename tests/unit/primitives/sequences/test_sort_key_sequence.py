"""Sequences by sort keys: no gaps, one item a call, whatever is lost or races."""

import pytest
from support.ledgers import HOME, make_services

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, InvalidInput, Throttled, Unreachable
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
from ledger.store.writes import Put

CONTENT: Item = {"title": {"S": "a ticket"}}
PARTITION = "~sequence~project"


def sequence(
    store: Store, *, seed: int = 7, after_race: AfterRace = "query", tries_max: int = 8
) -> SortKeySequence:
    """Return a client of the project's tickets, on a clock whose sleeps are over at once."""
    return SortKeySequence(
        store,
        "project",
        services=make_services(seed=seed),
        options=AppendOptions(after_race=after_race, backoff=Backoff(tries_max=tries_max)),
    )


def faulty(*faults: Fault | None, table: MemoryTable | None = None) -> FaultyStore:
    """Return a store whose calls go wrong in this order."""
    return FaultyStore(MemoryStore(HOME, table), InOrder(*faults))


def with_items(count: int) -> MemoryTable:
    """Return a table in which another client has put so many items."""
    table = MemoryTable()
    for number in range(1, count + 1):
        put_rival(table, number)
    return table


def put_rival(table: MemoryTable, number: int) -> None:
    """Put another client's item."""
    key = sort_key_of(number)
    item = {"pk": {"S": PARTITION}, "sk": {"S": key}, "~token": {"S": "another"}}
    table.set((PARTITION, key), item)


def shown(table: MemoryTable) -> list[int]:
    """Return the numbers of all items."""
    return [int(item["sk"]["S"]) for item in table.items()]


class StaleStore(MemoryStore):
    """A store whose next queries show the table without its last items."""

    def __init__(self, table: MemoryTable, *, hides: list[int]) -> None:
        super().__init__(HOME, table)
        self.hides = hides
        self.queries = 0

    async def query(self, query: Query) -> Page:
        """Read a page as it was a while ago."""
        self.queries += 1
        hidden = self.hides.pop(0) if self.hides else 0
        table = with_items(len(shown(self.table)) - hidden)
        return await MemoryStore(HOME, table).query(query)


async def test_content_is_kept_under_consecutive_numbers() -> None:
    """Items get 1, 2, 3, and are read back by number as they were handed in."""
    store = MemoryStore(HOME)
    client = sequence(store)
    assert [await client.append(CONTENT) for _ in range(3)] == [Numbered(n) for n in (1, 2, 3)]
    assert await client.read(2) == CONTENT
    assert await client.read(4) is None
    assert await client.highest() == 3


async def test_each_project_has_numbers_of_its_own() -> None:
    """Two projects in one table both begin at 1."""
    store = MemoryStore(HOME)
    for project in ("one", "two"):
        client = SortKeySequence(store, project, services=make_services())
        assert await client.append(CONTENT) == Numbered(1)


async def test_the_hundredth_follows_the_ninety_ninth() -> None:
    """The order of sort keys is that of the numbers, across every change of length."""
    table = with_items(99)
    client = sequence(MemoryStore(HOME, table))
    assert [await client.append(CONTENT) for _ in range(2)] == [Numbered(100), Numbered(101)]


@pytest.mark.parametrize(("after_race", "queries"), [("query", 4), ("add_one", 1)])
async def test_a_lost_race_goes_on_either_way(after_race: AfterRace, queries: int) -> None:
    """Three lost races end in the next free number, by three more queries or by none."""
    store = StaleStore(with_items(3), hides=[3, 2, 1])
    assert await sequence(store, after_race=after_race).append(CONTENT) == Numbered(4)
    assert store.queries == queries
    assert shown(store.table) == [1, 2, 3, 4]


async def test_who_is_far_behind_reads_again_after_four_times() -> None:
    """A client that adds one is not left behind for good: the fifth lost race makes it query."""
    store = StaleStore(with_items(20), hides=[20])
    assert await sequence(store, after_race="add_one", tries_max=6).append(CONTENT) == Numbered(21)
    assert store.queries == 2


@pytest.mark.parametrize("after_race", ["query", "add_one"])
@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()])
async def test_an_unanswered_put_is_settled_by_reading(fault: Fault, after_race: AfterRace) -> None:
    """One item, one number and no gap, whether the put was applied, lost, or lands later."""
    store = faulty(None, fault, table=(table := with_items(4)))
    assert await sequence(store, after_race=after_race).append(CONTENT) == Numbered(5)
    while store.in_flight:
        await store.land()
    assert shown(table) == [1, 2, 3, 4, 5]


async def test_a_rivals_item_under_our_number_is_not_ours() -> None:
    """After an unanswered put, another's token under the number means that the race was lost."""
    table = with_items(4)

    def faults(call: FaultCall) -> Fault | None:
        if call.operation == "get":
            put_rival(table, 5)
        return NeverArrived() if call.number == 2 else None

    store = FaultyStore(MemoryStore(HOME, table), faults)
    assert await sequence(store).append(CONTENT) == Numbered(6)
    assert shown(table) == [1, 2, 3, 4, 5, 6]


async def test_a_put_that_may_land_is_never_given_up_for_another_number() -> None:
    """While a put is in flight its number is offered again: giving it up would store it twice."""
    store = faulty(None, Late(), None, Late(), None, table=(table := MemoryTable()))
    outcome = await sequence(store, tries_max=2).append(CONTENT)
    assert isinstance(outcome, MaybeNumbered)
    assert outcome.number == 1
    assert shown(table) == []
    await store.land()
    assert await sequence(store).append(CONTENT, resume=outcome) == Numbered(1)
    await store.land()
    assert shown(table) == [1]


async def test_what_stayed_open_goes_on_where_it_was() -> None:
    """A resumed call whose number was taken by a rival meanwhile gets the next, once."""
    store = faulty(None, NeverArrived(), table=(table := MemoryTable()))
    outcome = await sequence(store, tries_max=1).append(CONTENT)
    assert isinstance(outcome, MaybeNumbered)
    put_rival(table, 1)
    assert await sequence(store, seed=8).append(CONTENT, resume=outcome) == Numbered(2)
    assert shown(table) == [1, 2]


@pytest.mark.parametrize("error", [Throttled("slow down"), Unreachable("no connection")])
async def test_a_store_error_before_anything_is_open_is_raised(error: Exception) -> None:
    """An error of the query, or of the put, raises while nothing of ours can be there."""
    for faults in ([Raises(error)], [None, Raises(error)]):
        table = MemoryTable()
        with pytest.raises(type(error)):
            await sequence(faulty(*faults, table=table)).append(CONTENT)
        assert shown(table) == []


async def test_a_store_error_while_something_is_open_is_no_end() -> None:
    """After an unanswered put, errors are tries: the call goes on, or says what may be there."""
    down = Raises(Unreachable("no connection"))
    store = faulty(None, Lost(), down, down)
    assert await sequence(store).append(CONTENT) == Numbered(1)
    store = faulty(None, Lost(), down, down)
    outcome = await sequence(store, tries_max=2).append(CONTENT)
    assert isinstance(outcome, MaybeNumbered)
    assert "no connection" in outcome.cause


async def test_too_many_lost_races_are_an_answer() -> None:
    """When every try loses, nothing was written, and the caller is told so."""
    store = StaleStore(with_items(3), hides=[3, 3, 3])
    assert await sequence(store, tries_max=3).append(CONTENT) == NotNumbered("contention")
    assert shown(store.table) == [1, 2, 3]


async def test_the_end_is_an_answer() -> None:
    """After 10^38 - 1 the project is exhausted."""
    table = MemoryTable()
    put_rival(table, NUMBER_MAX)
    client = sequence(MemoryStore(HOME, table))
    assert await client.append(CONTENT) == NotNumbered("exhausted")


async def test_a_foreign_item_among_the_numbers_is_damage() -> None:
    """A sort key of another width would break the order, so nothing is numbered after it."""
    table = MemoryTable()
    table.set((PARTITION, "7"), {"pk": {"S": PARTITION}, "sk": {"S": "7"}})
    with pytest.raises(DamagedItem):
        await sequence(MemoryStore(HOME, table)).append(CONTENT)


async def test_items_beside_the_numbers_are_left_alone() -> None:
    """The counter item of the other way, in the same partition, is no number."""
    table = MemoryTable()
    table.set((PARTITION, "counter"), {"pk": {"S": PARTITION}, "sk": {"S": "counter"}})
    assert await sequence(MemoryStore(HOME, table)).append(CONTENT) == Numbered(1)


async def test_content_is_checked_before_anything_is_sent() -> None:
    """Content that names our attributes is refused without a request."""
    store = faulty()
    with pytest.raises(InvalidInput):
        await sequence(store).append({"~token": {"S": "mine"}})
    assert store.calls == 0


async def test_negative_twin_without_a_token_a_lost_answer_stores_twice() -> None:
    """A client that takes a lost answer for a lost race puts its item under two numbers."""
    store = faulty(None, Lost())
    client = sequence(store)
    for _ in range(2):
        number = await client.highest() + 1
        await store.write(Put({"pk": {"S": PARTITION}, "sk": {"S": sort_key_of(number)}}))
    assert len((await store.query(Query(PARTITION))).items) == 2
