"""What a scenario plans, each at its moment: operations, reads, outages, and when there is work.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass

from proof.simulator.profiles import Kind


@dataclass(frozen=True, slots=True)
class Operation:
    """Changes to record at a moment; each of `repeats` (delay, region) repeats the call.

    Each of `others` asks for another list under the key of the call.
    """

    at: float
    region: str
    kind: Kind
    changes: tuple[tuple[str, int], ...]
    repeats: tuple[tuple[float, str], ...] = ()
    others: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SteadyRead:
    """A steady read of a counter in a region at a moment."""

    at: float
    region: str
    counter: str


@dataclass(frozen=True, slots=True)
class Outage:
    """A period in which a link delivers nothing or, without a `target`, a region is down."""

    begins: float
    ends: float
    source: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class BusyPeriod:
    """A period in which compactors run and readers read often."""

    begins: float
    ends: float
