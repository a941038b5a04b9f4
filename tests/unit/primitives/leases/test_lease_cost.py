"""What a lease costs, as its page says; and a paused holder with and without its fence."""

import random
import re
from pathlib import Path

from support.ledgers import sample, services_of

import ledger
from ledger.core.entry import Item
from ledger.primitives.leases import Lease, LeaseGrant, LeaseTerms, NotHeld
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Applied, Put, Rejected
from ledger.testing.clock import ManualClock

REGION = "eu-west-1"
PAGE = (Path(ledger.__file__).parent / "docs/reference/costs.md").read_text(encoding="utf-8")
TERMS = LeaseTerms(lease_seconds=30, heartbeat_seconds=10)


def contender(owner: str, store: Store, clock: Clock) -> Lease:
    """Return a contender for one lease."""
    randomness = random.Random(owner)  # noqa: S311 (repeatable)
    return Lease(
        store,
        "job",
        owner=owner,
        terms=TERMS,
        services=services_of(clock, randomness),
    )


def said(work: str) -> tuple[int, int]:
    """Return the write and read units of some work, as the page says."""
    ((writes, reads),) = re.findall(rf"^\| {work} \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    return int(writes), int(reads)


def result(by: str) -> Item:
    """Return the item that the holder of the lease writes."""
    return {"pk": {"S": "report"}, "sk": {"S": "today"}, "by": {"S": by}}


async def test_the_units_of_each_step() -> None:
    """Acquire, heartbeat, release, a look while waiting and the fence cost what the page says."""
    clock, metrics, table = ManualClock(), Metrics(None), MemoryTable()
    store = MeteredStore(MemoryStore(REGION, table), metrics=metrics, clock=clock)
    spent = (0.0, 0.0)

    def since_last() -> tuple[float, float]:
        nonlocal spent
        now = tuple(
            sample(metrics, "ledger_consumed_units_total", kind=kind) for kind in ("write", "read")
        )
        before, spent = spent, (now[0], now[1])
        return now[0] - before[0], now[1] - before[1]

    lease = contender("a", store, clock)
    assert isinstance(await lease.acquire(0), LeaseGrant)
    assert since_last() == said("acquire")
    assert await lease.heartbeat()
    assert since_last() == said("heartbeat; release")
    assert isinstance(await contender("b", store, clock).acquire(0), NotHeld)
    assert since_last() == said("a look while waiting")
    await store.transact([lease.fence(), Put(result("a"))])
    writes, reads = said("the fence in a transaction")
    assert since_last() == (writes + 2, reads)  # and the write that is fenced
    assert await lease.release()
    assert since_last() == said("heartbeat; release")


async def test_a_paused_holder_is_stopped_by_the_fence_alone() -> None:
    """After its pause the fenced write is rejected, the same one without the fence is applied."""
    clock, table = ManualClock(), MemoryTable()
    store = MemoryStore(REGION, table)
    paused, next_one = contender("paused", store, clock), contender("next", store, clock)
    assert isinstance(await paused.acquire(0), LeaseGrant)
    paused.check()
    fence = paused.fence()  # it has checked, and is paused before it writes

    assert isinstance(await next_one.acquire(0), NotHeld)
    await clock.advance(TERMS.lease_seconds)
    assert isinstance(await next_one.acquire(0), LeaseGrant)
    await store.transact([next_one.fence(), Put(result("next"))])

    assert isinstance(await store.transact([fence, Put(result("paused"))]), Rejected)
    assert table.get(("report", "today")) == result("next")
    assert isinstance(await store.transact([Put(result("paused"))]), Applied)
    assert table.get(("report", "today")) == result("paused")
