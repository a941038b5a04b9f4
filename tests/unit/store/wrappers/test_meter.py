"""What is counted of each operation: how it ended, how long it took, what it costs."""

import pytest
from support.ledgers import HOME, sample

from ledger.core.entry import Item
from ledger.core.errors import Throttled
from ledger.runtime.metrics import Metrics
from ledger.store.conditions import Absent, Equals
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get, Page, Query, Scan
from ledger.store.wrappers.faults import Fault, FaultyStore, InOrder, Lost, Partial, Raises, Slow
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import BatchOutcome, Check, Delete, Put, Update
from ledger.testing.clock import ManualClock


class Metered:
    """A metered store over a faulty one in memory, and what it counted."""

    def __init__(self, *faults: Fault | None) -> None:
        self.clock, self.metrics, self.inner = (
            ManualClock(instant=True),
            Metrics(),
            MemoryStore(HOME),
        )
        self.faulty = FaultyStore(self.inner, InOrder(*faults), clock=self.clock)
        self.store = MeteredStore(self.faulty, metrics=self.metrics, clock=self.clock)

    def units(self, operation: str, kind: str) -> float:
        """Return the units counted."""
        name = "ledger_consumed_units_total"
        return sample(self.metrics, name, region=HOME, operation=operation, kind=kind)

    def writes(self, operation: str, outcome: str) -> float:
        """Return the changes counted."""
        name = "ledger_writes_total"
        return sample(self.metrics, name, region=HOME, operation=operation, outcome=outcome)


def item(sort_key: str, size: int) -> Item:
    """Return an item of exactly so many bytes."""
    rest = len("pk") + 1 + len("sk") + len(sort_key) + len("v")
    return {"pk": {"S": "c"}, "sk": {"S": sort_key}, "v": {"S": "x" * (size - rest)}}


@pytest.mark.parametrize(("size", "units"), [(100, 1), (1024, 1), (1025, 2), (10_000, 10)])
async def test_a_write_costs_a_unit_per_kilobyte_begun(size: int, units: int) -> None:
    """An applied put is counted once, with a write unit for each KB begun."""
    m = Metered()
    await m.store.write(Put(item("a", size)))

    assert m.writes("put", "applied") == 1
    assert m.units("put", "write") == units


async def test_a_rejected_write_is_charged_by_what_is_there() -> None:
    """A put whose condition fails costs the larger of what it brought and what it found."""
    m = Metered()
    m.inner.table.set(("c", "a"), item("a", 3000))
    await m.store.write(Put(item("a", 100), Absent()))

    assert m.writes("put", "rejected") == 1
    assert m.writes("put", "applied") == 0
    assert m.units("put", "write") == 3


async def test_an_unknown_write_is_counted_without_units() -> None:
    """What an unanswered write cost cannot be told, so no units are made up."""
    m = Metered(Lost())
    await m.store.write(Put(item("a", 100)))

    assert m.writes("put", "unknown") == 1
    assert m.units("put", "write") == 0


async def test_updates_and_deletes() -> None:
    """An update costs its new item, a delete the size that the caller knows, at least one unit."""
    m = Metered()
    m.inner.table.set(("c", "a"), item("a", 2500))
    await m.store.write(Update(("c", "a"), add={"n": {"N": "1"}}))
    await m.store.write(Delete(("c", "a"), size_bytes=2500))
    await m.store.write(Delete(("c", "b")))

    assert m.units("update", "write") == 3
    assert m.units("delete", "write") == 4


async def test_a_batch_counts_each_part_by_its_fate() -> None:
    """Of a batch applied and unknown parts are counted apart; unprocessed ones not at all."""
    m = Metered(Partial(unprocessed=(0, 1), lost=(2,), never_arrived=(3,)))
    await m.store.write_batch([Put(item(str(n), 2000)) for n in range(10)])

    assert m.writes("batch", "applied") == 6
    assert m.writes("batch", "unknown") == 2
    assert m.units("batch", "write") == 12


async def test_several_writes_are_counted_each_by_its_fate() -> None:
    """Of several writes what is throttled or refused is counted too, and costs nothing."""
    m = Metered(Partial(unprocessed=(0, 1), lost=(2,)))
    large = item("large", 500 * 1024)
    puts = [Put(item(str(n), 2000), Absent()) for n in range(6)]
    await m.store.write_each([*puts, Put(large, Absent())])
    fates = ("applied", "unknown", "throttled", "refused")
    assert [m.writes("each", fate) for fate in fates] == [3, 1, 2, 1]
    assert m.units("each", "write") == 6


async def test_a_batch_costs_what_dynamodb_says() -> None:
    """Where DynamoDB counted the units of a batch, as it does if asked, its count is taken."""
    m = Metered()
    outcome = BatchOutcome(unprocessed=(1,), write_units=12.5)
    m.inner.write_batch = gives(outcome)  # type: ignore[method-assign,assignment]
    await m.store.write_batch([Put(item(str(n), 2000)) for n in range(3)])

    assert m.units("batch", "write") == 12.5
    assert m.writes("batch", "applied") == 2


def gives(outcome: BatchOutcome) -> object:
    """Return a `write_batch` that ends so."""

    async def write_batch(_writes: object) -> BatchOutcome:
        return outcome

    return write_batch


async def test_a_transaction_costs_double() -> None:
    """Every action of a transaction costs twice, a check as well, whether it stands or not."""
    m = Metered()
    m.inner.table.set(("c", "lease"), item("lease", 100))
    value = item("lease", 100)["v"]
    await m.store.transact([Check(("c", "lease"), Equals("v", value)), Put(item("a", 1500))])
    assert (m.units("transaction", "write"), m.writes("transaction", "applied")) == (6, 2)

    await m.store.transact([Put(item("a", 1500), Absent()), Put(item("b", 100))])
    assert (m.units("transaction", "write"), m.writes("transaction", "rejected")) == (12, 2)


@pytest.mark.parametrize(("consistent", "units"), [(True, 3), (False, 1.5)])
async def test_a_read_costs_by_4_kilobytes_of_the_whole_page(
    *, consistent: bool, units: float
) -> None:
    """A page costs a unit per 4 KB of all its items together, half if eventually consistent."""
    m = Metered()
    for number in range(5):
        m.inner.table.set(("c", str(number)), item(str(number), 2000))
    await m.store.query(Query("c", consistent=consistent))

    assert m.units("query", "read") == units


async def test_gets_and_scans() -> None:
    """A get costs at least one read; a scan is eventually consistent, or costs what DynamoDB says.

    With a projection the size of what was read cannot be told from what came back.
    """
    m = Metered()
    m.inner.table.set(("c", "a"), item("a", 5000))
    await m.store.get(Get(("c", "a")))
    await m.store.get(Get(("c", "nothing"), consistent=False))
    await m.store.scan(Scan())
    assert m.units("get", "read") == 2.5
    assert m.units("scan", "read") == 1

    m.inner.scan = scan_of(Page([], read_units=40))  # type: ignore[method-assign,assignment]
    await m.store.scan(Scan(attributes=("pk",)))
    assert m.units("scan", "read") == 41


def scan_of(page: Page) -> object:
    """Return a scan that gives this page."""

    async def scan(scan: Scan) -> Page:
        assert scan.attributes
        return page

    return scan


async def test_the_time_of_a_write_is_measured() -> None:
    """A write's duration is that of the whole call, tries of the store included."""
    m = Metered(Slow(1, 2), Slow(4), Slow(0.5))
    await m.store.write(Put(item("a", 100)))
    await m.store.transact([Put(item("b", 100))])
    await m.store.write_batch([Put(item("d", 100))])

    for operation, seconds in (("put", 3), ("transaction", 4), ("batch", 0.5)):
        name = "ledger_write_duration_seconds_sum"
        assert sample(m.metrics, name, region=HOME, operation=operation) == seconds


async def test_errors_go_through_uncounted() -> None:
    """An error is the caller's to count; no outcome and no unit is made up for it."""
    m = Metered(Raises(Throttled("slow down")))

    with pytest.raises(Throttled):
        await m.store.write(Put(item("a", 100)))

    assert sample(m.metrics, "ledger_writes_total") == 0
    assert sample(m.metrics, "ledger_consumed_units_total") == 0
    assert m.store.region == HOME
    await m.store.close()
