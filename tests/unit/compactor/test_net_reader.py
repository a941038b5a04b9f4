"""Nets that are asked for at the same time are read in one request, and each as if read alone."""

from collections.abc import Sequence
from datetime import timedelta

import anyio
import pytest
from support.ledgers import HOME, net

from compactor.net_reader import AHEAD_MAX, REQUESTS_AT_ONCE, NetReader
from ledger.core.contract import Validity
from ledger.core.entry import Item, net_of
from ledger.core.errors import DamagedItem, RegionUnreadable, StoreError, Unreachable
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.runtime.validity import signed_within
from ledger.store.memory import MemoryStore
from ledger.store.reads import EACH_GETS_MAX, FoundItems, Get, Page, Query
from ledger.store.writes import Put
from ledger.testing.clock import START, ManualClock

EARLY, LATE = (Validity(START + timedelta(seconds=after), after) for after in (60.0, 120.0))


class Gate(MemoryStore):
    """A region whose joined reads wait until it is opened; it notes what each request reads."""

    def __init__(self, error: StoreError | None = None) -> None:
        super().__init__(HOME)
        self.open = anyio.Event()
        self.asked: list[list[str]] = []
        self.queries: list[str] = []
        self.error = error

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several items once the gate is open."""
        self.asked.append([get.key[0] for get in gets])
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return await super().get_each(gets)

    async def query(self, query: Query) -> Page:
        """Read a page."""
        self.queries.append(query.partition)
        return await super().query(query)

    async def fill(self, *items: Item) -> None:
        """Put items."""
        for item in items:
            await self.write(Put(item))


def of(partition: str, change: int = 1) -> Item:
    """Return the net of a collection."""
    return net(partition, change, [EntryId(1, 1)], version=f"v-{partition}")


async def read_all(
    store: Gate, partitions: Sequence[str], *, validity: Sequence[Validity | None] = ()
) -> tuple[NetReader, dict[str, NetChange | Exception | None]]:
    """Read the nets of collections at the same time; return what became of each call."""
    reader, clock = NetReader(store, generation=1), ManualClock()
    found: dict[str, NetChange | Exception | None] = {}

    async def read(partition: str, validity: Validity | None) -> None:
        try:
            with signed_within(validity, clock):
                found[partition] = await reader.read(partition)
        except (StoreError, DamagedItem) as error:
            found[partition] = error

    async with anyio.create_task_group() as tasks:
        bounds = validity or [None] * len(partitions)
        for partition, bound in zip(partitions, bounds, strict=True):
            tasks.start_soon(read, partition, bound)
        await anyio.wait_all_tasks_blocked()
        store.open.set()
    return reader, found


NAMES = [f"counter-{number}" for number in range(8)]
FIRST = [[name] for name in NAMES[:REQUESTS_AT_ONCE]]
REST = NAMES[REQUESTS_AT_ONCE:]
NEXT = [[REST[0], *REST[REQUESTS_AT_ONCE:]], *([name] for name in REST[1:REQUESTS_AT_ONCE])]
"""Each of the calls that end lets another send: of those that wait the first takes all others."""


async def test_what_is_asked_for_meanwhile_shares_a_request() -> None:
    """The first calls go at once; all that come while they are under way go together, next."""
    store = Gate()
    await store.fill(*map(of, NAMES[:-1]))
    _, found = await read_all(store, NAMES)
    assert store.asked == [*FIRST, *NEXT]
    versions = [one.version if isinstance(one, NetChange) else one for one in found.values()]
    expected = {name: f"v-{name}" for name in NAMES[:-1]} | {NAMES[-1]: None}
    assert dict(zip(found, versions, strict=True)) == expected


async def test_a_request_is_signed_within_what_all_its_calls_allow() -> None:
    """Calls of another view of the contract wait for a request of their own."""
    store = Gate()
    bounds = [LATE if place % 2 else EARLY for place in range(len(NAMES))]
    await read_all(store, NAMES, validity=bounds)
    assert store.asked == [*FIRST, REST[::2], REST[1::2]]


async def test_a_request_reads_as_many_as_dynamodb_allows() -> None:
    """What is over the limit goes with the next one."""
    store = Gate()
    names = [f"counter-{number}" for number in range(REQUESTS_AT_ONCE + EACH_GETS_MAX + 3)]
    await read_all(store, names)
    assert [len(asked) for asked in store.asked] == [*[1] * REQUESTS_AT_ONCE, EACH_GETS_MAX, 3]


async def test_an_error_is_that_of_every_call() -> None:
    """A region that does not answer is unreadable for each collection; later calls try again."""
    store = Gate(Unreachable("gone"))
    reader, found = await read_all(store, NAMES)
    assert all(isinstance(error, RegionUnreadable) for error in found.values())
    store.error = None
    assert await reader.read(NAMES[0]) is None


async def test_a_damaged_net_is_that_of_its_own_collection() -> None:
    """The others of its request are read."""
    store = Gate()
    await store.fill(*map(of, NAMES))
    await store.fill({**of(NAMES[-1]), "change": {"S": "three"}})
    _, found = await read_all(store, NAMES)
    assert isinstance(found.pop(NAMES[-1]), DamagedItem)
    assert all(isinstance(one, NetChange) for one in found.values())


async def test_a_cancelled_call_holds_up_no_other() -> None:
    """One that was to send, and one that waits, are given up; the others are answered."""
    store = Gate()
    reader = NetReader(store, generation=1)
    done: list[str] = []

    async def read(name: str, scope: anyio.CancelScope) -> None:
        with scope:
            await reader.read(name)
            done.append(name)

    scopes = {name: anyio.CancelScope() for name in NAMES}
    async with anyio.create_task_group() as tasks:
        for name, scope in scopes.items():
            tasks.start_soon(read, name, scope)
        await anyio.wait_all_tasks_blocked()
        for name in (NAMES[0], REST[1]):
            scopes[name].cancel()
        await anyio.wait_all_tasks_blocked()
        store.open.set()
    assert sorted(done) == sorted({*NAMES} - {NAMES[0], REST[1]})


async def test_calls_of_a_cancelled_request_are_told() -> None:
    """A request that was cancelled may have read nothing: its other calls fail, and none hangs."""
    store = Gate()
    reader = NetReader(store, generation=1)
    errors: list[Exception] = []
    scope = anyio.CancelScope()

    async def read(name: str) -> None:
        try:
            with scope if name == REST[0] else anyio.CancelScope():
                await reader.read(name)
        except RegionUnreadable as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        for name in NAMES:
            tasks.start_soon(read, name)
        await anyio.wait_all_tasks_blocked()
        first, store.open = store.open, anyio.Event()
        first.set()
        await anyio.wait_all_tasks_blocked()
        scope.cancel()
        await anyio.wait_all_tasks_blocked()
        store.open.set()
    assert store.asked == [*FIRST, *NEXT]
    assert len(errors) == len(NEXT[0]) - 1


async def test_a_net_is_read_whole() -> None:
    """What it names and carries comes as a query shows it."""
    store = Gate()
    store.open.set()
    await store.fill(of("counter", 7))
    assert await NetReader(store, generation=1).read("counter") == net_of(of("counter", 7))


def reading_ahead(store: Gate, upcoming: Sequence[str]) -> NetReader:
    """Return a reader of a region that answers at once, with what is asked for soon."""
    store.open.set()
    return NetReader(store, generation=1, upcoming=lambda count: upcoming[:count])


async def test_what_is_visited_soon_is_read_ahead() -> None:
    """One request has all of it, each net once; then no request is needed for it."""
    store = Gate()
    await store.fill(*map(of, NAMES[:-1]))
    reader = reading_ahead(store, NAMES)
    assert not reader.knows(NAMES[0])
    found = [await reader.read(name) for name in NAMES[:1]]
    assert all(reader.knows(name) for name in NAMES[1:])
    found += [await reader.read(name) for name in NAMES[1:]]
    assert store.asked == [NAMES]
    assert [one and one.version for one in found] == [*(f"v-{name}" for name in NAMES[:-1]), None]


async def test_what_was_read_ahead_counts_once() -> None:
    """A second call reads again, so a net is never older than the visit before."""
    store = Gate()
    await store.fill(of("now"), of("soon", 1))
    reader = reading_ahead(store, ["soon"])
    await reader.read("now")
    await store.fill(of("soon", 2))
    first, second = [await reader.read("soon") for _ in range(2)]
    assert first is not None
    assert second is not None
    assert [first.change, second.change] == [1, 2]


async def test_a_call_joins_what_is_read_ahead_meanwhile() -> None:
    """It waits for that answer, and sends nothing."""
    store = Gate()
    await store.fill(*map(of, NAMES))
    reader = NetReader(store, generation=1, upcoming=lambda _: NAMES)
    found: list[NetChange | None] = []

    async def read(name: str) -> None:
        found.append(await reader.read(name))

    async with anyio.create_task_group() as tasks:
        for name in NAMES:
            tasks.start_soon(read, name)
        await anyio.wait_all_tasks_blocked()
        assert not reader.knows(NAMES[1])
        store.open.set()
    assert store.asked == [NAMES]
    assert len(found) == len(NAMES)


async def test_what_was_read_under_another_contract_is_read_again() -> None:
    """A net is used within the validity that its request was signed in."""
    store = Gate()
    await store.fill(of("now"), of("soon"))
    reader = reading_ahead(store, ["soon"])
    clock = ManualClock()
    with signed_within(EARLY, clock):
        await reader.read("now")
        assert reader.knows("soon")
    with signed_within(LATE, clock):
        assert not reader.knows("soon")
        assert await reader.read("soon") is not None
    assert store.asked == [["now", "soon"], ["soon"]]


async def test_a_failed_read_ahead_is_made_again() -> None:
    """Only the call for which a request was sent learns of its error."""
    store = Gate(Unreachable("gone"))
    await store.fill(of("soon"))
    reader = reading_ahead(store, ["soon"])
    with pytest.raises(RegionUnreadable):
        await reader.read("now")
    store.error = None
    assert await reader.read("soon") is not None


async def test_what_is_read_ahead_is_bounded() -> None:
    """So many nets beside the one asked for, and what is known is not read again."""
    store = Gate()
    reader = reading_ahead(store, [f"soon-{number}" for number in range(1_000)])
    await reader.read("now")
    await reader.read("now")
    assert [len(asked) for asked in store.asked] == [1 + AHEAD_MAX, 1]
