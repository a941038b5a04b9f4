"""Carrying out a plan, through the home region only.

Deleting a merged entry of a committed net is harmless however often it is repeated, so deletes are
plain batches. The fold is one transaction on two conditions: the lease's epoch is still ours, and
the net is still at the version observed. The next pass handles a lost race or an unknown outcome.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from compactor.plan import Plan
from ledger.core import keys
from ledger.core.entry import net_item
from ledger.core.values import NetChange
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.writes import BATCH_WRITES_MAX, Applied, Check, Delete, Outcome, Put

BATCHES_AT_ONCE = 4
"""Concurrent batches per collection: thousands of deletes take seconds, beside other work."""


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a plan: entries deleted, and the outcome of its fold (None without one)."""

    deleted: int = 0
    fold: Outcome | None = None

    @property
    def is_folded(self) -> bool:
        """Whether the fold is known to be durable."""
        return isinstance(self.fold, Applied)


async def apply(
    store: Store,
    partition: str,
    net: NetChange | None,
    plan: Plan,
    *,
    fence: Check,
    sizes: Mapping[str, int],
) -> Done:
    """Carry out a plan that was made from `net`.

    Raises:
        StoreError: DynamoDB failed; entries deleted before that stay deleted, which is harmless.
    """
    deleted = await _delete(store, partition, plan.deletes, sizes)
    if plan.fold is None:
        return Done(deleted)
    before = 0 if net is None else sizes.get(keys.net_sort_key(net.generation), 0)
    put = Put(net_item(plan.fold, partition), condition=_still(net), replaces_bytes=before)
    return Done(deleted, await store.transact([fence, put]))


def _still(net: NetChange | None) -> Condition:
    return Absent() if net is None else Equals("version", {"S": net.version})


async def _delete(
    store: Store, partition: str, sort_keys: Sequence[str], sizes: Mapping[str, int]
) -> int:
    async def delete(chunk: Sequence[str]) -> int:
        outcome = await store.write_batch(
            [Delete((partition, key), size_bytes=sizes.get(key, 0)) for key in chunk]
        )
        return len(chunk) - len(outcome.unprocessed) - len(outcome.unknown)

    starts = range(0, len(sort_keys), BATCH_WRITES_MAX)
    jobs = [partial(delete, sort_keys[start : start + BATCH_WRITES_MAX]) for start in starts]
    return sum(await run_all(jobs, at_once=BATCHES_AT_ONCE))
