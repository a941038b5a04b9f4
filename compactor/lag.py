"""Replication lag, measured on the lease's heartbeats without comparing clocks of machines.

Each heartbeat is acknowledged at home at a known time; every other region is read until it shows
the record version number of that heartbeat or a later one. The time in between is the lag, to the
precision of the interval of the reads. Until a heartbeat is seen, the reported lag grows.
"""

from collections.abc import Callable, Mapping

import anyio

from ledger.core.errors import StoreError
from ledger.primitives.leases.holding import Beat
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import lease_key
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Get

FIRST_WAIT_SECONDS = 0.05
LONGEST_WAIT_SECONDS = 1.0


async def watch_lag(
    stores: Mapping[str, Store],
    lease: Lease,
    *,
    clock: Clock,
    report: Callable[[Mapping[str, float]], None],
    home: str,
) -> None:
    """Measure the lag of every other region until cancelled; `report` gets seconds by region."""
    report({home: 0.0})
    async with anyio.create_task_group() as tasks:
        for region, store in stores.items():
            if region != home:
                tasks.start_soon(_watch_region, region, store, lease, clock, report)


async def _watch_region(
    region: str,
    store: Store,
    lease: Lease,
    clock: Clock,
    report: Callable[[Mapping[str, float]], None],
) -> None:
    seen: Beat | None = None
    target: Beat | None = None  # kept until seen: the lease drops old heartbeats
    wait = FIRST_WAIT_SECONDS
    while True:  # until cancelled with the pass
        target = target or _next_beat(lease, seen)
        if target is None:
            await clock.sleep(wait)
            continue
        shown = await _shown(store, lease, seen)
        now = clock.monotonic()
        if shown is not None and shown.answered >= target.answered:
            report({region: max(0.0, now - shown.answered)})
            seen, target, wait = shown, None, FIRST_WAIT_SECONDS
        else:
            report({region: now - target.answered})
            await clock.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT_SECONDS)


def _next_beat(lease: Lease, seen: Beat | None) -> Beat | None:
    """Return the earliest heartbeat that the region has not shown yet."""
    later = [beat for beat in lease.beats if seen is None or beat.answered > seen.answered]
    return later[0] if later else None


async def _shown(store: Store, lease: Lease, seen: Beat | None) -> Beat | None:
    """Return the heartbeat that a region shows; None if it is not ours, `seen` if unreadable."""
    try:
        item = await store.get(Get(lease_key(lease.name), consistent=True))
    except StoreError:
        return seen
    rvn = item.get("rvn", {}).get("S") if item else None
    return next((beat for beat in lease.beats if beat.rvn == rvn), None)
