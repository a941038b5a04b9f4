"""The one way by which budgets write: never under a clock that is known to be off.

Each write of rights, grants, limits and holds rests on the time somewhere. A grant ends by it, a
rolling limit gives back by it, a step of a limit waits by it, and other processes go by what was
written. So each is sent through a `ControlStore`. That looks at what the region's answers tell of
this machine's clock, as `writes.writer` does for entries. A read comes before each of these
writes, so there is such an answer.

What is dated is dated by the region's time (`time_in`), not by this machine's.
"""

from collections.abc import Awaitable, Callable

from ledger.core.clock_offset import RegionTime, check_offset
from ledger.core.contract import Terms
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import READS, Answer, ForwardingStore, Operation


class ControlStore(ForwardingStore):
    """A region's store that sends no write while this machine's clock is off; `terms` of now."""

    def __init__(self, inner: Store, terms: Callable[[], Terms]) -> None:
        super().__init__(inner)
        self._terms = terms

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a request.

        Raises:
            ClockOff: it is a write, and the clock is off by more than `clock_skew`: it is not sent.
        """
        if operation not in READS:
            check_offset(self.clock_offset, skew=self._terms().clock_skew, region=self.region)
        return await send()


def time_in(store: Store, clock: Clock, terms: Terms) -> RegionTime:
    """Return between which times a region's clock is now; to be asked after an answer of it.

    By the `Date` of its answers, where there is one, else by this machine's clock, which may differ
    from it by the contract's skew.
    """
    return RegionTime.of(clock.now(), store.clock_offset, skew=terms.longest("clock_skew"))
