"""What a table that lost a region needs: taken over under the lease, put again once."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import AWAY, HOME

from compactor.plan_execution import apply_succession
from compactor.succession import PutAgain, Succession
from ledger.core.entry import Item, entry_id, entry_item, net_item
from ledger.core.fold import COPIES, collect
from ledger.core.sums import COPY, Sum, SumPlace, copy_item
from ledger.core.values import Entry, NetChange
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseRecord, lease_key, record_item
from ledger.store.memory import MemoryStore
from ledger.store.reads import Get
from ledger.store.writes import Applied, Rejected
from ledger.testing.clock import START

PARTITION = "counter"
KEY = str(entry_id(START + timedelta(seconds=1), 1))
OLD = NetChange(Decimal(5), 2, (), "v1", "", HOME)
NEW = replace(OLD, generation=2, version="v2", home=AWAY)
FENCE = (LeaseGrant(lease_key("compactor#2"), "me", 3).fence(),)
AGAIN = PutAgain(AWAY, KEY, "~net#0002", (2, "v2"))


def remaining(*, epoch: int = 3, shown: NetChange = OLD) -> MemoryStore:
    """Return the region that is home now, with an entry, a net and the lease of an epoch."""
    store = MemoryStore(AWAY)
    store.table.set((PARTITION, KEY), entry_item(Entry(PARTITION, KEY, Decimal(1))))
    key = (PARTITION, f"~net#{shown.generation:04d}")
    store.table.set(key, net_item(shown, PARTITION))
    record = LeaseRecord("compactor#2", "me", "rvn", 30.0, epoch, AWAY)
    store.table.set(lease_key("compactor#2"), record_item(record))
    return store


async def carried_out(store: MemoryStore, succession: Succession) -> object:
    """Carry a succession out, and return the outcome of its fold."""
    done = await apply_succession({AWAY: store}, AWAY, PARTITION, NEW, succession, fence=FENCE)
    return done.fold


def entry(store: MemoryStore) -> Item:
    """Return the entry that the region shows."""
    item = store.table.get((PARTITION, KEY))
    assert item is not None
    return item


@pytest.mark.parametrize(("epoch", "kind"), [(3, Applied), (4, Rejected)])
async def test_a_net_is_taken_over_under_the_lease_alone(epoch: int, kind: type) -> None:
    """A leader that has lost the lease puts no net of the new generation."""
    store = remaining(epoch=epoch)
    outcome = await carried_out(store, Succession(take_over=NEW))
    assert isinstance(outcome, kind)
    assert (store.table.get((PARTITION, "~net#0002")) is not None) == (kind is Applied)
    assert store.table.get((PARTITION, "~net#0001")) == net_item(OLD, PARTITION)


async def test_an_entry_is_put_again_as_a_write_that_replicates() -> None:
    """A put that changes nothing would not: so it is marked, and counts as before."""
    store = remaining(shown=NEW)
    before = entry(store)
    await carried_out(store, Succession(again=(AGAIN,)))
    assert entry(store) == {**before, COPIES: {"N": "1"}}
    await carried_out(store, Succession(again=(AGAIN,)))
    assert entry(store)[COPIES] == {"N": "2"}


@pytest.mark.parametrize("shown", [OLD, replace(NEW, version="v3")])
async def test_nothing_is_put_again_beside_another_net(shown: NetChange) -> None:
    """It may count the entry already, and have forgotten its id."""
    store = remaining(shown=shown)
    before = entry(store)
    await carried_out(store, Succession(again=(AGAIN,)))
    assert entry(store) == before


async def test_an_entry_that_is_gone_is_not_put_again() -> None:
    """It was merged and deleted meanwhile."""
    store = remaining(shown=NEW)
    store.table.set((PARTITION, KEY), None)
    await carried_out(store, Succession(again=(AGAIN,)))
    assert store.table.get((PARTITION, KEY)) is None


class Racing(MemoryStore):
    """A region in which an entry is replaced once it was read."""

    by = entry_item(Entry(PARTITION, KEY, Decimal(9)))

    async def get(self, get: Get) -> Item | None:
        """Read one item, and let another change arrive under the entry's id."""
        found = await super().get(get)
        self.table.set((PARTITION, KEY), self.by)
        return found


async def test_an_entry_that_changes_meanwhile_is_not_put_again() -> None:
    """Of two changes under one id the last writer's counts: it must not be undone."""
    store = Racing(AWAY, remaining(shown=NEW).table)
    await carried_out(store, Succession(again=(AGAIN,)))
    assert entry(store) == entry_item(Entry(PARTITION, KEY, Decimal(9)))


@pytest.mark.parametrize(
    "change", [{"resolved": {"S": "settled"}}, {"hold": {"N": "9"}}], ids=["settled", "extended"]
)
async def test_a_hold_that_changes_meanwhile_is_not_put_again(change: Item) -> None:
    """Settled for what was held it counts as before: open again, it would be settled twice."""
    store = Racing(AWAY, remaining(shown=NEW).table)
    hold = {**entry(store), "hold": {"N": "5"}}
    store.table.set((PARTITION, KEY), hold)
    store.by = {**hold, **change}
    await carried_out(store, Succession(again=(AGAIN,)))
    assert entry(store) == store.by


async def test_what_is_charged_meanwhile_is_not_put_again() -> None:
    """Unmarked it would be charged twice."""
    store = Racing(AWAY, remaining(shown=NEW).table)
    through = {**entry(store), "grant": {"S": "sa-east-1.1/0/0"}}
    store.table.set((PARTITION, KEY), through)
    store.by = {**through, "resolved": {"S": "charged"}}
    await carried_out(store, Succession(again=(AGAIN,)))
    assert entry(store) == store.by


@pytest.mark.parametrize(("there", "left"), [(None, 3), (2, 3), (3, 3), (4, 4)])
async def test_a_copy_replaces_lower_versions_only(there: int | None, left: int) -> None:
    """A leader that was overtaken, or comes twice, takes nothing back."""
    store = remaining(shown=NEW)
    place = SumPlace("sa-east-1", 1)
    if there is not None:
        old = copy_item(PARTITION, place, Sum(Decimal(there), there))
        store.table.set((PARTITION, f"{place.sort_key}{COPY}"), old)
    await carried_out(store, Succession(copies={place: Sum(Decimal(3), 3)}))
    shown = collect(store.table.partitions[PARTITION].values())
    assert shown.copies[place] == Sum(Decimal(left), left)
