"""The faulty store does what each kind of fault says, so that tests which rest on it hold."""

import pytest
from support.ledgers import HOME

from ledger.core.errors import Throttled, Unreachable
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get, Query, Scan
from ledger.store.wrappers.faults import (
    Decide,
    Fault,
    FaultCall,
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Partial,
    Raises,
    Seeded,
    Slow,
)
from ledger.store.wrappers.forwarder import Operation
from ledger.store.writes import Applied, BatchOutcome, Put, Rejected, Unknown
from ledger.testing.clock import ManualClock


def put(name: str) -> Put:
    """Return a put of an item that is not there yet."""
    return Put({"pk": {"S": "c"}, "sk": {"S": name}, "change": {"N": "1"}}, Absent())


def faulty(*faults: Fault | None) -> tuple[FaultyStore, MemoryStore, ManualClock]:
    """Return a store whose calls go wrong in this order, the one behind, and its clock."""
    inner, clock = MemoryStore(HOME), ManualClock(instant=True)
    return FaultyStore(inner, InOrder(*faults), clock=clock), inner, clock


def names(inner: MemoryStore) -> set[str]:
    """Return the sort keys that are there."""
    return set(inner.table.partitions.get("c", {}))


@pytest.mark.parametrize(
    ("fault", "known", "there"),
    [
        (None, True, True),
        (Lost(), False, True),
        (NeverArrived(), False, False),
        (Late(), False, False),
        (Slow(1, 2), True, True),
        (Slow(1, 2, Lost()), False, True),
        (Partial(), True, True),
    ],
)
async def test_kinds_of_unknown(fault: Fault | None, *, known: bool, there: bool) -> None:
    """Single writes and transactions are applied or not, and their answer lost or not."""
    store, inner, _ = faulty(fault, fault)

    single = await store.write(put("a"))
    several = await store.transact([put("b"), put("d")])

    for outcome in (single, several):
        assert isinstance(outcome, Applied if known else Unknown)
    assert names(inner) == ({"a", "b", "d"} if there else set())


async def test_late_writes_land_in_order_when_told() -> None:
    """What is in flight is applied only by `land`, the oldest first, under its own condition."""
    store, inner, _ = faulty(Late(), Late(), Late())
    await store.write(put("a"))
    await store.transact([put("a"), put("b")])
    await store.write_batch([Put(put("d").item)])
    assert (names(inner), len(store.in_flight)) == (set(), 3)

    assert isinstance(await store.land(), Applied)
    assert names(inner) == {"a"}
    assert isinstance(await store.land(), Rejected)
    assert await store.land() == BatchOutcome()
    assert names(inner) == {"a", "d"}


@pytest.mark.parametrize("slow", [False, True])
async def test_partial_batch(*, slow: bool) -> None:
    """Each position of a batch has the fate that was planned, and the answer says as much."""
    fault: Fault = Partial(unprocessed=(0, 9), lost=(1,), never_arrived=(2,))
    store, inner, _ = faulty(Slow(1, then=fault) if slow else fault)

    outcome = await store.write_batch([Put(put(str(n)).item) for n in range(5)])

    assert (outcome.unprocessed, outcome.unknown) == ((0,), (1, 2))
    assert names(inner) == {"1", "3", "4"}


async def test_partial_faults_of_two_stores_add_up() -> None:
    """What the store behind leaves undone keeps its place in the whole batch."""
    behind, inner, _ = faulty(Partial(unprocessed=(0,), lost=(1,)))
    store = FaultyStore(behind, InOrder(Partial(unprocessed=(0,), never_arrived=(2,))))

    outcome = await store.write_batch([Put(put(str(n)).item) for n in range(5)])

    assert (outcome.unprocessed, outcome.unknown) == ((0, 1), (2, 3))
    assert names(inner) == {"3", "4"}


@pytest.mark.parametrize("applied", [False, True])
async def test_raised_errors(*, applied: bool) -> None:
    """An error comes out as it is, before the request or, for a crash, after it."""
    error = ZeroDivisionError()
    store, inner, _ = faulty(Raises(error, applied=applied))

    with pytest.raises(ZeroDivisionError) as caught:
        await store.write(put("a"))

    assert caught.value is error
    assert names(inner) == ({"a"} if applied else set())


async def test_slow_takes_its_time_before_and_after() -> None:
    """The clock moves on before the request reaches the table, and after."""
    store, _, clock = faulty(Slow(1), Slow(0, 2), Slow(4, 8, NeverArrived()))

    for elapsed in (1, 3, 15):
        await store.write(put("a"))
        assert clock.elapsed == elapsed


@pytest.mark.parametrize("fault", [Lost(), NeverArrived(), Late()], ids=str)
async def test_lost_reads_are_unreachable(fault: Fault) -> None:
    """A read has no unknown outcome: its lost answer is the error that the port names."""
    store, _, _ = faulty(fault, fault, fault)

    with pytest.raises(Unreachable):
        await store.get(Get(("c", "a")))
    with pytest.raises(Unreachable):
        await store.query(Query("c"))
    with pytest.raises(Unreachable):
        await store.scan(Scan())
    assert not store.in_flight


async def fates(decide: Decide) -> list[Fault | None]:
    """Return what becomes of some calls."""
    operations: tuple[Operation, ...] = ("write", "write_batch", "transact", "get", "query", "scan")
    return [decide(FaultCall(n, operations[n % 6], 10)) for n in range(600)]


async def test_seeds_repeat_and_differ() -> None:
    """One seed gives the same faults each time, another seed others, and every kind occurs."""
    drawn = await fates(Seeded(1, share=0.5))

    assert [repr(one) for one in drawn] == [
        repr(fate) for fate in await fates(Seeded(1, share=0.5))
    ]
    assert [repr(one) for one in drawn] != [
        repr(fate) for fate in await fates(Seeded(2, share=0.5))
    ]
    assert {type(one) for one in drawn} == {type(None), Lost, NeverArrived, Late, Partial, Raises}
    assert all(type(one) in {type(None), Raises} for one in drawn[3::6])
    assert await fates(Seeded(1, share=0)) == [None] * 600
    assert None not in await fates(Seeded(1, share=1))


async def test_calls_are_counted_and_told() -> None:
    """The decision knows number, operation and size of each call."""
    told: list[FaultCall] = []
    store = FaultyStore(MemoryStore(HOME), told.append)

    await store.write_batch([Put(put("a").item), Put(put("b").item)])
    await store.query(Query("c"))
    await store.close()

    assert told == [FaultCall(1, "write_batch", 2), FaultCall(2, "query", 1)]
    assert (store.calls, store.region) == (2, HOME)


async def test_errors_of_the_plan_are_the_ports() -> None:
    """Seeded faults raise only what a store may raise."""
    store = FaultyStore(MemoryStore(HOME), Seeded(3, share=1))

    for _ in range(50):
        try:
            await store.query(Query("c"))
        except (Throttled, Unreachable):
            continue
        pytest.fail("a share of 1 leaves no call alone")
