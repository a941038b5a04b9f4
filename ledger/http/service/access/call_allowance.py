"""How much a caller may do at a time: a token bucket, and a count of what is under way.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass

BURST_SECONDS = 1.0
"""A caller that was quiet may send the requests of so long at once."""


@dataclass(slots=True)
class CallAllowance:
    """What one caller may still do; times are of a clock that only goes forward.

    `rate` is in requests a second, `at_once` how many may be under way; None bounds nothing.
    """

    rate: float | None
    at_once: int | None
    _left: float = -1.0
    _since: float = 0.0
    _under_way: int = 0

    def enter(self, now: float) -> float:
        """Begin a request: return 0, or after how many seconds it may be tried again."""
        if self.at_once is not None and self._under_way >= self.at_once:
            return BURST_SECONDS
        if wait := self.look(now):
            return wait
        self._under_way += 1
        return 0.0

    def look(self, now: float) -> float:
        """Take one look at the table: return 0, or after how many seconds it may be tried again.

        A request is one; one that goes on, since its caller waits or follows, takes further ones.
        """
        return 0.0 if self.rate is None else self._taken(self.rate, now)

    def leave(self) -> None:
        """End a request that `enter` began."""
        self._under_way -= 1

    def _taken(self, rate: float, now: float) -> float:
        burst = max(1.0, rate * BURST_SECONDS)
        left = burst if self._left < 0 else min(burst, self._left + (now - self._since) * rate)
        self._since = now
        if left < 1.0:
            self._left = left
            return (1.0 - left) / rate
        self._left = left - 1.0
        return 0.0
