"""What a change of the contract waits for, as it is reported to the operator.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ledger.core.durations import spoken


@dataclass(frozen=True, slots=True)
class Alone:
    """How many items only a region that leaves shows so; `is_whole` if the whole table was seen."""

    items: int
    is_whole: bool = True

    @property
    def is_none(self) -> bool:
        """Whether the region's replica can go: all that it shows is in the others."""
        return self.is_whole and not self.items

    def __str__(self) -> str:
        return f"{'' if self.is_whole else 'at least '}{self.items:,} items"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a change waits for: regions that do not show a revision, time, or replicas' removal.

    `alone` is what only those replicas have; None once their removal has begun.
    """

    revision: int
    regions: tuple[str, ...] = ()
    seconds_left: float = 0.0
    replicas: tuple[str, ...] = ()
    alone: Alone | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What is waited for, and the minutes left."""
        return self.revision, self.regions, self.seconds_left // 60, self.replicas, self.alone

    def __str__(self) -> str:
        revision, names = f"revision {self.revision}", ", ".join(self.replicas)
        if self.regions:
            return f"{revision} has not arrived in {', '.join(self.regions)}"
        if not self.replicas:
            return f"{revision} comes into force in {spoken(self.seconds_left)}"
        if self.alone is None:
            return f"{revision} comes into force once the replica in {names} is removed"
        if not self.alone.is_none:
            return (
                f"{self.alone} are in {names} alone, or newer there, and are lost with its replica:"
                " do not remove it before they have replicated; they are counted again every minute"
            )
        return (
            f"{revision} comes into force once the replica in {names} is removed: nothing is in"
            f" {names} alone, so remove it with `aws dynamodb update-table --replica-updates`"
        )


Report = Callable[[Waiting], None]
