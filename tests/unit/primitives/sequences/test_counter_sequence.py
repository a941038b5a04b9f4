"""Sequences by a counter item: numbers once, gaps where they are said to be."""

import anyio
import pytest
from support.ledgers import HOME, make_services
from support.numbering import LossCounter

from ledger.core.errors import DamagedItem, InvalidInput, Throttled
from ledger.primitives.sequences import (
    NUMBER_MAX,
    CounterSequence,
    NotNumbered,
    Numbered,
    sort_key_of,
)
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.retry import Backoff
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

KEY = ("~sequence~orders", "counter")


def sequence(store: Store, *, block: int = 1, tries_max: int = 8) -> CounterSequence:
    """Return a client of the orders' sequence, on a clock whose sleeps are over at once."""
    return CounterSequence(
        store, "orders", services=make_services(), block=block, backoff=Backoff(tries_max=tries_max)
    )


def faulty(*faults: Fault | None, table: MemoryTable | None = None) -> FaultyStore:
    """Return a store whose calls go wrong in this order."""
    return FaultyStore(MemoryStore(HOME, table), InOrder(*faults))


def at(number: int) -> MemoryStore:
    """Return a store whose sequence has given out this number."""
    store = MemoryStore(HOME)
    place = {"pk": {"S": KEY[0]}, "sk": {"S": KEY[1]}}
    store.table.set(KEY, {**place, "number": {"N": str(number)}})
    return store


async def numbers(client: CounterSequence, count: int) -> list[int]:
    """Take so many numbers."""
    taken = [await client.next() for _ in range(count)]
    assert all(isinstance(one, Numbered) for one in taken)
    return [numbered.number for numbered in taken if isinstance(numbered, Numbered)]


async def test_numbers_begin_at_one_and_grow_by_one() -> None:
    """The first client of a new sequence gets 1, 2, 3, and the item shows the last."""
    store = MemoryStore(HOME)
    assert await numbers(sequence(store), 3) == [1, 2, 3]
    assert store.table.get(KEY) == {
        "pk": {"S": "~sequence~orders"},
        "sk": {"S": "counter"},
        "number": {"N": "3"},
    }


async def test_many_sequences_live_in_one_table() -> None:
    """Each name counts for itself, in a partition of its own."""
    store = MemoryStore(HOME)
    for name in ("invoices", "orders", "invoices"):
        client = CounterSequence(store, name, services=make_services())
        last = await client.next()
    assert last == Numbered(2)
    assert sorted(store.table.partitions) == ["~sequence~invoices", "~sequence~orders"]


async def test_a_client_that_dies_between_its_two_steps_leaves_a_gap() -> None:
    """A number taken and never used is missing among the items, and no one gets it again."""
    store = MemoryStore(HOME)

    async def order(client: CounterSequence, *, dies: bool = False) -> None:
        (number,) = await numbers(client, 1)
        if not dies:
            place = {"pk": {"S": "order"}, "sk": {"S": sort_key_of(number)}}
            await store.write(Put(place))

    await order(sequence(store))
    await order(sequence(store), dies=True)
    await order(sequence(store))
    assert [int(item["sk"]["S"]) for item in (await store.query(Query("order"))).items] == [1, 3]


@pytest.mark.parametrize(("fault", "number"), [(Lost(), 2), (NeverArrived(), 1), (Late(), 1)])
async def test_an_unanswered_write_costs_at_worst_its_number(fault: Fault, number: int) -> None:
    """An unanswered write is repeated: a gap if it was applied, never a number twice."""
    losses = LossCounter(faulty(fault))
    client = sequence(losses)
    assert await client.next() == Numbered(number)
    assert losses.unanswered == 1


async def test_a_write_that_lands_late_takes_a_number_from_nobody() -> None:
    """The number of a request in flight is a gap; those given before and after it stand."""
    store = faulty(Late())
    losses = LossCounter(store)
    client = sequence(losses)
    before = await numbers(client, 2)
    await store.land()
    assert before + await numbers(client, 2) == [1, 2, 4, 5]
    assert losses.unanswered == 1


async def test_without_any_answer_the_outcome_is_unknown() -> None:
    """When every try stays unanswered nothing is handed out, and all tries may be gaps."""
    losses = LossCounter(faulty(Lost(), Lost(), Lost()))
    client = sequence(losses, tries_max=3)
    assert isinstance(await client.next(), Unknown)
    assert losses.unanswered == 3
    assert await client.next() == Numbered(4)


async def test_a_store_error_takes_no_number() -> None:
    """A write that the store knows not to be applied raises, and leaves no gap."""
    losses = LossCounter(faulty(Raises(Throttled("slow down"))))
    client = sequence(losses)
    with pytest.raises(Throttled):
        await client.next()
    assert losses.unanswered == 0
    assert await client.next() == Numbered(1)


async def test_a_store_error_after_an_unanswered_try_is_no_answer() -> None:
    """What follows an unanswered try with errors stays unknown: the try may have its number."""
    losses = LossCounter(faulty(Lost(), Raises(Throttled("slow down"))))
    client = sequence(losses, tries_max=2)
    assert isinstance(await client.next(), Unknown)
    assert losses.unanswered == 1


async def test_a_block_is_one_write() -> None:
    """A hundred numbers leased ahead take one write; the hundred and first takes the next."""
    store = faulty()
    losses = LossCounter(store, block=100)
    client = sequence(losses, block=100)
    assert await numbers(client, 100) == list(range(1, 101))
    assert (store.calls, losses.taken) == (1, 100)
    assert await client.next() == Numbered(101)
    assert (store.calls, losses.taken) == (2, 200)


async def test_clients_with_blocks_interleave() -> None:
    """Numbers of two clients are never the same, and not in the order of time."""
    table = MemoryTable()
    one, two = (sequence(MemoryStore(HOME, table), block=10) for _ in range(2))
    assert await numbers(one, 1) + await numbers(two, 1) + await numbers(one, 1) == [1, 11, 2]


async def test_the_gaps_of_blocks_are_those_that_are_stated() -> None:
    """A crash leaves what was leased, an unanswered write at most a block, and no more."""
    store = faulty(None, Lost())
    of_crashed, of_other = (LossCounter(store, block=10) for _ in range(2))
    crashed, other = sequence(of_crashed, block=10), sequence(of_other, block=10)
    used = await numbers(crashed, 3)
    used += await numbers(other, 10)
    missing = set(range(1, max(used) + 1)) - set(used)
    assert (of_crashed.taken - 3, of_other.unanswered) == (7, 10)
    assert len(missing) == of_crashed.taken - 3 + of_other.unanswered


async def test_tasks_of_one_client_share_its_block() -> None:
    """Tasks that ask at once get different numbers out of one lease."""
    store = faulty()
    client = sequence(store, block=50)
    taken: list[int] = []

    async def work() -> None:
        taken.extend(await numbers(client, 1))

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(work)
    assert sorted(taken) == list(range(1, 51))
    assert store.calls == 1


@pytest.mark.parametrize(("last", "block"), [(NUMBER_MAX, 1), (NUMBER_MAX - 9, 10)])
async def test_the_end_is_an_answer(last: int, block: int) -> None:
    """Where no block is left before 39 digits the sequence is exhausted, and nothing is written."""
    store = at(last)
    assert await sequence(store, block=block).next() == NotNumbered("exhausted")
    assert store.table.get(KEY) == at(last).table.get(KEY)


async def test_the_last_number_is_given() -> None:
    """10^38 - 1 is a number like any other."""
    assert await sequence(at(NUMBER_MAX - 1)).next() == Numbered(NUMBER_MAX)


async def test_a_damaged_counter_is_said_to_be() -> None:
    """A counter item whose number is a text is damage, not the end of the sequence."""
    store = at(1)
    store.table.set(KEY, {"pk": {"S": KEY[0]}, "sk": {"S": KEY[1]}, "number": {"S": "1"}})
    with pytest.raises(DamagedItem):
        await sequence(store).next()


@pytest.mark.parametrize("block", [0, -1, 1_000_001])
def test_a_block_has_bounds(block: int) -> None:
    """A block of none, or over a million, is refused."""
    with pytest.raises(InvalidInput, match="block"):
        sequence(MemoryStore(HOME), block=block)
