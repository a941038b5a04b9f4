"""States of a small table whose entries are put again, and the cases that are explored.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from proof.simulator.explorer.loss.items import Item
from proof.simulator.explorer.production import REGIONS, Deciding, decide_now

HOME = 0
READING, ACTING = 1, 2
IDLE: tuple[Any, ...] = ()
UNREAD = (-1, -1)

Label = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What is explored: how many of each, and which further steps.

    `repeats`: how often an entry may be put again. `answers`: writers say which entries were
    answered; `carried`: the next entry says it. `twice`: a delete may land again. `reader`: the
    region of one. `loses`: the last region may be lost.

    The others break a rule. `settles`: an entry that is not answered waits until it is old.
    `promises`: an answered entry is put once. `stamps`: a delete of an old entry is later than its
    puts. `holds`: leaders wait for readers. `early`: all are merged at once, and forgotten once
    old. `remembers`: what a lost region may have written is remembered.
    """

    regions: int = 2
    entries: int = 1
    leaders: int = 1
    repeats: int = 1
    answers: bool = False
    carried: bool = False
    twice: bool = False
    reader: int | None = None
    loses: bool = False
    deciding: Deciding = decide_now
    settles: bool = True
    promises: bool = True
    stamps: bool = True
    holds: bool = True
    early: bool = False
    remembers: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.regions <= len(REGIONS) or min(self.entries, self.leaders) < 1:  # noqa: PLR2004
            raise ValueError(f"2 to {len(REGIONS)} regions, 1 or more entries and leaders")


class State(NamedTuple):
    """One state.

    The first `old` entries are older than `settle`. `items` has the writes of each entry,
    `reached` the regions (bits) that it has reached, `repeats` how often it was put again;
    `answered` entries (bits) are said to be, `carried` (bits) by the next one. `nets` are the
    contents of all nets, oldest first; `shown` has the number of each region's, 0 for none. A
    leader is IDLE, (READING, base, views, answered) or (ACTING, base, whether it waits for the
    reader, decision); a reader is (what had reached its region, what it has read of each entry).
    `again` entries (bits) were put again after the loss.
    """

    old: int
    items: tuple[Item, ...]
    reached: tuple[int, ...]
    repeats: tuple[int, ...]
    answered: int
    nets: tuple[int, ...]
    shown: tuple[int, ...]
    leaders: tuple[Any, ...]
    reader: tuple[Any, ...] = ()
    lost: bool = False
    again: int = 0
