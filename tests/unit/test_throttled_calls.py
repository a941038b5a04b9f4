"""How many requests one call sends to a table that throttles: retries do not multiply."""

from datetime import UTC, datetime

import pytest
from support.counting import known_counter
from support.lanes import lane_worker
from support.ledgers import HOME, make_services, make_settings, make_writer
from support.pipelines import deliveries, message
from support.sharing import sharing
from support.throttled import WRITES, ThrottlingTransport, store_over

from ledger.core.errors import StoreError, Throttled
from ledger.pipeline.stages.worker import RESTARTS
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import LeaseTerms
from ledger.reads.reader import Reader
from ledger.runtime.services import Services
from ledger.store.conditions import Absent
from ledger.store.dynamodb.store import DynamoStore
from ledger.store.writes import Put
from ledger.testing.clock import ManualClock
from ledger.writes.entry_plan import Change

REQUESTS = 4
ITEM = {"pk": {"S": "p"}, "sk": {"S": "s"}}


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock whose sleeps are over at once."""
    return ManualClock(instant=True)


@pytest.fixture
def transport() -> ThrottlingTransport:
    """Return a transport to a table that throttles everything."""
    return ThrottlingTransport()


@pytest.fixture
def store(transport: ThrottlingTransport, clock: ManualClock) -> DynamoStore:
    """Return the store over it."""
    return store_over(transport, clock)


async def test_a_put(store: DynamoStore, transport: ThrottlingTransport) -> None:
    """Four requests, as the AWS SDKs send to DynamoDB."""
    with pytest.raises(Throttled) as caught:
        await store.write(Put(ITEM, Absent()))
    assert transport.sent == {"put_item": REQUESTS}
    assert caught.value.requests == REQUESTS


async def test_a_batch(store: DynamoStore, transport: ThrottlingTransport) -> None:
    """A batch whose requests are all throttled."""
    with pytest.raises(Throttled):
        await store.write_batch([Put(ITEM)])
    assert transport.sent == {"batch_write_item": REQUESTS}


async def test_a_total(
    store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """A total of one partition."""
    reader = Reader(store, settings=make_settings(), services=Services.of(clock=clock))
    with pytest.raises(Throttled):
        await reader.total("c")
    assert transport.sent == {"query": REQUESTS}


async def test_a_record_with_a_key(
    store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """A conditional put; its deadline repeats what is unknown, not what is throttled."""
    at = datetime(2026, 11, 21, tzinfo=UTC)
    clock.wall = at
    with pytest.raises(Throttled):
        await make_writer(store, clock=clock).record(Change("c", 1, key="k", at=at))
    assert transport.sent == {"put_item": REQUESTS}


@pytest.mark.parametrize("calls", [1, 25])
async def test_a_record_without_a_key(
    calls: int, store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """Alone, or in a batch with others: one request carries them all."""
    async with sharing(store, clock=clock) as writer:
        waiting = [writer.add("c", 1) for _ in range(calls)]
        for one in waiting:
            with pytest.raises(Throttled):
                await one
    assert sum(transport.sent.values()) == REQUESTS


async def test_a_change_of_a_counter(
    store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """A counter repeats what got no answer; what was throttled was answered."""
    counter = known_counter("marker", store, clock=clock)
    with pytest.raises(Throttled):
        await counter.add(1)
    assert transport.sent == {"transact_write_items": REQUESTS}


async def test_a_heartbeat(
    store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """A heartbeat of a lease that is held."""
    transport.throttled = frozenset()
    terms = LeaseTerms(lease_seconds=60, heartbeat_seconds=20)
    lease = Lease(store, "l", owner="me", terms=terms, services=make_services(clock))
    await lease.acquire()
    transport.throttled = WRITES
    transport.sent.clear()
    with pytest.raises(StoreError):
        await lease.heartbeat()
    assert transport.sent == {"update_item": REQUESTS}


async def test_a_write_of_a_pipeline(
    store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """Four for each beginning of the lane, until the budget is spent: then one for each."""
    transport.throttled = WRITES
    records = deliveries([message("T1", 1, "5")])
    with pytest.raises(Throttled):
        await lane_worker(records, {HOME: store}, clock=clock).run()
    assert transport.sent["put_item"] == REQUESTS * (RESTARTS.tries_max + 1)


async def test_the_budget_bounds_all_calls_together(
    store: DynamoStore, transport: ThrottlingTransport
) -> None:
    """500 tokens at 5 for each repeat: a thousand calls send 1,100 requests, not 4,000."""
    for _ in range(1_000):
        with pytest.raises(Throttled):
            await store.write(Put(ITEM, Absent()))
    assert transport.sent == {"put_item": 1_100}


async def test_the_wait_that_dynamodb_asks_for_is_granted(
    store: DynamoStore, transport: ThrottlingTransport, clock: ManualClock
) -> None:
    """`x-amz-retry-after` lengthens each of the three waits."""
    transport.retry_after = "4900"
    with pytest.raises(Throttled):
        await store.write(Put(ITEM, Absent()))
    assert clock.elapsed >= 3 * 4.9
