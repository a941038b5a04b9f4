"""States of a small table that loses a region for good, and the cases that are explored.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from proof.simulator.explorer.loss.items import LOST, Item
from proof.simulator.explorer.loss.mutants import NO_MUTANT, Mutant
from proof.simulator.explorer.production import REGIONS

WHOLE, REDUCED, BACK = 0, 1, 2
"""Before the loss; after it; with a new, empty replica in the lost region's place."""
IDLE: tuple[Any, ...] = ()
READING, ACTING = 1, 2
UNREAD = -1

Label = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What is explored: how many of each, and which further steps.

    `home` is the home before the loss; if it is not the lost region, nothing is taken over.
    `ahead`: the lost region's clock may be ahead. `back`: it comes back as a new replica.
    `reader`: one of two pages, or of a stale replica. `strict`: a change that is counted before its
    entry arrives is wrong too. `always`: the table has lost a region before, so that leaders keep
    the rules for that from the beginning. `late`: what the lost region wrote may arrive even after
    the next contract is in force. `repeats`: each entry is written twice through its region, each
    time with a stamp of its own, and what the lost region may have written is remembered; its clock
    counts as ahead only towards what is written once it is lost.
    """

    regions: int = 2
    entries: int = 1
    leaders: int = 1
    operators: int = 1
    home: int = LOST
    ahead: bool = False
    back: bool = False
    reader: bool = False
    always: bool = False
    late: bool = True
    repeats: bool = False
    strict: bool = True
    mutant: Mutant = NO_MUTANT

    def __post_init__(self) -> None:
        if not 2 <= self.regions <= len(REGIONS) or not 0 <= self.home < self.regions:  # noqa: PLR2004
            raise ValueError(f"2 to {len(REGIONS)} regions, one of them home")
        if self.entries < 1 or self.leaders < 1 or not 1 <= self.operators <= 2:  # noqa: PLR2004
            raise ValueError("1 or more entries and leaders, 1 or 2 operators")

    def with_mutant(self, mutant: Mutant) -> "Case":
        """Return this case with a mutant, as large as that needs."""
        return replace(self, **mutant.case, mutant=mutant, strict=False)


class Entry(NamedTuple):
    """An entry's item, and the regions (bits) that it has reached, by itself or in a copy."""

    item: Item
    reached: int


class State(NamedTuple):
    """One state.

    `claims` is the contract's item of the next generation, written by operators (1, 2); `force` has
    the operators (bits) that found theirs everywhere. A leader is IDLE, (READING, home, base,
    views) or (ACTING, home, whether it waits for the reader, decision); a reader is (region,
    whether its nets are the older part, what it has read, what had reached the region).
    """

    phase: int
    force: int
    claims: Item
    nets: tuple[Item, ...]
    entries: tuple[Entry, ...]
    leaders: tuple[Any, ...]
    reader: tuple[Any, ...]


class Step(NamedTuple):
    """What happens, the state after it, and what is wrong then; empty if nothing is."""

    label: Label
    state: State
    wrong: str


def with_one(values: tuple[Any, ...], place: int, value: object) -> tuple[Any, ...]:
    """Return the values with another one in this place."""
    return (*values[:place], value, *values[place + 1 :])
