"""Whether the holder of a lease is alive, which no single look shows."""

from ledger.primitives.leases.item import LeaseItem
from ledger.primitives.leases.keeping import TICK_SECONDS
from ledger.primitives.leases.state import LeaseTerms, Watch
from ledger.runtime.call_deadlines import until_end
from ledger.runtime.clock import Clock


async def is_alive(item: LeaseItem, terms: LeaseTerms, clock: Clock) -> bool:
    """Look until a lease shows another record, or for as long as its owner declared; see `Lease`.

    Raises:
        DamagedItem, StoreError: as `LeaseItem.read`.
    """
    first = await item.read()
    watch = Watch().observe(first, at=clock.monotonic())
    while first and (left := watch.left_seconds(now=clock.monotonic())) > 0:
        await until_end(clock.sleep(max(min(left, terms.poll_seconds), TICK_SECONDS)))
        seen = await item.read()
        if seen is None or seen.rvn != first.rvn:
            return seen is not None and not seen.released
    return False
