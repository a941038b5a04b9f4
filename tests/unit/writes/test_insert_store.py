"""A strict writer puts entries by statements alone, and keeps every promise of writing."""

from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import count

import anyio
import pytest
from support.combined import combined
from support.ledgers import HOME, changes, make_ledger, make_writer
from support.sharing import sharing

from ledger.core.entry import Item, entry_item
from ledger.core.errors import (
    AccessDenied,
    KeyConflict,
    OutcomeUnknown,
    RequestRefused,
    StoreError,
    TokenReused,
    Unreachable,
)
from ledger.runtime.metrics import Metrics
from ledger.session.ledger import Ledger
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.reads import Get
from ledger.store.wrappers.faults import (
    FaultCall,
    FaultyStore,
    InOrder,
    Lost,
    NeverArrived,
    Partial,
    Raises,
    Seeded,
)
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import (
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Delete,
    EachOutcome,
    Outcome,
    Put,
    Write,
    is_statement,
)
from ledger.testing.clock import START, ManualClock
from ledger.writes.entry_plan import Change
from ledger.writes.insert_store import InsertStore

STRICT = {"strict": True}


class StrictStore(MemoryStore):
    """A store whose policy allows INSERT statements, and hints, and no other write."""

    def __init__(self, table: MemoryTable | None = None) -> None:
        super().__init__(HOME, table)
        self.looks = 0

    async def write(self, write: Write) -> Outcome:
        """Do one write that is a statement."""
        self._check([write])
        return await super().write(write)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do writes that are statements."""
        self._check(writes)
        return await super().write_each(writes)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction of statements."""
        self._check(actions)
        return await super().transact(actions, token=token)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Take hints alone."""
        if not all(write.key[0].startswith("~hint-") for write in writes):
            raise AccessDenied("BatchWriteItem")
        return await super().write_batch(writes)

    async def get(self, get: Get) -> Item | None:
        """Read an item."""
        self.looks += 1
        return await super().get(get)

    @staticmethod
    def _check(actions: Sequence[Action]) -> None:
        if not all(map(is_statement, actions)):
            raise AccessDenied("PutItem")


def strict_ledger(table: MemoryTable) -> Ledger:
    """Return a ledger of a strict writer, on a store that denies all else."""
    return make_ledger(StrictStore(table), writer=STRICT, compactor={"hint_every": 1})


async def test_every_way_of_recording_is_by_statements() -> None:
    """Alone, many at once, together, shared and with keys: nothing is denied, each is there."""
    table = MemoryTable()
    keyed = [Change("c", 1, key=f"k{number}", at=START) for number in range(30)]
    async with strict_ledger(table) as ledger:
        await ledger.record("c", 3, note="it's a refund")
        await ledger.record_many([("c", number) for number in range(60)])
        await ledger.record_many(keyed)
        await ledger.record_together([("c", -5), ("d", 5)])
        async with anyio.create_task_group() as calls:
            for number in range(40):
                calls.start_soon(ledger.record, "e", number)
        assert (await ledger.total("c", max_age=0)).value == 3 + sum(range(60)) + 30 - 5
        assert (await ledger.total("e", max_age=0)).value == sum(range(40))


async def test_a_repeat_of_a_key_is_found_by_a_look() -> None:
    """What is in the way is read: the same change is a success, another one a conflict."""
    store = StrictStore()
    writer = make_writer(store, writer=STRICT)
    first = await writer.record(Change("c", 1, key="k", at=START))
    assert await writer.record(Change("c", 1, key="k", at=START)) == first
    with pytest.raises(KeyConflict):
        await writer.record(Change("c", 2, key="k", at=START))
    assert changes(store.table, "c") == [Decimal(1)]
    assert store.looks == 2


async def test_a_transfer_that_was_written_before_is_not_written_again() -> None:
    """A repeat of a transaction, of which all is there, reads that, and changes nothing."""
    store = StrictStore()
    writer = make_writer(store, writer=STRICT)
    both = [Change(name, 1, key="k", at=START) for name in "cd"]
    first = await writer.record_together(both)
    assert await writer.record_together(both) == first
    assert [changes(store.table, name) for name in "cd"] == [[Decimal(1)]] * 2


@pytest.mark.parametrize("seed", range(12))
async def test_nothing_counts_twice_whatever_fails(seed: int) -> None:
    """Under lost, late and partial answers what was reported is there once, and nothing else is."""
    table, number = MemoryTable(), count(1)
    faulty = FaultyStore(StrictStore(table), Seeded(seed), clock=ManualClock(instant=True))
    reported, asked = list[Decimal](), list[Decimal]()

    async def record() -> None:
        amount = Decimal(next(number))
        asked.append(amount)
        with suppress(StoreError, OutcomeUnknown):
            reported.append((await writer.record(Change("c", amount))).change)

    async with sharing(faulty, writer=STRICT) as writer:
        async with anyio.create_task_group() as calls:
            for _ in range(120):
                calls.start_soon(record)
        amounts = [Decimal(next(number)) for _ in range(60)]
        asked += amounts
        with suppress(StoreError, OutcomeUnknown):
            await writer.record_many([Change("c", amount) for amount in amounts])
            reported += amounts
    while faulty.in_flight:
        await faulty.land()
    there = changes(table, "c")
    assert len(there) == len(set(there))
    assert set(reported) <= set(there) <= set(asked)
    assert reported


async def test_an_entry_that_an_earlier_try_put_is_durable() -> None:
    """Where the answer to a batch was lost, its repeat finds the entries, and says so of each."""
    store = StrictStore()
    faulty = FaultyStore(store, InOrder(Lost()))
    writer = make_writer(faulty, writer=STRICT)
    await writer.record_many([Change("c", 1)] * 3)
    assert changes(store.table, "c") == [Decimal(1)] * 3
    assert store.looks == 3


def put(name: str, change: int = 1) -> Put:
    """Return an unconditional put of an entry, as batches have them."""
    return Put({"pk": {"S": "c"}, "sk": {"S": name}, "change": {"N": str(change)}})


async def test_a_batch_tells_what_became_of_each() -> None:
    """What is unprocessed, unknown, or has another item in its way is told apart by its place."""
    store = StrictStore()
    store.table.set(("c", "0"), put("0", 7).item)
    store.table.set(("c", "1"), {"pk": {"S": "c"}, "sk": {"S": "1"}})
    store.table.set(("c", "2"), {**put("2").item, "change": {"N": "1.0"}})
    fault = Partial(unprocessed=(3,), lost=(4,), never_arrived=(5,))
    inserting = InsertStore(FaultyStore(store, InOrder(fault)))
    outcome = await inserting.write_batch([put(str(number)) for number in range(7)])
    assert (outcome.unprocessed, outcome.unknown) == ((3,), (0, 1, 4, 5))
    assert outcome.cause == "another change exists under its key"
    assert sorted(item["sk"]["S"] for item in store.table.items()) == [*"01246"]


async def test_of_an_item_that_changes_share_each_is_compared() -> None:
    """A repeat finds it as it was put; other changes of the same sum are in its way."""
    store = StrictStore()
    mine = Put(entry_item(combined(START, 5, -1, 8)))
    for _ in range(2):
        assert await InsertStore(store).write_batch([mine]) == BatchOutcome()
    assert store.table.get(mine.key) == mine.item
    other = Put(entry_item(combined(START, 5, -2, 9)))
    outcome = await InsertStore(store).write_batch([other])
    assert (outcome.unknown, outcome.cause) == ((0,), "another change exists under its key")


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (NeverArrived(), "an item existed under its key and is gone"),
        (Raises(Unreachable("away")), "an item exists under its key and could not be read: away"),
    ],
)
async def test_a_look_that_shows_nothing_leaves_it_unknown(
    fault: NeverArrived | Raises, cause: str
) -> None:
    """An item that was in the way and cannot be seen says nothing about the entry."""
    store = StrictStore()
    store.table.set(("c", "0"), put("0").item)

    def decide(call: FaultCall) -> NeverArrived | Raises | None:
        if call.operation == "get" and isinstance(fault, NeverArrived):
            store.table.set(("c", "0"), None)
            return None
        return fault if call.operation == "get" else None

    outcome = await InsertStore(FaultyStore(store, decide)).write_batch([put("0")])
    assert (outcome.unknown, outcome.cause) == ((0,), cause)


async def test_what_is_denied_is_never_sent_in_another_way() -> None:
    """A batch that the policy denies is an error, and so is a delete."""
    denied = FaultyStore(StrictStore(), lambda _: Raises(AccessDenied("no")))
    with pytest.raises(AccessDenied):
        await InsertStore(denied).write_batch([put("0")])
    every = FaultyStore(StrictStore(), InOrder(Partial(unprocessed=(0, 1))))
    with pytest.raises(StoreError):
        await InsertStore(every).write_batch([put("0"), put("1")])
    with pytest.raises(RequestRefused):
        await InsertStore(StrictStore()).write_batch([Delete(("c", "0"))])


async def test_statements_cost_the_write_units_of_puts() -> None:
    """Shared, alone and together, a strict writer's units are a plain one's."""
    units = []
    for writer in (STRICT, {}):
        metrics = Metrics(None)
        store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=ManualClock())
        made = make_writer(store, writer=writer)
        await made.record_many([Change("c", 1, note="x" * 2000)] * 30)
        await made.record(Change("c", 1))
        await made.record_together([Change("c", 1), Change("d", 1)])
        spent = [
            sample.value
            for family in metrics.consumed_units.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        ]
        units.append(sum(spent))
    assert units == [30 * 3 + 1 + 2 * 2] * 2


async def test_a_transaction_keeps_its_token() -> None:
    """By which a repeat is told from another transaction."""
    store = InsertStore(StrictStore())
    first, other = (
        [Put({"pk": {"S": "c"}, "sk": {"S": key}, "change": {"N": "1"}}, Absent())] for key in "ab"
    )
    for _ in range(2):
        assert await store.transact(first, token="one") == Applied()
    with pytest.raises(TokenReused):
        await store.transact(other, token="one")
