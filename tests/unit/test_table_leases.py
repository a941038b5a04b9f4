"""The leases of a table through its door, with and without async."""

from collections.abc import Iterator

import pytest
from support.ledgers import HOME, make_settings, seeded

from ledger import Table, sync
from ledger.core.errors import InvalidInput
from ledger.primitives.leases import LeaseGrant
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.writes import Put

RECORD = {"pk": {"S": "report"}, "sk": {"S": "part 7"}}
PAGE_7 = {"page": {"N": "7"}}


def make_table() -> Table:
    """Return a table over a store in memory."""
    return Table(
        make_settings(),
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
        services=Services.of(randomness=seeded(1)),
    )


@pytest.fixture
def plain() -> Iterator[sync.Table]:
    """A table without async, open."""
    with sync.Table(make_table()) as table:
        yield table


async def test_a_table_lists_its_leases() -> None:
    """Every lease with its holder; those of other tables' keys and other items are not there."""
    async with make_table() as table:
        async with table.lease("a").held(0) as held, table.lease("b", owner="me").held(0):
            assert isinstance(held, LeaseGrant)
            await table.ledger.record("counter", 1)
            found = {lease.title: lease.owner async for lease in table.leases()}
        assert found == {"a": held.owner, "b": "me"}


async def test_a_table_deletes_leases_on_release() -> None:
    """No item is left of a lease that is to leave none."""
    async with make_table() as table:
        async with table.lease("once", delete_on_release=True).held(0):
            pass
        assert [lease async for lease in table.leases()] == []


async def test_a_table_that_was_given_its_store_has_no_threads() -> None:
    """It cannot open another connection to the same store, and says so."""
    async with make_table() as table:
        with pytest.raises(InvalidInput, match="in_thread needs a table that opens its own store"):
            table.lease("x", in_thread=True)


def test_leases_without_async(plain: sync.Table) -> None:
    """List, watch, confirm, data in a transaction and a release that deletes, by plain calls."""
    lease = plain.lease("nightly", delete_on_release=True)
    with lease.held(0):
        lease.confirm()
        assert lease.transact([Put(RECORD)], data=PAGE_7)
        (record,) = plain.leases()
        assert (record.title, record.data) == ("nightly", PAGE_7)
        assert isinstance(lease.acquire(0, take_expired=False), LeaseGrant)
    assert not lease.watch()
    assert list(plain.leases()) == []
