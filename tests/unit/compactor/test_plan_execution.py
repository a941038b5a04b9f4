"""Acting on a plan: batches, the one transaction, and every outcome."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import HOME

from compactor.merge_plan import MergePlan
from compactor.plan_execution import PlanResult, execute_plan
from ledger.core.entry import entry_id, entry_item, net_item, net_of
from ledger.core.errors import Throttled
from ledger.core.values import Entry, NetChange
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseRecord, lease_key, record_item
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import (
    FaultyStore,
    InOrder,
    Late,
    Lost,
    NeverArrived,
    Partial,
    Raises,
)
from ledger.store.writes import (
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Check,
    Delete,
    Outcome,
    Put,
    Rejected,
    Unknown,
)
from ledger.testing.clock import START

PARTITION = "counter"
IDS = tuple(entry_id(START + timedelta(seconds=place), place) for place in range(60))
KEYS = tuple(map(str, IDS))
NET = NetChange(Decimal(5), 60, IDS, "v1", KEYS[-1], HOME)
NEXT = replace(NET, version="v2", merged=())
FENCE = (LeaseGrant(lease_key("compactor"), "me", 3).fence(),)


class Noting(MemoryStore):
    """A store that notes its batches and transactions."""

    def __init__(self) -> None:
        super().__init__(HOME)
        self.batches: list[Sequence[BatchWrite]] = []
        self.transactions: list[Sequence[Action]] = []

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Note and do a batch."""
        self.batches.append(writes)
        return await super().write_batch(writes)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Note and do a transaction."""
        self.transactions.append(actions)
        return await super().transact(actions, token=token)


def made(*, entries: int = 3, shown: NetChange | None = NET, epoch: int = 3) -> Noting:
    """Return a store with entries, a net and the lease of an epoch."""
    store = Noting()
    for key in KEYS[:entries]:
        store.table.set((PARTITION, key), entry_item(Entry(PARTITION, key, Decimal(1))))
    if shown is not None:
        store.table.set((PARTITION, "~net#0001"), net_item(shown, PARTITION))
    record = LeaseRecord("compactor", "me", "rvn", 30.0, epoch, HOME)
    store.table.set(lease_key("compactor"), record_item(record))
    return store


async def done_by(store: Store, plan: MergePlan, *, before: NetChange | None = NET) -> PlanResult:
    """Apply a plan that was made from this net."""
    return await execute_plan(store, PARTITION, before, plan, fence=FENCE)


def shown_net(store: MemoryStore) -> NetChange | None:
    """Return the net that the store shows."""
    item = store.table.get((PARTITION, "~net#0001"))
    return None if item is None else net_of(item)


def left(store: MemoryStore) -> int:
    """Return how many entries the store shows."""
    return sum(not key.startswith("~") for key in store.table.partitions.get(PARTITION, {}))


async def test_nothing_to_do() -> None:
    """An empty plan makes no request."""
    store = made()
    assert await done_by(store, MergePlan(waits="too few entries")) == PlanResult()
    assert not store.batches
    assert not store.transactions


@pytest.mark.parametrize(
    ("count", "sizes"), [(1, [1]), (25, [25]), (26, [25, 1]), (60, [25, 25, 10])]
)
async def test_deletes_in_batches(count: int, sizes: list[int]) -> None:
    """Deletes go in plain batches of up to 25 and nothing else is written."""
    store = made(entries=60)
    assert await done_by(store, MergePlan(deletes=KEYS[:count])) == PlanResult(count)
    assert [len(batch) for batch in store.batches] == sizes
    assert not store.transactions
    assert left(store) == 60 - count
    first = store.batches[0][0]
    assert isinstance(first, Delete)
    assert first.condition is None


async def test_first_fold_is_one_transaction() -> None:
    """The first fold of a collection is the fence and the net, if there is none, together."""
    store = made(shown=None)
    done = await done_by(store, MergePlan(fold=NEXT, folded=2), before=None)
    assert done == PlanResult(0, Applied())
    assert done.is_folded
    ((fence, put),) = store.transactions
    assert isinstance(fence, Check)
    assert isinstance(put, Put)
    assert shown_net(store) == NEXT
    assert left(store) == 3


async def test_later_fold_is_a_put_on_the_version() -> None:
    """A fold on a net is no transaction, which would cost twice as much, and has no fence."""
    store = made(epoch=9)
    assert await done_by(store, MergePlan(fold=NEXT, folded=2)) == PlanResult(0, Applied())
    assert not store.transactions
    assert shown_net(store) == NEXT


async def test_first_fold_needs_no_net() -> None:
    """The first net is put only where none is."""
    store = made(shown=None)
    assert (await done_by(store, MergePlan(fold=NEXT), before=None)).is_folded
    again = await done_by(store, MergePlan(fold=replace(NEXT, version="v3")), before=None)
    assert isinstance(again.fold, Rejected)
    assert shown_net(store) == NEXT


@pytest.mark.parametrize("there", ["v0", "v2", None])
async def test_lost_race(there: str | None) -> None:
    """With another version there, or none, nothing is written."""
    shown = replace(NET, version=there) if there else None
    store = made(shown=shown)
    done = await done_by(store, MergePlan(fold=NEXT))
    assert isinstance(done.fold, Rejected)
    assert not done.is_folded
    assert shown_net(store) == shown


@pytest.mark.parametrize("epoch", [2, 4])
async def test_fence(epoch: int) -> None:
    """Under another epoch of the lease no first net is put."""
    store = made(shown=None, epoch=epoch)
    assert isinstance((await done_by(store, MergePlan(fold=NEXT), before=None)).fold, Rejected)
    assert shown_net(store) is None


async def test_fence_without_lease() -> None:
    """Without a lease in the table no first net is put."""
    store = made(shown=None)
    store.table.set(lease_key("compactor"), None)
    assert isinstance((await done_by(store, MergePlan(fold=NEXT), before=None)).fold, Rejected)


async def test_deletes_come_before_the_fold() -> None:
    """A plan with both deletes first, so that a lost fold costs no deletes."""
    store = made(shown=replace(NET, version="v0"))
    done = await done_by(store, MergePlan(deletes=KEYS[:3], fold=NEXT))
    assert done.deleted == 3
    assert isinstance(done.fold, Rejected)
    assert left(store) == 0


@pytest.mark.parametrize(("fault", "lands"), [(Lost(), True), (NeverArrived(), False)])
async def test_unknown_fold(fault: Lost | NeverArrived, *, lands: bool) -> None:
    """A fold without an answer is reported as unknown, whether it was applied or not."""
    store = made()
    done = await done_by(FaultyStore(store, InOrder(fault)), MergePlan(fold=NEXT))
    assert isinstance(done.fold, Unknown)
    assert not done.is_folded
    assert shown_net(store) == (NEXT if lands else NET)


async def test_late_fold_is_rejected() -> None:
    """A fold that lands after another one, or under another epoch, does nothing."""
    store = made()
    faulty = FaultyStore(store, InOrder(Late()))
    await done_by(faulty, MergePlan(fold=NEXT))
    other = replace(NEXT, version="v3")
    assert (await done_by(faulty, MergePlan(fold=other))).is_folded
    assert isinstance(await faulty.land(), Rejected)
    assert shown_net(store) == other


async def test_partial_batches_are_counted_as_they_ended() -> None:
    """What was not processed, or may not have been, is not counted as deleted."""
    store = made(entries=30)
    faults = InOrder(Partial(unprocessed=(0, 1), lost=(2,), never_arrived=(3,)), None)
    done = await done_by(FaultyStore(store, faults), MergePlan(deletes=KEYS[:30]))
    assert done.deleted == 26
    assert left(store) == 3


async def test_failed_deletes_stop_before_the_fold() -> None:
    """An error while deleting is raised; what was deleted stays so and no fold is tried."""
    store = made(entries=30)
    faulty = FaultyStore(store, InOrder(None, Raises(Throttled("slow down"))))
    with pytest.raises(Throttled):
        await done_by(faulty, MergePlan(deletes=KEYS[:30], fold=NEXT))
    assert left(store) == 5
    assert shown_net(store) == NET


async def test_deleting_again_is_harmless() -> None:
    """Repeating a delete changes nothing."""
    store = made()
    plan = MergePlan(deletes=KEYS[:3])
    await done_by(store, plan)
    before = store.table.partitions[PARTITION].copy()
    await done_by(store, plan)
    assert store.table.partitions[PARTITION] == before
