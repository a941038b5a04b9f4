"""Data stored with a lease: written by holders, read by others, left to the next holder."""

import pytest
from support.leases import FIRST, KEY, World

from ledger.core.entry import ITEM_BYTES_MAX, Item
from ledger.core.errors import InvalidInput
from ledger.primitives.leases.lease_rules import LeaseGrant, NotHeld, record_of
from ledger.store.reads import Get
from ledger.store.wrappers.faults import Fault, Late, Lost, NeverArrived
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Applied

PAGE_7: Item = {"page": {"N": "7"}}
PAGE_8: Item = {"page": {"N": "8"}}
HOST: Item = {"host": {"S": "a"}, "tags": {"L": [{"S": "x"}]}}


async def test_what_is_stored_at_acquisition_is_read_by_others(world: World) -> None:
    """Others learn the data with the holder's name, by contending or by a look alone."""
    one, two = world.contender("one"), world.contender("two")
    assert await two.look() is None
    assert await one.acquire(0, data=HOST) == LeaseGrant(KEY, "one", FIRST)
    assert await two.acquire(0) == NotHeld(KEY, "one", FIRST, 30.0, HOST)
    seen = await two.look()
    assert seen is not None
    assert (seen.owner, seen.data) == ("one", HOST)


async def test_a_look_does_not_contend(world: World) -> None:
    """A look at a free lease leaves it free."""
    one = world.contender("one")
    await one.acquire(0)
    await one.release()
    before = world.item()
    await world.contender("two").look()
    assert world.item() == before


async def test_heartbeats_store_data_and_plain_ones_keep_it(world: World) -> None:
    """A heartbeat with data replaces it whole, one without leaves it; so does the release."""
    one = world.contender("one")
    await one.acquire(0, data=HOST)
    assert await one.heartbeat(data=PAGE_7)
    assert await one.heartbeat()
    await one.release()
    assert record_of(world.item()).data == PAGE_7


async def test_the_next_holder_finds_what_was_left(world: World) -> None:
    """The successor of a holder that died gets its data, and keeps it until it stores its own."""
    one, two = world.contender("one"), world.contender("two")
    await one.acquire(0)
    await one.heartbeat(data=PAGE_7)
    await two.acquire(0)
    await world.clock.advance(30.0)
    assert await two.acquire(0) == LeaseGrant(KEY, "two", FIRST + 1, PAGE_7)
    assert record_of(world.item()).data == PAGE_7
    await two.heartbeat(data={})
    assert record_of(world.item()).data == {}


async def test_data_stored_at_acquisition_replaces_what_is_told(world: World) -> None:
    """A holder that stores its own at once still learns what the one before it left."""
    one, two = world.contender("one"), world.contender("two")
    await one.acquire(0, data=PAGE_7)
    await one.release()
    assert await two.acquire(0, data=PAGE_8) == LeaseGrant(KEY, "two", FIRST + 1, PAGE_7)
    assert record_of(world.item()).data == PAGE_8


async def test_an_acquisition_that_landed_unseen_hides_nothing(world: World) -> None:
    """Taking over our own late acquisition still tells what the holder before us left."""
    one, two = world.contender("one"), world.contender("two")
    await one.acquire(0, data=PAGE_7)
    await one.release()
    world.fail_writes(Late())
    assert isinstance(await two.acquire(0, data=PAGE_8), NotHeld)
    assert isinstance(await world.store.land(), Applied)
    assert await two.acquire(0, data=PAGE_8) == LeaseGrant(KEY, "two", FIRST + 2, PAGE_7)


@pytest.mark.parametrize("fault", [Lost(), NeverArrived()])
async def test_an_ambiguous_heartbeat_tells_whether_its_data_is_there(
    world: World, fault: Fault
) -> None:
    """A heartbeat without an answer returns what the table shows: its data stored, or not."""
    one = world.contender("one")
    await one.acquire(0, data=PAGE_7)
    world.fail_writes(fault)
    stored = await one.heartbeat(data=PAGE_8)
    assert stored is (fault == Lost())
    assert record_of(world.item()).data == (PAGE_8 if stored else PAGE_7)
    one.check()


async def test_an_ambiguous_heartbeat_is_known_by_its_number_not_its_data(world: World) -> None:
    """DynamoDB writes 1.0 as 1: the answer to "is it there?" does not depend on such forms."""

    class Trimming(ForwardingStore):
        """A store that gives numbers back as DynamoDB does."""

        async def get(self, get: Get) -> Item | None:
            """Read one item."""
            item = await super().get(get)
            trimmed = {"data": {"M": {"share": {"N": "1"}}}}
            return item if item is None or "data" not in item else {**item, **trimmed}

    one = world.contender("one", store=Trimming(world.store))
    await one.acquire(0)
    world.fail_writes(Lost())
    assert await one.heartbeat(data={"share": {"N": "1.0"}})


async def test_data_over_the_limit_is_refused_before_anything_is_sent(world: World) -> None:
    """What no item can hold is refused by size, and the lease stays as it is."""
    one = world.contender("one")
    await one.acquire(0)
    before = world.item()
    with pytest.raises(InvalidInput, match="at most 409,600"):
        await one.heartbeat(data={"text": {"S": "x" * ITEM_BYTES_MAX}})
    assert world.item() == before
    one.check()
