"""A small world in which anything may happen next: every step that the explorer can take.

One collection, its entries, two or three regions, leaders. A state holds

- of each net change that is still shown, under way or remembered by a leader: what it knows;
- of each region: the net that it shows. A put or delete of an entry, and each version of the net,
  reaches each other region on its own, at any time later, in any order; the last writer wins;
- of each leader: idle, reading (the net at home, then each region's view, one step each), or
  acting on what was decided then: deletes and the fold, each a step of its own, however late, in
  any order, or never (a crash). So every leader is also a zombie;
- of each plan left in flight by a leader that has gone on: the same, until it lands or is lost;
- of a reader: what its first page showed.

All versions of the net are written one after another, so they are numbered by age, 1 for the
oldest that still matters; a version that nobody can show or receive any more is forgotten.
Entries, leaders and the regions that are not home can be exchanged, so of the states that differ
only in that one is kept. An entry is one integer: bits for each region, leader, flight and net.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ledger.sim.explore_plan import NET_BITS, NOWHERE, REGIONS, Judge, Twin

LEADERS_MAX = 2
NETS_MAX = 10
"""More nets at a time than any case keeps alive; a state with more is refused."""
PLAN_BITS = 1 + NET_BITS
_NET_MASK = (1 << NET_BITS) - 1
_PLAN_MASK = (1 << PLAN_BITS) - 1

READING, ACTING, MOVED = 1, 2, 3
IDLE: tuple[int, ...] = ()
UNREAD, HALF_READ = -1, -2
ASKED, HANDED_OVER = 1, 2

Label = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What is explored: how many of each, and which further steps.

    `flights`: plans that a leader may leave in flight. `reader`: a reader of two pages, or of a
    stale net. `paged`: a leader reads a view's entries first and its net later. `move`: the home moves to the second region, where the last leader takes over.
    `fold_max`: ids in a net at most, 0 for no bound. `strict`: a change that is counted before its
    entry arrives, and a net that counts less than the one before, are wrong too.
    """

    regions: int = 2
    entries: int = 2
    leaders: int = 1
    flights: int = 0
    paged: bool = False
    reader: bool = False
    move: bool = False
    fold_max: int = 0
    twin: Twin = Twin("")
    strict: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.regions <= len(REGIONS) or not 1 <= self.leaders <= LEADERS_MAX:
            raise ValueError(f"1 to {len(REGIONS)} regions, 1 to {LEADERS_MAX} leaders")
        if self.flights not in (0, 1) or self.entries < 1:
            raise ValueError("0 or 1 flights, 1 or more entries")
        if self.move and (self.regions < 2 or self.leaders < 2):  # noqa: PLR2004
            raise ValueError("a move takes two regions, and two leaders: one for each home")


class State(NamedTuple):
    """One state; `entries` are integers, see `Model`; `shown` has the net of each region."""

    homes: tuple[int, ...]
    shown: tuple[int, ...]
    leaders: tuple[tuple[object, ...], ...]
    flights: tuple[tuple[int, ...], ...]
    reader: tuple[int, ...]
    phase: int
    entries: tuple[int, ...]


class Step(NamedTuple):
    """What happens, the state after it, and what is wrong then; empty if nothing is."""

    label: Label
    state: State
    wrong: str


class Model:
    """The steps of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.twin = case.twin
        self.judge = Judge(
            entries=case.entries,
            regions=case.regions,
            fold_max=case.fold_max or case.entries,
            deciding=case.twin.deciding,
        )
        self.is_symmetric = not 0 < case.fold_max < case.entries
        self._regions = range(case.regions)
        self._block = 3 + case.leaders
        plans = case.regions * self._block
        self._plan = [plans + place * PLAN_BITS for place in range(case.leaders)]
        flights = plans + case.leaders * PLAN_BITS
        self._flight = [flights + place * PLAN_BITS for place in range(case.flights)]
        self._reader = flights + case.flights * PLAN_BITS
        self._nets = self._reader + 2
        self.entry_bits = self._nets + NET_BITS * NETS_MAX
        self.region_bits = self._block
        self.region_mask = (1 << self._block) - 1
        self.leader_fields = self._leader_fields()

    # Where things lie in an entry's integer.

    def put_bit(self, region: int) -> int:
        """Its item has arrived in the region."""
        return region * self._block

    def deleted_bit(self, region: int) -> int:
        """Its delete has arrived in the region."""
        return region * self._block + 1

    def known_bit(self, region: int) -> int:
        """It has reached the region: its item, or where that is allowed a net that counts it."""
        return region * self._block + (0 if self.case.strict else 2)

    def seen_bit(self, region: int, leader: int) -> int:
        """The leader has seen it in the region."""
        return region * self._block + 3 + leader

    def is_visible(self, entry: int, region: int) -> int:
        """Tell (1 or 0) whether a region shows an entry."""
        return entry >> self.put_bit(region) & ~(entry >> self.deleted_bit(region)) & 1

    def known_to_net(self, entry: int, slot: int) -> int:
        """Return what a net knows of an entry; 0 for no net."""
        return entry >> (self._nets + NET_BITS * (slot - 1)) & _NET_MASK if slot else 0

    def leader_mask(self, leader: int) -> int:
        """Return the bits of all that a leader has seen and planned."""
        mask = _PLAN_MASK << self._plan[leader]
        for region in self._regions:
            mask |= 1 << self.seen_bit(region, leader)
        return mask

    def _leader_fields(self) -> list[tuple[int, int, int]]:
        """Return place, place and mask of what two leaders exchange when they change roles."""
        if self.case.leaders < LEADERS_MAX:
            return []
        seen = [(self.seen_bit(region, 0), self.seen_bit(region, 1), 1) for region in self._regions]
        return [*seen, (self._plan[0], self._plan[1], _PLAN_MASK)]

    def initial(self) -> State:
        """Return the state in which nothing is written."""
        case = self.case
        return State(
            homes=(),
            shown=(0,) * case.regions,
            leaders=(IDLE,) * case.leaders,
            flights=((),) * case.flights,
            reader=(),
            phase=0,
            entries=(0,) * case.entries,
        )

    def is_finished(self, state: State) -> bool:
        """Tell whether all is written, merged, deleted and forgotten everywhere (P2 and P4)."""
        newest = len(state.homes)
        return (
            bool(newest)
            and all(shown == newest for shown in state.shown)
            and not any(self.is_visible(one, place) for one in state.entries for place in self._regions)
            and all(self.known_to_net(one, newest) == 1 for one in state.entries)
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Yield everything that may happen next."""
        yield from self._entries(state)
        yield from self._arriving_nets(state)
        for leader, doing in enumerate(state.leaders):
            yield from self._leader(state, leader, doing)
        for flight, plan in enumerate(state.flights):
            if plan:
                yield from self._flying(state, flight, plan)
        if self.case.reader:
            yield from self._reading(state)
        if self.case.move and not state.phase:
            yield Step(("move",), state._replace(phase=ASKED), "")

    # Writing, and what arrives by replication.

    def _entries(self, state: State) -> Iterator[Step]:
        puts = sum(1 << self.put_bit(region) for region in self._regions)
        deletes = puts << 1
        for place in self._distinct(state.entries):
            entry = state.entries[place]
            if not entry & puts:
                for region in self._regions:
                    yield self._arrived(state, "write", place, region)
                continue
            for region in self._regions:
                if not entry >> self.put_bit(region) & 1:
                    yield self._arrived(state, "entry", place, region)
                if entry & deletes and not entry >> self.deleted_bit(region) & 1:
                    entries = _set(state.entries, place, entry | 1 << self.deleted_bit(region))
                    yield self._checked(("delete", place, region), state, entries, region)

    def _arrived(self, state: State, what: str, place: int, region: int) -> Step:
        entry = state.entries[place] | 1 << self.put_bit(region) | 1 << self.known_bit(region)
        return self._checked((what, place, region), state, _set(state.entries, place, entry), region)

    def _arriving_nets(self, state: State) -> Iterator[Step]:
        for region in self._regions:
            for slot in range(state.shown[region] + 1, len(state.homes) + 1):
                after = self._show(state, region, slot)
                yield Step(("net", region, slot), self._tidy(after), self._wrong(after, region))

    def _show(self, state: State, region: int, slot: int) -> State:
        """Let a region show a net; folds that counted on the one before can no longer stand."""
        entries = state.entries
        if not self.case.strict:
            known = self.known_bit(region)
            entries = tuple(
                one | bool(self.known_to_net(one, slot) & 0b11) << known for one in entries
            )
        after = state._replace(shown=_set(state.shown, region, slot), entries=entries)
        return self._without_folds(after, region) if self.twin.conditional else after

    # Leaders.

    def home_of(self, leader: int) -> int:
        """Return the region through which a leader writes."""
        return int(self.case.move and leader == self.case.leaders - 1)

    def _leader(self, state: State, leader: int, doing: tuple[object, ...]) -> Iterator[Step]:
        if doing:
            yield Step(("crash", leader), self._tidy(self._idle(state, leader)), "")
        match doing:
            case ():
                if self._may_lead(state, leader):
                    yield from self._observe(state, leader, UNREAD, (UNREAD,) * self.case.regions)
            case (1, int(base), tuple(views)):
                yield from self._observe(state, leader, base, views)
            case (2, int(fold_home), 0):
                place = self._plan[leader]
                home = self.home_of(leader)
                for step in self._act(state, place, home, fold_home, f"leader {leader + 1}"):
                    yield step._replace(state=self._tidy(self._rest(step.state, leader)))
                yield from self._leave(state, leader, fold_home)
            case (3,):
                after = self._idle(state, leader)._replace(phase=HANDED_OVER)
                yield Step(("hand over", leader), self._without_folds(after, 0), "")

    def _may_lead(self, state: State, leader: int) -> bool:
        """Tell whether the lease can be this leader's: until the move the old home's, then not."""
        return not self.case.move or (state.phase == HANDED_OVER) == bool(self.home_of(leader))

    def _observe(
        self, state: State, leader: int, base: int, views: tuple[int, ...]
    ) -> Iterator[Step]:
        """Read the net at home or one region's view; the last one read, decide."""
        home = self.home_of(leader)
        if base == UNREAD and (self.twin.net_first or min(views) >= 0):
            after = _doing(state, leader, (READING, state.shown[home], views))
            yield Step(("read net", leader, home), self._decided(after, leader), "")
            return
        for region, view in enumerate(views):
            if view >= 0:
                continue
            is_first, is_last = view == UNREAD, view == HALF_READ or not self.case.paged
            entries = self._look(state.entries, region, leader) if is_first else state.entries
            seen = _set(views, region, state.shown[region] if is_last else HALF_READ)
            after = _doing(state, leader, (READING, base, seen))._replace(entries=entries)
            what = "read" if is_first and is_last else "read page 1" if is_first else "read page 2"
            yield Step((what, leader, region), self._decided(after, leader), "")

    def _look(self, entries: tuple[int, ...], region: int, leader: int) -> tuple[int, ...]:
        shift = self.seen_bit(region, leader)
        return tuple(one | self.is_visible(one, region) << shift for one in entries)

    def _decided(self, state: State, leader: int) -> State:
        """Decide once all is read; the plan takes the place of what was seen."""
        _, base, views = state.leaders[leader]
        assert isinstance(base, int)  # noqa: S101
        assert isinstance(views, tuple)  # noqa: S101
        if base == UNREAD or min(views) < 0:
            return state
        home, entries = self.home_of(leader), state.entries
        asked = self.case.move and state.phase == ASKED and not home
        decision = self.judge.decision(
            home=home,
            move_to=1 if asked else NOWHERE,
            base=base,
            views=views,
            seen=tuple(self._seen(one, leader) for one in entries),
            nets=tuple(one >> self._nets for one in entries),
            homes=state.homes,
        )
        after = self._idle(state, leader)
        if decision.moved and decision.is_empty:
            return self._tidy(_doing(after, leader, (MOVED,)))
        shift = self._plan[leader]
        planned = tuple(
            one | bits << shift for one, bits in zip(after.entries, decision.bits, strict=True)
        )
        is_blocked = int(self.twin.holds and bool(state.reader))
        doing = (ACTING, decision.fold_home, is_blocked)
        after = _doing(after, leader, doing)._replace(entries=planned)
        is_fenced = state.phase == HANDED_OVER and not home
        if is_fenced or (self.twin.conditional and base != state.shown[home]):
            after = self._without_fold(after, leader)
        return self._tidy(self._rest(after, leader))

    def _seen(self, entry: int, leader: int) -> int:
        return sum(
            (entry >> self.seen_bit(region, leader) & 1) << region for region in self._regions
        )

    def _idle(self, state: State, leader: int) -> State:
        """Forget all that a leader has seen and planned."""
        mask = self.leader_mask(leader)
        return _doing(state, leader, IDLE)._replace(
            entries=tuple(one & ~mask for one in state.entries)
        )

    def _rest(self, state: State, leader: int) -> State:
        """Let a leader be idle when nothing of its plan is left."""
        doing, shift = state.leaders[leader], self._plan[leader]
        if doing[:2] != (ACTING, NOWHERE) or self._planned(state, shift):
            return state
        return _doing(state, leader, IDLE)

    def _planned(self, state: State, shift: int) -> bool:
        return any(one >> shift & _PLAN_MASK for one in state.entries)

    def _leave(self, state: State, leader: int, fold_home: int) -> Iterator[Step]:
        """Leave the plan in flight, where it may land later or never, and go on."""
        for flight, other in enumerate(state.flights):
            if not other:
                shift, target = self._plan[leader], self._flight[flight]
                moved = tuple(one | (one >> shift & _PLAN_MASK) << target for one in state.entries)
                plan = (self.home_of(leader), fold_home)
                after = self._idle(state._replace(entries=moved), leader)
                after = after._replace(flights=_set(after.flights, flight, plan))
                yield Step(("leave", leader), after, "")

    def _flying(self, state: State, flight: int, plan: tuple[int, ...]) -> Iterator[Step]:
        """Land a part of what is in flight, or lose it."""
        shift, (home, fold_home) = self._flight[flight], plan
        yield Step(("lose", flight), self._tidy(self._lost(state, flight)), "")
        for step in self._act(state, shift, home, fold_home, "in flight"):
            after = step.state
            if after.flights[flight][1:] == (NOWHERE,) and not self._planned(after, shift):
                after = self._lost(after, flight)
            yield step._replace(state=self._tidy(after))

    def _lost(self, state: State, flight: int) -> State:
        mask = ~(_PLAN_MASK << self._flight[flight])
        return state._replace(
            flights=_set(state.flights, flight, ()),
            entries=tuple(one & mask for one in state.entries),
        )

    # Acting: deletes and the fold, in any order.

    def _act(
        self, state: State, shift: int, home: int, fold_home: int, who: str
    ) -> Iterator[Step]:
        if fold_home != NOWHERE:
            yield self._fold(state, shift, home, fold_home, who)
        if self.twin.in_one:
            return
        for place in self._distinct(state.entries):
            entry = state.entries[place]
            if entry >> shift & 1:
                deleted = self._deleted(entry, home) & ~(1 << shift)
                entries = _set(state.entries, place, deleted)
                yield self._checked((f"{who}: delete", place, home), state, entries, home)

    def _deleted(self, entry: int, region: int) -> int:
        """Return the entry once it is deleted through a region, where that shows it."""
        return entry | self.is_visible(entry, region) << self.deleted_bit(region)

    def _fold(self, state: State, shift: int, home: int, fold_home: int, who: str) -> Step:
        """Put the new net; that its condition holds is what keeps the fold in the plan."""
        slot = len(state.homes) + 1
        if slot > NETS_MAX:
            raise OverflowError(f"over {NETS_MAX} nets matter at once")
        before, target = state.shown[home], self._nets + NET_BITS * (slot - 1)
        entries, lost = [], []
        for place, entry in enumerate(state.entries):
            known = entry >> (shift + 1) & _NET_MASK
            if known & 0b11 < self.known_to_net(entry, before) & 0b11:
                lost.append(place)
            after = entry & ~(_NET_MASK << (shift + 1)) | known << target
            if self.twin.in_one and entry >> shift & 1:
                after = self._deleted(after, home) & ~(1 << shift)
            entries.append(after)
        folded = self._without_plan(state, shift)._replace(
            homes=(*state.homes, fold_home), entries=tuple(entries)
        )
        folded = self._show(folded, home, slot)
        wrong = self._wrong(folded, home)
        if lost and self.case.strict and not wrong:
            wrong = f"a version is lost: the new net no longer counts {_names(lost)}"
        return Step((f"{who}: fold", home), folded, wrong)

    def _without_plan(self, state: State, shift: int) -> State:
        """Note that this fold is done, so that only its deletes are left."""
        if shift in self._plan:
            leader = self._plan.index(shift)
            return _doing(state, leader, (ACTING, NOWHERE, 0))
        flight = self._flight.index(shift)
        plan = (state.flights[flight][0], NOWHERE)
        return state._replace(flights=_set(state.flights, flight, plan))

    def _without_folds(self, state: State, home: int) -> State:
        """Drop the folds through this home: it shows another net now than they counted on."""
        for leader, doing in enumerate(state.leaders):
            if doing and doing[0] == ACTING and self.home_of(leader) == home:
                state = self._rest(self._without_fold(state, leader), leader)
        for flight, plan in enumerate(state.flights):
            if plan and plan[0] == home:
                after = state._replace(flights=_set(state.flights, flight, (home, NOWHERE)))
                state = _cleared(after, self._flight[flight] + 1)
                if not self._planned(state, self._flight[flight]):
                    state = self._lost(state, flight)
        return state

    def _without_fold(self, state: State, leader: int) -> State:
        after = _doing(state, leader, (ACTING, NOWHERE, *state.leaders[leader][2:]))
        return _cleared(after, self._plan[leader] + 1)

    # The reader, whose two reads lie apart.

    def _reading(self, state: State) -> Iterator[Step]:
        if state.reader:
            yield self._read_end(state)
            return
        for region in self._regions:
            for is_stale in (0, 1):
                bits = tuple(
                    one
                    | ((0 if is_stale else self.is_visible(one, region))
                       | (one >> self.known_bit(region) & 1) << 1) << self._reader
                    for one in state.entries
                )
                net = state.shown[region] if is_stale else 0
                after = state._replace(reader=(region, is_stale, net), entries=bits)
                yield Step(("page 1", region, is_stale), after, "")

    def _read_end(self, state: State) -> Step:
        """Read the rest; the total lies between what had arrived at the begin and at the end."""
        region, is_stale, net = state.reader
        slot = net if is_stale else state.shown[region]
        shown = tuple(
            (self.is_visible(one, region) if is_stale else one >> self._reader & 1) << NET_BITS
            | self.known_to_net(one, slot)
            for one in state.entries
        )
        counts = self.judge.counts(shown, has_net=bool(slot))
        wrong = [
            place
            for place, (one, count) in enumerate(zip(state.entries, counts, strict=True))
            if not one >> (self._reader + 1) & 1 <= count <= one >> self.known_bit(region) & 1
        ]
        label = ("page 2", region, is_stale)
        after = self._tidy(self._unblocked(state))
        if not wrong:
            return Step(label, after, "")
        return Step(label, after, f"a reader in {REGIONS[region]} counts {self._times(counts)}")

    def _unblocked(self, state: State) -> State:
        """Let the reader go: whoever had to wait for it may act."""
        mask = ~(0b11 << self._reader)
        leaders = tuple(
            (*doing[:2], 0) if doing and doing[0] == ACTING else doing for doing in state.leaders
        )
        entries = tuple(one & mask for one in state.entries)
        return state._replace(reader=(), leaders=leaders, entries=entries)

    # Judging.

    def _checked(
        self, label: Label, state: State, entries: tuple[int, ...], region: int
    ) -> Step:
        after = state._replace(entries=entries)
        return Step(label, after, self._wrong(after, region))

    def _wrong(self, state: State, region: int) -> str:
        """Say what is wrong with a region's total: each change that has reached it counts once."""
        counts = self.counts(state, region)
        reached = self.known_bit(region)
        if all(
            one >> reached & 1 == count for one, count in zip(state.entries, counts, strict=True)
        ):
            return ""
        expected = [place for place, one in enumerate(state.entries) if one >> reached & 1]
        return (
            f"{REGIONS[region]} counts {self._times(counts)}; what has reached it:"
            f" {_names(expected) or 'nothing'}"
        )

    def counts(self, state: State, region: int) -> tuple[int, ...]:
        """Return how often a region's total counts each entry."""
        slot = state.shown[region]
        shown = tuple(
            self.is_visible(one, region) << NET_BITS | self.known_to_net(one, slot)
            for one in state.entries
        )
        return self.judge.counts(shown, has_net=bool(slot))

    def _times(self, counts: Sequence[int]) -> str:
        return ", ".join(f"{entry_name(place)} {count}x" for place, count in enumerate(counts))

    def _distinct(self, entries: Sequence[int]) -> list[int]:
        """Return the places of entries that differ: what happens to one could to its equals."""
        if not self.is_symmetric:
            return list(range(len(entries)))
        return [place for place, one in enumerate(entries) if one not in entries[:place]]

    # Forgetting nets that no longer matter.

    def _tidy(self, state: State) -> State:
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
            doing and doing[0] == READING and (doing[1] == slot or slot in doing[2])  # type: ignore[operator]
            for doing in state.leaders
        )

    def _without_net(self, state: State, slot: int) -> State:
        def moved(number: int) -> int:
            return number - 1 if number > slot else number

        below = self._nets + NET_BITS * (slot - 1)
        kept = (1 << below) - 1
        leaders: list[tuple[object, ...]] = []
        for doing in state.leaders:
            match doing:
                case (1, int(base), tuple(views)):
                    leaders.append((READING, moved(base), tuple(map(moved, views))))
                case _:
                    leaders.append(doing)
        return state._replace(
            homes=(*state.homes[: slot - 1], *state.homes[slot:]),
            shown=tuple(map(moved, state.shown)),
            leaders=tuple(leaders),
            reader=(*state.reader[:2], moved(state.reader[2])) if state.reader else (),
            entries=tuple(
                one & kept | one >> (below + NET_BITS) << below for one in state.entries
            ),
        )


def entry_name(place: int) -> str:
    """Return what an entry is called in a trace."""
    return chr(ord("a") + place)


def _names(places: Sequence[int]) -> str:
    return " ".join(map(entry_name, places))


def _set(values: tuple[object, ...], place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])


def _doing(state: State, leader: int, doing: tuple[object, ...]) -> State:
    return state._replace(leaders=_set(state.leaders, leader, doing))


def _cleared(state: State, shift: int) -> State:
    mask = ~(_NET_MASK << shift)
    return state._replace(entries=tuple(one & mask for one in state.entries))
