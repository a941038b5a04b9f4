"""States of the small world that the explorer walks through, in integers.

One collection, its entries, two or three regions, leaders, plans in flight, a reader. All versions
of the net are written one after another, so they are numbered by age, 1 for the oldest that still
matters; 0 is no net. A version that no region shows or can receive, and no leader remembers, is
dropped.

An entry is one integer. From its lowest bit: for each region whether its item and its delete have
arrived, whether it has reached the region, and which leaders have seen it there; for each leader
and each flight what is planned for it; two bits of the reader; three bits for each net.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from proof.simulator.explorer.mutants import NO_MUTANT, Mutant
from proof.simulator.explorer.production import NET_BITS, REGIONS

LEADERS_MAX = 2
NETS_MAX = 10
"""More nets at a time than any case keeps alive; a state with more is refused."""
PLAN_BITS = 1 + NET_BITS
"""Of each entry a plan knows whether to delete it, and what the new net is to know of it."""
NET_MASK = (1 << NET_BITS) - 1
PLAN_MASK = (1 << PLAN_BITS) - 1
COUNT_MASK = 0b11

READING, ACTING = 1, 2
IDLE: tuple[Any, ...] = ()
UNREAD, HALF_READ = -1, -2
MOVED = 1

Label = tuple[str | int, ...]
Doing = tuple[Any, ...]
"""What a leader does: IDLE; (READING, net read first, net of each view); (ACTING, home that the
new net names, whether a reader must be waited for)."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is explored: how many of each, and which further steps.

    `in_flight`: plans that a leader may leave in flight. `reader`: a reader of two pages, or of a
    stale net. `paged`: a leader reads a view's entries first and its net later. `move`: the home
    moves to the second region, where the last leader takes over.
    `fold_max`: ids in a net at most, 0 for no bound. `strict`: a change that is counted before its
    entry arrives, and a net that counts less than the one before, are wrong too. `book`: entries
    are transfers of a book.
    """

    regions: int = 2
    entries: int = 2
    leaders: int = 1
    in_flight: int = 0
    paged: bool = False
    reader: bool = False
    move: bool = False
    fold_max: int = 0
    mutant: Mutant = NO_MUTANT
    strict: bool = True
    book: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.regions <= len(REGIONS) or not 1 <= self.leaders <= LEADERS_MAX:
            raise ValueError(f"1 to {len(REGIONS)} regions, 1 to {LEADERS_MAX} leaders")
        if self.in_flight not in (0, 1) or self.entries < 1:
            raise ValueError("0 or 1 plans in flight, 1 or more entries")
        if self.move and (self.regions < 2 or self.leaders < 2):  # noqa: PLR2004
            raise ValueError("a move takes two regions, and two leaders: one for each home")

    def with_mutant(self, mutant: Mutant) -> "Case":
        """Return this case, enlarged to one in which a mutant shows.

        A change counted before its entry arrives, and a net that counts less than the one before,
        are accepted: the trace is to end where a region shows a wrong total.
        """
        return replace(
            self,
            entries=max(self.entries, mutant.entries),
            leaders=max(self.leaders, mutant.leaders),
            paged=self.paged or mutant.needs_pages,
            reader=self.reader or mutant.needs_reader,
            mutant=mutant,
            strict=False,
        )


class State(NamedTuple):
    """One state.

    `homes` has the home of each net, oldest first, `shown` the net that each region shows,
    `in_flight` the home and the new net's home of each plan in flight, `reader` its region, whether
    its net is the older part of what it reads, and that net; `phase` is MOVED once
    the new home is in force.
    """

    homes: tuple[int, ...]
    shown: tuple[int, ...]
    leaders: tuple[Doing, ...]
    in_flight: tuple[tuple[int, ...], ...]
    reader: tuple[int, ...]
    phase: int
    entries: tuple[int, ...]


class Step(NamedTuple):
    """What happens, the state after it, and what is wrong then; empty if nothing is."""

    label: Label
    state: State
    wrong: str


class Layout:
    """Where things lie in the integer of an entry."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.regions = range(case.regions)
        self.region_bits = 3 + case.leaders
        plans = case.regions * self.region_bits
        self.put = [place * self.region_bits for place in self.regions]
        self.deleted = [place + 1 for place in self.put]
        self.known = [place + (0 if case.strict else 2) for place in self.put]
        self.plan = [plans + place * PLAN_BITS for place in range(case.leaders)]
        first = plans + case.leaders * PLAN_BITS
        self.flight = [first + place * PLAN_BITS for place in range(case.in_flight)]
        self.reader = first + case.in_flight * PLAN_BITS
        self.nets = self.reader + 2
        self.entry_bits = self.nets + NET_BITS * NETS_MAX
        self.puts = sum(1 << place for place in self.put)
        self.deletes = sum(1 << place for place in self.deleted)

    def seen(self, region: int, leader: int) -> int:
        """Return the place of: the leader has seen it in the region."""
        return self.put[region] + 3 + leader

    def is_visible(self, entry: int, region: int) -> int:
        """Return 1 if a region shows an entry, else 0."""
        return entry >> self.put[region] & ~(entry >> self.deleted[region]) & 1

    def known_to_net(self, entry: int, slot: int) -> int:
        """Return what a net knows of an entry; 0 for no net."""
        return entry >> (self.nets + NET_BITS * (slot - 1)) & NET_MASK if slot else 0

    def leader_mask(self, leader: int) -> int:
        """Return the bits of all that a leader has seen and planned."""
        mask = PLAN_MASK << self.plan[leader]
        for region in self.regions:
            mask |= 1 << self.seen(region, leader)
        return mask

    def leader_fields(self) -> list[tuple[int, int, int]]:
        """Return place, place and mask of what two leaders exchange when they change roles."""
        if self.case.leaders < LEADERS_MAX:
            return []
        seen = [(self.seen(region, 0), self.seen(region, 1), 1) for region in self.regions]
        return [*seen, (self.plan[0], self.plan[1], PLAN_MASK)]

    def initial(self) -> State:
        """Return the state in which nothing is written."""
        case = self.case
        return State(
            homes=(),
            shown=(0,) * case.regions,
            leaders=(IDLE,) * case.leaders,
            in_flight=((),) * case.in_flight,
            reader=(),
            phase=0,
            entries=(0,) * case.entries,
        )

    def tidy(self, state: State) -> State:
        """Forget versions that no region shows or can still get, and no one remembers."""
        oldest = min(state.shown)
        for slot in range(oldest - 1, 0, -1):
            if not self._is_remembered(state, slot):
                state = self._without_net(state, slot)
        return state

    @staticmethod
    def _is_remembered(state: State, slot: int) -> bool:
        if state.reader and state.reader[2] == slot:
            return True
        return any(
            doing[:1] == (READING,) and (doing[1] == slot or slot in doing[2])
            for doing in state.leaders
        )

    def _without_net(self, state: State, slot: int) -> State:
        def moved(number: int) -> int:
            return number - 1 if number > slot else number

        below = self.nets + NET_BITS * (slot - 1)
        kept = (1 << below) - 1
        leaders = tuple(
            (READING, moved(doing[1]), tuple(map(moved, doing[2])))
            if doing[:1] == (READING,)
            else doing
            for doing in state.leaders
        )
        return state._replace(
            homes=(*state.homes[: slot - 1], *state.homes[slot:]),
            shown=tuple(map(moved, state.shown)),
            leaders=leaders,
            reader=(*state.reader[:2], moved(state.reader[2])) if state.reader else (),
            entries=tuple(
                entry & kept | entry >> (below + NET_BITS) << below for entry in state.entries
            ),
        )


def entry_name(place: int) -> str:
    """Return what an entry is called in a trace."""
    return chr(ord("a") + place)


def names(places: Sequence[int]) -> str:
    """Return the names of some entries."""
    return " ".join(map(entry_name, places))


def with_one(values: tuple[Any, ...], place: int, value: object) -> tuple[Any, ...]:
    """Return the values with another one in this place."""
    return (*values[:place], value, *values[place + 1 :])


def doing_now(state: State, leader: int, doing: Doing) -> State:
    """Return the state in which a leader does this."""
    return state._replace(leaders=with_one(state.leaders, leader, doing))


def cleared(state: State, shift: int) -> State:
    """Return the state in which a plan's new net knows of no entry."""
    mask = ~(NET_MASK << shift)
    return state._replace(entries=tuple(entry & mask for entry in state.entries))
