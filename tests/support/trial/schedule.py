"""What goes wrong in a trial and when, drawn from its seed: the same again for a replay."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

FAULTS = {
    "kill": 6,
    "stop": 3,
    "zombie": 3,
    "cut": 3,
    "outage": 1,
    "restart": 1,
    "move": 4,
    "export": 3,
    "compactor": 1,
}
"""Kinds of disturbances, with their weights."""
FAULT_EVERY_TICKS = 3
STOP_SECONDS = (2.0, 15.0)
CUT_SECONDS = (1.0, 10.0)
OUTAGE_SECONDS = (0.5, 3.0)


@dataclass(frozen=True, slots=True)
class Event:
    """A disturbance: its round and tick, and the lane and pair of regions, if it needs those."""

    round: int
    tick: int
    kind: str
    lane: int
    pair: tuple[str, str]
    seconds: float

    def describe(self) -> dict[str, Any]:
        """Return it for a report."""
        return asdict(self)


def schedule(
    seed: int, number: int, *, ticks: int, lanes: int, regions: Sequence[str]
) -> list[Event]:
    """Return the events of one round, in order."""
    draw = Random(f"{seed} schedule {number}")  # noqa: S311 (repeatable)
    kinds = list(FAULTS)
    events = []
    for tick in range(2, ticks, FAULT_EVERY_TICKS):
        kind = draw.choices(kinds, list(FAULTS.values()))[0]
        one, other = draw.sample(list(regions), 2)
        low, high = {"cut": CUT_SECONDS, "outage": OUTAGE_SECONDS}.get(kind, STOP_SECONDS)
        seconds = round(draw.uniform(low, high), 1)
        events.append(Event(number, tick, kind, draw.randrange(lanes), (one, other), seconds))
    return events
