"""Sequences, version guards and leases over real requests, on each engine."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest
from support.clients import together
from support.engines import ENGINES, REGIONS
from support.guarding import ARRIVALS, Handling, event, record_put

from ledger.core.entry import Item
from ledger.core.errors import KeyConflict, LeaseLost
from ledger.local import LocalGlobalTable
from ledger.primitives.leases import Lease, LeaseGrant, LeaseTerms, NotHeld
from ledger.primitives.leases.lease_rules import record_item
from ledger.primitives.sequences import (
    NUMBER_MAX,
    CounterSequence,
    NotNumbered,
    Numbered,
    SortKeySequence,
    sort_key_of,
)
from ledger.primitives.versions import (
    Adopted,
    ConditionGuard,
    DeadLetter,
    Event,
    Handled,
    LockGuard,
    Refused,
    Skipped,
)
from ledger.primitives.versions.lock import GuardOptions
from ledger.runtime.clock import SystemClock
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.writes import Action, Applied, Put
from ledger.writes.entry_plan import Change

CLIENTS, EACH = 4, 5
EXPECTED = [Handled(1), Handled(4), Skipped(3, 4), Skipped(2, 4), Handled(5)]


@pytest.fixture(scope="module", params=ENGINES)
async def settings(request: pytest.FixtureRequest) -> AsyncIterator[Settings]:
    """Run a local global table of one region."""
    async with LocalGlobalTable.start(regions=REGIONS[:1], engine=request.param) as world:
        yield world.settings()


@pytest.fixture(scope="module")
async def store(settings: Settings) -> AsyncIterator[Store]:
    """Open the table."""
    async with open_store(settings, REGIONS[0], metrics=Metrics(None)) as opened:
        yield opened


def counting(store: Store, name: str) -> CounterSequence:
    """Return a client's counter sequence."""
    return CounterSequence(store, name, services=Services.of())


def appending(store: Store, project: str) -> SortKeySequence:
    """Return a client's sequence by sort keys."""
    return SortKeySequence(store, project, services=Services.of())


async def test_numbers_of_a_counter_are_given_once(store: Store) -> None:
    """Clients at once get each number from 1 on exactly once."""
    numbers: list[object] = []

    async def work(client: CounterSequence) -> None:
        for _ in range(EACH):
            numbers.append(await client.next())  # noqa: PERF401 (others append meanwhile)

    await together([partial(work, counting(store, "orders")) for _ in range(CLIENTS)])
    assert sorted(map(str, numbers)) == sorted(
        str(Numbered(number)) for number in range(1, CLIENTS * EACH + 1)
    )


async def test_a_counter_ends_where_digits_would_be_lost(store: Store) -> None:
    """The last number of 38 digits is given exactly, and the next call finds the end."""
    place = {"pk": {"S": "~sequence~last"}, "sk": {"S": "counter"}}
    await store.write(Put({**place, "number": {"N": str(NUMBER_MAX - 1)}}))
    client = counting(store, "last")
    assert await client.next() == Numbered(NUMBER_MAX)
    assert await client.next() == NotNumbered("exhausted")


async def test_items_by_sort_key_have_no_gaps(store: Store) -> None:
    """Items of clients at once lie under 1, 2, 3 and so on, in the order of numbers."""

    async def work(client: SortKeySequence) -> None:
        for _ in range(EACH):
            assert isinstance(await client.append({"title": {"S": "a ticket"}}), Numbered)

    await together([partial(work, appending(store, "project")) for _ in range(CLIENTS)])
    page = await store.query(Query("~sequence~project"))
    numbers = range(1, CLIENTS * EACH + 1)
    assert [item["sk"]["S"] for item in page.items] == [sort_key_of(number) for number in numbers]


async def test_a_token_has_one_number(store: Store) -> None:
    """Repeats and twins with one token get one number, and other content is refused."""
    content = {"title": {"S": "a ticket"}, "weight": {"N": "1.50"}}
    answers: list[object] = []

    async def work(call: Callable[[], Awaitable[object]]) -> None:
        answers.extend([await call(), await call()])

    twins = [appending(store, "tokens") for _ in range(CLIENTS)]
    await together([partial(work, partial(twin.append, content, token="mail-1")) for twin in twins])
    assert answers == [Numbered(1)] * 2 * CLIENTS
    client = appending(store, "tokens")
    assert await client.append_many([content] * 99, token="mail-2") == Numbered(2, 99)
    assert await client.append_many([content] * 99, token="mail-2") == Numbered(2, 99)
    assert await client.append({"title": {"S": "x"}}, token="mail-1") == NotNumbered(
        "token conflict"
    )
    assert await client.read(100) == {"title": {"S": "a ticket"}, "weight": {"N": "1.5"}}
    assert await client.highest() == 100


async def test_names_and_tokens_of_the_greatest_length(store: Store) -> None:
    """A marker's key has room for 1,024 bytes of a name and of a token."""
    name, token = "n" * 1024, "t" * 1024
    for _ in range(2):
        assert await counting(store, name).next(token=token) == Numbered(1)
        assert await appending(store, name).append({}, token=token) == Numbered(1)


async def test_an_item_is_put_under_the_next_number(store: Store) -> None:
    """The engine's own transaction puts the order with its marker, once."""

    def order(number: int) -> Item:
        return {"pk": {"S": f"order-{number}"}, "sk": {"S": "order"}, "total": {"N": "2.50"}}

    first, again = counting(store, "carts"), counting(store, "carts")
    assert await first.next(token="cart-1") == await again.next(token="cart-1") == Numbered(1)
    assert await first.put_next(order, token="cart-2") == Numbered(2)
    assert await again.put_next(order, token="cart-2") == Numbered(2)
    assert await first.put_next(order, token="cart-1") == NotNumbered("token conflict")
    await store.write(Put(order(3)))
    assert await first.put_next(order, token="cart-3") == NotNumbered("occupied")
    assert await store.get(Get(("order-2", "order"))) is not None


async def test_the_worked_example_by_condition(store: Store) -> None:
    """The engine's own judgement of the condition lets versions 1, 4 and 5 through."""
    guard = ConditionGuard(store, services=Services.of())
    item = {"pk": {"S": "record"}, "sk": {"S": "put"}}
    assert [await guard.put(item, version=version) for version in ARRIVALS] == EXPECTED
    outcomes = [
        await guard.handle(event(version, "by condition"), [record_put(version)])
        for version in ARRIVALS
    ]
    assert outcomes == EXPECTED


async def test_many_records_by_condition(store: Store) -> None:
    """The engine takes new records as statements, and puts over older ones what is newer."""
    guard = ConditionGuard(store, services=Services.of())
    items = [{"pk": {"S": "record"}, "sk": {"S": f"many {one}"}} for one in range(60)]
    assert await guard.put_many([(item, 2) for item in items]) == [Handled(2)] * 60
    told = await guard.put_many([(item, place % 4) for place, item in enumerate(items)])
    assert told == [Skipped(0, 2), Skipped(1, 2), Skipped(2, 2), Handled(3)] * 15


async def test_changes_with_keys_share_requests(settings: Settings) -> None:
    """The engine takes sixty of one call, and of as many calls at once, each once; repeats too."""
    at = SystemClock().now()
    several = [Change("keyed", 2, key=f"several {one}", at=at) for one in range(60)]
    async with Ledger.open(settings, region=REGIONS[0]) as ledger:
        for _ in range(2):
            await ledger.record_many(several)
            await together(
                [
                    partial(ledger.record, "keyed", 3, key=f"single {one}", at=at)
                    for one in range(60)
                ]
            )
        with pytest.raises(KeyConflict, match=r"refused change 5, .* already stands for change 2"):
            await ledger.record_many([several[0], replace(several[7], change=5)])
        assert (await ledger.total("keyed", max_age=0)).value == 60 * 2 + 60 * 3


async def test_the_worked_example_by_lock(store: Store) -> None:
    """Lock, fence and version in real transactions let versions 1, 4 and 5 through."""
    handler = Handling()
    guard = LockGuard(store, owner="test", services=Services.of())
    outcomes = [await guard.handle(event(version, "by lock"), handler) for version in ARRIVALS]
    assert outcomes == EXPECTED
    assert handler.versions == [1, 4, 5]


async def test_deletes_and_adoption_by_condition(store: Store) -> None:
    """The engine keeps a tombstone's version, and adopts what has none, once."""
    guard = ConditionGuard(store, services=Services.of(), tombstone_seconds=3600)
    key, item = ("record", "deleted"), {"pk": {"S": "record"}, "sk": {"S": "deleted"}}
    assert await guard.delete(key, version=3) == Handled(3)
    assert await guard.put(item, version=2) == Skipped(2, 3)
    assert await guard.read(key) is None
    assert await guard.put(item, version=4) == Handled(4)
    await store.write(Put(item))
    assert await guard.adopt(key, version=5) == Adopted(5)
    assert await guard.adopt(key, version=6) == Skipped(6, 5)
    assert await guard.adopt(("record", "none"), version=6) == Refused({0: None})
    again = ConditionGuard(store, services=Services.of(), repeats="handle")
    assert await again.put(item, version=5) == Handled(5)
    assert await again.put(item, version=4) == Skipped(4, 5)


async def test_dead_letters_are_counted_listed_and_released(store: Store) -> None:
    """Two guards count one event's failures together; the engine hands it back as it was."""

    async def fails(event: Event, _: Lease) -> list[Action]:
        raise LookupError(f"version {event.version}")

    poison = event(1, "poison", deletes=True, body=b"\x00\xff")
    one, two = (
        LockGuard(store, owner=owner, services=Services.of(), options=GuardOptions(failures_max=2))
        for owner in ("one", "two")
    )
    with pytest.raises(LookupError):
        await one.handle(poison, fails)
    letter = await two.handle(poison, fails)
    assert isinstance(letter, DeadLetter)
    assert (letter.event, letter.failures) == (poison, 2)
    assert await one.handle(poison, Handling()) == letter
    assert [found async for found in one.dead_letters.letters()] == [letter]
    assert await two.dead_letters.release(poison)
    assert await one.handle(poison, Handling()) == Handled(1)


async def test_of_those_that_wait_the_newest_is_handled(store: Store) -> None:
    """Handed in at once, versions behind the first are handled at most once each, 5 among them."""
    handler, ends = Handling(), list[object]()
    guard = LockGuard(store, owner="turns", services=Services.of())

    async def deliver(version: int) -> None:
        ends.append(await guard.handle(event(version, "turns"), handler))

    await together([partial(deliver, version) for version in ARRIVALS])
    assert handler.versions == [1, 5]
    assert sorted(map(str, ends)) == sorted(
        map(str, [Handled(1), Skipped(4, 5), Skipped(3, 5), Skipped(2, 5), Handled(5)])
    )


def contender(store: Store, owner: str) -> Lease:
    """Return one of several contenders for a lease."""
    terms = LeaseTerms(lease_seconds=30.0, heartbeat_seconds=10.0, polls_per_heartbeat=200)
    return Lease(store, "nightly", owner=owner, terms=terms, services=Services.of())


async def test_contenders_for_a_lease_come_one_after_another(store: Store) -> None:
    """Each holds it once, under an epoch of its own, and finds the data of the one before it."""
    found: list[tuple[int, object]] = []

    async def lead(owner: str) -> None:
        lease = contender(store, owner)
        async with lease.held() as held:
            assert isinstance(held, LeaseGrant)
            found.append((held.epoch, held.data))
            assert await lease.heartbeat(data={"by": {"S": owner}, "epoch": held_epoch(held)})
            work = Put({"pk": {"S": "work"}, "sk": {"S": owner}})
            assert isinstance(await lease.transact([work]), Applied)

    await together([partial(lead, f"contender {number}") for number in range(CLIENTS)])
    first = found[0][0]
    assert [epoch for epoch, _ in found] == list(range(first, first + CLIENTS))
    left = [data for _, data in found]
    assert left[0] == {}
    assert [data["epoch"] for data in left[1:] if isinstance(data, dict)] == [
        {"N": str(epoch)} for epoch in range(first, first + CLIENTS - 1)
    ]


def held_epoch(held: LeaseGrant) -> dict[str, str]:
    """Return the epoch as it is stored."""
    return {"N": str(held.epoch)}


async def test_the_engine_itself_refuses_an_old_epoch(store: Store) -> None:
    """A holder that was overtaken has its transaction refused, and reads who has the lease."""
    old, new = contender(store, "old"), contender(store, "new")
    held = await old.acquire()
    assert isinstance(held, LeaseGrant)
    record = await old.look()
    assert record is not None
    overtaken = replace(record, owner="new", epoch=held.epoch + 1, rvn="overtaken")
    await store.write(Put(record_item(overtaken)))
    with pytest.raises(LeaseLost, match="'new' has it"):
        await old.transact([Put({"pk": {"S": "work"}, "sk": {"S": "late"}})])
    assert await store.get(Get(("work", "late"))) is None
    assert isinstance(await new.acquire(0), NotHeld)


async def test_a_ledger_in_the_same_table_is_not_disturbed(
    settings: Settings, store: Store
) -> None:
    """Numbers and versions lie beside a counter of the same name, whose total they do not touch."""
    await appending(store, "beside").append({"change": {"N": "1000"}})
    await counting(store, "beside").next()
    async with Ledger.open(settings, region=REGIONS[0]) as ledger:
        await ledger.record("beside", 3)
        assert (await ledger.total("beside", max_age=0)).value == 3
