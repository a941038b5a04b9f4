"""Spends under grants: cases, and the states that they can be in.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proof.simulator.explorer.limits.book import NONE
from proof.simulator.explorer.limits.rules import KEPT, Rules

LOST = 1
"""The region that may be lost."""
THERE, REMOVED, GIVEN_UP = 0, 1, 2
"""It is a replica; it is none any more; nothing that it sent is under way."""


@dataclass(frozen=True, slots=True)
class Case:
    """A small case: what each region mints, in which a process runs, and what may happen.

    `grant` is what a process takes, at most `takes` times; `sends` are from where to where rights
    are sent, 1 each, at most `sent_max` times. `folds` is whether there is a compactor, `crashes`
    whether processes crash, `loses` whether a region is lost; `renews` whether a grant is closed
    and another taken in one write. With `reads_before` a process may freeze between its read of an
    item and its write, with `takes_later` one that takes up rights. A grant grows by 1 at most
    `tops` times. With `fetches` the taker lets the giver send, through the giver's region, and goes
    by the answer.

    What breaks outside the plan: `forks` copies a grant to another process, `reads_stale` lets a
    reclaimer miss entries, `closes_in_place` lets it change an item that it has not read,
    `tops_unwritten` takes a grant for grown that is not known to be, `gives_by_item` writes the
    other region's item, `reclaims_from` is the first phase of a loss in which rights are minted
    again. `base_of` chooses the version of a lost item, of those shown. `counts_unseen` judges what
    was acknowledged and will never be seen as applied; without `judges_rest` only what is applied
    and taken up is judged, not what is charged and minted.
    """

    minted: tuple[int, ...]
    processes: tuple[int, ...]
    grant: int = 1
    takes: int = 1
    sends: frozenset[tuple[int, int]] = frozenset()
    sent_max: int = 0
    folds: bool = False
    crashes: bool = True
    loses: bool = False
    rules: Rules = KEPT
    forks: bool = False
    reads_before: bool = False
    reads_stale: bool = False
    gives_by_item: bool = False
    closes_in_place: bool = False
    takes_later: bool = False
    renews: bool = False
    tops: int = 0
    tops_unwritten: bool = False
    fetches: bool = False
    reclaims_from: int = GIVEN_UP
    counts_unseen: bool = False
    base_of: Callable[..., Any] = field(default=max)
    judges_rest: bool = True

    @property
    def limit(self) -> int:
        """What all regions mint."""
        return sum(self.minted)


class HolderState(NamedTuple):
    """The writes of a rights item that some region may still get, and which each region shows."""

    writes: tuple[int, ...]
    shown: tuple[int, ...]


class Entry(NamedTuple):
    """A spend: its grant, the regions that show it (a bit each), and what its process waits for.

    `owner` waits for the answer, NONE: no process does any more. `is_alive` if the request may
    land; `is_late` if it was signed after the grant's expiry, so that it lives longer.
    """

    holder: int
    version: int
    mask: int
    is_alive: bool
    owner: int
    is_late: bool = False


class Process(NamedTuple):
    """A process: its grant (0: none), what it took of it, how much of that it does not know.

    The grant is larger than `Case.grant` by `more`, as far as it knows; it grew up to `tops` times.
    """

    version: int = 0
    spent: int = 0
    unsure: int = 0
    takes: int = 0
    read: int = NONE
    more: int = 0
    tops: int = 0


class Look(NamedTuple):
    """What a reclaimer has read: the item, and what the entries of one of its grants come to."""

    holder: int
    version: int
    read: int
    shown: int


class Taking(NamedTuple):
    """What one that takes up rights has read: the giver's item as shown, and its own."""

    taker: int
    giver: int
    there: int
    read: int


class State(NamedTuple):
    """All of a small case; `phases` are those of grants, LIVE if not named."""

    holders: tuple[HolderState, ...]
    processes: tuple[Process, ...]
    entries: tuple[Entry, ...] = ()
    phases: tuple[tuple[int, int, int], ...] = ()
    look: Look | None = None
    taking: frozenset[Taking] = frozenset()
    sent: int = 0
    folded: int = 0
    phase: int = THERE
    unseen: int = 0
    unseen_charged: int = 0
    charged_again: int = NONE


def with_entries(state: State, entries: tuple[Entry, ...]) -> State:
    """Return a state with other entries, in their order: equal ones may be exchanged."""
    return state._replace(entries=tuple(sorted(entries)))


def replaced(values: Any, place: int, value: Any) -> Any:
    """Return a tuple with another value in one place."""
    return (*values[:place], value, *values[place + 1 :])
