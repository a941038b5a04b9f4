"""How often and how fast something is tried again: exponential backoff with full jitter.

Source: AWS Architecture Blog, "Exponential Backoff And Jitter" (full jitter).
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits of up to `first_seconds`, doubling up to `longest_seconds`, `tries_max` tries."""

    first_seconds: float = 0.05
    longest_seconds: float = 2.0
    tries_max: int = 8

    def wait_seconds(self, tries: int, randomness: random.Random) -> float:
        """Return how long to wait after this many failed tries (1 or more)."""
        doublings = min(tries - 1, 30)
        return randomness.uniform(0, min(self.longest_seconds, self.first_seconds * 2**doublings))
