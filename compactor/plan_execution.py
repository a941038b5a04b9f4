"""Carrying out a plan, through the home region only.

Deleting a merged entry of a committed net is harmless however often it is repeated, so deletes are
plain batches. A fold is a put on condition that the net is still at the version observed. A missing
net has no version that shows what its leader had seen, so the first one is put in a transaction
with the `fence`: that its leader still leads. The next pass handles a lost race or an unknown
outcome.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from compactor.merge_plan import MergePlan
from compactor.succession import PutAgain, Succession
from ledger.core.capacity import item_size
from ledger.core.entry import GRANT, HOLD, RESOLVED, Item, net_item
from ledger.core.fold import COPIES
from ledger.core.sums import Sum, copy_item
from ledger.core.values import NetChange
from ledger.runtime.tasks import run_requests
from ledger.store.conditions import Absent, AllOf, AnyOf, Compares, Condition, Equals, Has, Not
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import BATCH_WRITES_MAX, Applied, Check, Deletes, Outcome, Put

BATCHES_AT_ONCE = 4
"""Concurrent batches per collection: thousands of deletes take seconds, alongside other work."""


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of a plan: entries deleted, and the outcome of its fold (None without one)."""

    deleted: int = 0
    fold: Outcome | None = None

    @property
    def is_folded(self) -> bool:
        """Whether the fold is known to be durable."""
        return isinstance(self.fold, Applied)


async def execute_plan(
    store: Store,
    partition: str,
    net: NetChange | None,
    plan: MergePlan,
    *,
    fence: Sequence[Check],
) -> PlanResult:
    """Carry out a plan that was made from `net`.

    Raises:
        StoreError: DynamoDB failed; entries deleted before that stay deleted, which is harmless.
    """
    deleted = await _delete(store, partition, plan.deletes)
    if plan.fold is None:
        return PlanResult(deleted)
    before = 0 if net is None else item_size(net_item(net, partition))
    put = Put(net_item(plan.fold, partition), condition=_still(net), replaces_bytes=before)
    if net is not None:
        return PlanResult(deleted, await store.write(put))
    return PlanResult(deleted, await store.transact([*fence, put]))


async def apply_succession(
    stores: Mapping[str, Store],
    home: str,
    partition: str,
    net: NetChange | None,
    succession: Succession,
    *,
    fence: Sequence[Check],
) -> PlanResult:
    """Carry out what a table that lost a region needs besides the plan made from `net`.

    Raises:
        StoreError: DynamoDB failed; what was done before stays done, and is harmless.
    """
    store = stores[home]
    for place, copied in succession.copies.items():
        await store.write(Put(copy_item(partition, place, copied), newer_than_there(copied)))
    if succession.take_over is not None:
        put = Put(net_item(succession.take_over, partition), Absent())
        return PlanResult(0, await store.transact([*fence, put]))
    deleted = 0
    for region, sort_keys in (succession.deletes or {}).items():
        deleted += await _delete(stores[region], partition, sort_keys)
    for again in succession.again:
        await _put_again(stores[again.region], partition, again)
    plan = replace(succession.plan, deletes=())
    done = await execute_plan(store, partition, net, plan, fence=fence)
    return PlanResult(deleted, done.fold)


async def _put_again(store: Store, partition: str, again: PutAgain) -> None:
    """Put an entry once more, if it and the net are as they were observed.

    The entry is put with an additional mark, because DynamoDB does not replicate a write that
    changes nothing; readers ignore it.
    """
    item = await store.get(Get((partition, again.key)))
    if item is None:
        return
    stamp = again.stamp
    held = Absent() if stamp is None else Equals("version", {"S": stamp[1]})
    copies = int(item.get(COPIES, {}).get("N", "0")) + 1
    await store.transact(
        [
            Check((partition, again.net_key), held),
            Put({**item, COPIES: {"N": str(copies)}}, _as_read(item)),
        ]
    )


def _as_read(item: Item) -> Condition:
    """Return the condition that an entry is as it was read: it may be resolved, or extended."""
    unchanged = Equals("change", item["change"])
    if GRANT not in item and HOLD not in item:
        return unchanged
    is_resolved = RESOLVED in item
    resolved = Equals(RESOLVED, item[RESOLVED]) if is_resolved else Not(Has(RESOLVED))
    extended = (Equals(HOLD, item[HOLD]),) if HOLD in item else ()
    return AllOf((unchanged, *extended, resolved))


def newer_than_there(copied: Sum) -> Condition:
    """Return the condition for a put of a copy: there is none, or one of a lower version."""
    return AnyOf((Absent(), Compares("version", "<", {"N": str(copied.version)})))


def _still(net: NetChange | None) -> Condition:
    return Absent() if net is None else Equals("version", {"S": net.version})


async def _delete(store: Store, partition: str, sort_keys: Sequence[str]) -> int:
    async def delete(chunk: Sequence[str]) -> int:
        outcome = await store.write_batch(Deletes(partition, chunk))
        return len(chunk) - len(outcome.unprocessed) - len(outcome.unknown)

    starts = range(0, len(sort_keys), BATCH_WRITES_MAX)
    jobs = [partial(delete, sort_keys[start : start + BATCH_WRITES_MAX]) for start in starts]
    return sum(await run_requests(jobs, at_once=BATCHES_AT_ONCE))
