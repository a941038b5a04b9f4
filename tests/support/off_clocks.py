"""Machines whose clocks are off, with stores that know it or do not."""

from datetime import datetime, timedelta

from ledger.core.clock_offset import ClockOffset
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.testing.clock import ManualClock


class OffClock:
    """Another machine's view of a clock's time: its time of day is off by so many seconds."""

    def __init__(self, right: ManualClock, off_seconds: float) -> None:
        self._right = right
        self.off_seconds = off_seconds

    def now(self) -> datetime:
        """Return the time of day, wrong."""
        return self._right.now() + timedelta(seconds=self.off_seconds)

    def monotonic(self) -> float:
        """Return elapsed seconds, right."""
        return self._right.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait, rightly."""
        await self._right.sleep(seconds)


class MeasuringStore(ForwardingStore):
    """A store whose answers tell the offset that a test sets; at first nothing is known."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.offset: ClockOffset | None = None

    def measure(self, seconds: float) -> None:
        """Let the answers tell that the clock is ahead by so much, as whole seconds allow."""
        self.offset = ClockOffset(seconds - 0.75, seconds + 0.25)

    @property
    def clock_offset(self) -> ClockOffset | None:
        """What the test has set."""
        return self.offset
