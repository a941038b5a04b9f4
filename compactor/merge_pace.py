"""Whether merging keeps up, from pass to pass: how late it is, and when it will have caught up.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, field
from math import inf

KEEPS_UP_SECONDS = 900.0
"""Lateness of a compactor that keeps up: a long pass plus a scheduler's interval."""


@dataclass(slots=True)
class MergePace:
    """How late passes have been: the seconds of one, and when that was known (monotonic).

    `collections` are those that had no room for all in the last pass, with the seconds of each.
    """

    late_seconds: float = 0.0
    at: float = -inf
    collections: dict[str, float] = field(default_factory=dict)

    def observe(self, late_seconds: float, *, at: float) -> float:
        """Record how late a pass has left merging; return the seconds until it has caught up.

        0 while it keeps up, infinite while it is no less late than after the previous pass.
        """
        gained, passed = self.late_seconds - late_seconds, at - self.at
        self.late_seconds, self.at = late_seconds, at
        if late_seconds <= KEEPS_UP_SECONDS:
            return 0.0
        return late_seconds * passed / gained if gained > 0 else inf
