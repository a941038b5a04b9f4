"""What happens by itself in the small world: writes, replication, a reader; and what is right.

A put or delete of an entry, and each version of the net, reaches each other region on its own, at
any time later, in any order; the last writer wins. What is right is checked wherever something
changes: a region's total counts each change that has reached it, once, and no other.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Sequence

from proof.simulator.explorer.booked import BookCode
from proof.simulator.explorer.production import NET_BITS, NOWHERE, REGIONS, ProductionCode
from proof.simulator.explorer.state import (
    ACTING,
    COUNT_MASK,
    IDLE,
    PLAN_MASK,
    Case,
    Label,
    Layout,
    State,
    Step,
    cleared,
    doing_now,
    entry_name,
    names,
    with_one,
)


class World(Layout):
    """Regions and a reader; `production` asks the production code."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.mutant = case.mutant
        self.is_symmetric = not 0 < case.fold_max < case.entries
        code = BookCode if case.book else ProductionCode
        self.production = code(
            entries=case.entries,
            regions=case.regions,
            fold_max=case.fold_max or case.entries,
            deciding=case.mutant.deciding,
        )

    def is_finished(self, state: State) -> bool:
        """Return whether all is written, merged, deleted and forgotten everywhere (P2 and P4)."""
        newest = len(state.homes)
        if not newest or min(state.shown) < newest:
            return False
        return all(
            self.known_to_net(entry, newest) == 1 and entry & self.deletes == self.deletes
            for entry in state.entries
        )

    # Writing, and what arrives by replication.

    def written(self, state: State) -> Iterator[Step]:
        """Write an entry in any region; let an item or a delete of one arrive in another."""
        for place in self.distinct(state.entries):
            entry = state.entries[place]
            if not entry & self.puts:
                for region in self.regions:
                    yield self._arrived(state, "write", place, region)
                continue
            for region in self.regions:
                if not entry >> self.put[region] & 1:
                    yield self._arrived(state, "entry", place, region)
                if entry & self.deletes and not entry >> self.deleted[region] & 1:
                    entries = with_one(state.entries, place, entry | 1 << self.deleted[region])
                    yield self.checked(("delete", place, region), state, entries, region)

    def _arrived(self, state: State, what: str, place: int, region: int) -> Step:
        entry = state.entries[place] | 1 << self.put[region] | 1 << self.known[region]
        entries = with_one(state.entries, place, entry)
        return self.checked((what, place, region), state, entries, region)

    def replicated_nets(self, state: State) -> Iterator[Step]:
        """Deliver any newer net in a region: those between it and the one there never show."""
        for region in self.regions:
            for slot in range(state.shown[region] + 1, len(state.homes) + 1):
                after = self.show(state, region, slot)
                yield Step(("net", region, slot), self.tidy(after), self.wrong(after, region))

    def show(self, state: State, region: int, slot: int) -> State:
        """Show a net in a region; folds that counted on the one before can no longer stand."""
        entries = state.entries
        if not self.case.strict:
            known = self.known[region]
            entries = tuple(
                entry | bool(self.known_to_net(entry, slot) & COUNT_MASK) << known
                for entry in entries
            )
        after = state._replace(shown=with_one(state.shown, region, slot), entries=entries)
        return self.without_folds(after, region) if self.mutant.conditional else after

    # Folds that can no longer stand.

    def home_of(self, leader: int) -> int:
        """Return the region through which a leader writes."""
        return int(self.case.move and leader == self.case.leaders - 1)

    def without_folds(self, state: State, home: int) -> State:
        """Drop the folds through this home: it shows another net now than they counted on."""
        for leader, doing in enumerate(state.leaders):
            if doing and doing[0] == ACTING and self.home_of(leader) == home:
                state = self.rest(self.without_fold(state, leader), leader)
        for flight, plan in enumerate(state.in_flight):
            if plan and plan[0] == home:
                after = state._replace(in_flight=with_one(state.in_flight, flight, (home, NOWHERE)))
                state = cleared(after, self.flight[flight] + 1)
                if not self.planned(state, self.flight[flight]):
                    state = self.lost(state, flight)
        return state

    def without_fold(self, state: State, leader: int) -> State:
        """Drop a leader's fold; its deletes stay."""
        after = doing_now(state, leader, (ACTING, NOWHERE, *state.leaders[leader][2:]))
        return cleared(after, self.plan[leader] + 1)

    def rest(self, state: State, leader: int) -> State:
        """Make a leader idle when nothing of its plan is left."""
        doing, shift = state.leaders[leader], self.plan[leader]
        if doing[:2] != (ACTING, NOWHERE) or self.planned(state, shift):
            return state
        return doing_now(state, leader, IDLE)

    def planned(self, state: State, shift: int) -> bool:
        """Return whether anything is left of a plan."""
        return any(entry >> shift & PLAN_MASK for entry in state.entries)

    def lost(self, state: State, flight: int) -> State:
        """Lose what is in flight."""
        mask = ~(PLAN_MASK << self.flight[flight])
        return state._replace(
            in_flight=with_one(state.in_flight, flight, ()),
            entries=tuple(entry & mask for entry in state.entries),
        )

    # The reader, whose two reads lie apart.

    def reading(self, state: State) -> Iterator[Step]:
        """Begin or end a read: the entries first, or from a stale replica the net first."""
        if state.reader:
            yield self._read_end(state)
            return
        for region in self.regions:
            net, reached = state.shown[region], self.known[region]
            began = tuple(
                entry | (entry >> reached & 1) << (self.reader + 1) for entry in state.entries
            )
            seen = tuple(entry | self.is_visible(entry, region) << self.reader for entry in began)
            for is_stale, entries in ((0, seen), (1, began)):
                reader = (region, is_stale, net if is_stale else 0)
                after = state._replace(reader=reader, entries=entries)
                yield Step(("page 1", region, is_stale), after, "")

    def _read_end(self, state: State) -> Step:
        """Read the rest; the total lies between what had arrived at the begin and at the end."""
        region, is_stale, net = state.reader
        slot = net if is_stale else state.shown[region]
        shown = tuple(
            (self.is_visible(entry, region) if is_stale else entry >> self.reader & 1) << NET_BITS
            | self.known_to_net(entry, slot)
            for entry in state.entries
        )
        counts = self.production.counts(shown, has_net=bool(slot))
        wrong = [
            place
            for place, (entry, count) in enumerate(zip(state.entries, counts, strict=True))
            if not entry >> (self.reader + 1) & 1 <= count <= entry >> self.known[region] & 1
        ]
        label = ("page 2", region, is_stale)
        after = self.tidy(self._unblocked(state))
        if not wrong:
            return Step(label, after, "")
        return Step(label, after, f"a reader in {REGIONS[region]} counts {self._times(counts)}")

    def _unblocked(self, state: State) -> State:
        """Release the reader: leaders that waited for it may act."""
        mask = ~(COUNT_MASK << self.reader)
        leaders = tuple(
            (*doing[:2], 0) if doing and doing[0] == ACTING else doing for doing in state.leaders
        )
        entries = tuple(entry & mask for entry in state.entries)
        return state._replace(reader=(), leaders=leaders, entries=entries)

    # Checking.

    def checked(self, label: Label, state: State, entries: tuple[int, ...], region: int) -> Step:
        """Return the step after which the entries are these, with what is wrong in the region."""
        after = state._replace(entries=entries)
        return Step(label, after, self.wrong(after, region))

    def wrong(self, state: State, region: int) -> str:
        """Say what is wrong with a region's total: each change that has reached it counts once."""
        counts = self.counts(state, region)
        reached = self.known[region]
        expected = tuple([entry >> reached & 1 for entry in state.entries])
        if counts == expected:
            return ""
        there = names([place for place, count in enumerate(expected) if count])
        return (
            f"{REGIONS[region]} counts {self._times(counts)}; what has reached it:"
            f" {there or 'nothing'}"
        )

    def counts(self, state: State, region: int) -> tuple[int, ...]:
        """Return how often a region's total counts each entry."""
        slot = state.shown[region]
        shown = tuple(
            self.is_visible(entry, region) << NET_BITS | self.known_to_net(entry, slot)
            for entry in state.entries
        )
        return self.production.counts(shown, has_net=bool(slot))

    def _times(self, counts: Sequence[int]) -> str:
        return ", ".join(f"{entry_name(place)} {count}x" for place, count in enumerate(counts))

    def distinct(self, entries: Sequence[int]) -> list[int]:
        """Return the places of entries that differ: what happens to one could to its equals."""
        if not self.is_symmetric:
            return list(range(len(entries)))
        return [place for place, entry in enumerate(entries) if entry not in entries[:place]]
