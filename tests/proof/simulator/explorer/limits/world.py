"""What happens to items and entries by themselves, and what is right in every state.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Hashable, Iterator
from typing import Any

from proof.simulator.explorer.limits.book import LIVE, NONE, OVER, Book
from proof.simulator.explorer.limits.rules import REGIONS
from proof.simulator.explorer.limits.state import (
    GIVEN_UP,
    LOST,
    THERE,
    Case,
    HolderState,
    Process,
    State,
    replaced,
    with_entries,
)
from proof.simulator.explorer.stepping import Step

Events = Iterator[tuple[tuple[Any, ...], State]]


class World:
    """Regions with their items and entries, of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.book = Book(case.rules)
        regions = range(len(case.minted))
        self._regions = (tuple(regions), tuple(region for region in regions if region != LOST))
        self._masks = tuple(sum(1 << region for region in live) for live in self._regions)

    def initial(self) -> State:
        """Return the first state: each region has its item, which all show."""
        shown = (0,) * len(self.case.minted)
        holders = tuple(
            HolderState((self.book.create(number, minted),), shown)
            for number, minted in enumerate(self.case.minted)
        )
        return State(holders, tuple(Process() for _ in self.case.processes))

    def key(self, state: State) -> Hashable:
        """Return the state itself."""
        return state

    def state(self, key: Any) -> State:
        """Return the state of a key."""
        return key  # type: ignore[no-any-return]

    def is_finished(self, state: State) -> bool:
        """Return whether nothing is open and nothing is under way."""
        return self._is_at_rest(state)

    def described(self, step: Step[tuple[Any, ...], State]) -> str:
        """Return one line: what happens, and what there is after it."""
        state = step.state
        items = [self.book[number] for number in self.currents(state)]
        said = ", ".join(
            f"{item.holder.region} {item.available} free, {item.granted} granted" for item in items
        )
        label = " ".join(map(str, step.label))
        return f"{label:50} {self._applied(state)} applied; {said}"

    def live(self, state: State) -> tuple[int, ...]:
        """Return the regions that are there."""
        return self._regions[state.phase != THERE]

    def live_mask(self, state: State) -> int:
        """Return the regions that are there, a bit each."""
        return self._masks[state.phase != THERE]

    def current(self, state: State, holder: int) -> int:
        """Return a holder's item as its own region shows it."""
        one = state.holders[holder]
        return one.writes[one.shown[holder]]

    def currents(self, state: State) -> tuple[int, ...]:
        """Return the items of all holders that are there."""
        return tuple(self.current(state, region) for region in self.live(state))

    def _applied(self, state: State) -> int:
        live = self.live_mask(state)
        seen = state.folded + sum(1 for entry in state.entries if entry.mask & live)
        return seen + (state.unseen if self.case.counts_unseen else 0)

    def _is_at_rest(self, state: State) -> bool:
        if any(entry.is_alive for entry in state.entries):
            return False
        if state.phase and (state.phase != GIVEN_UP or state.charged_again == NONE):
            return False
        return not self.book.sums(self.currents(state))[2]

    def wrong(self, state: State) -> str:
        """Return what is wrong with a state; empty if nothing is."""
        applied, limit = self._applied(state), self.case.limit
        if applied > limit:
            return f"OVERSOLD: {applied} applied of {limit}"
        held, charged, _, wrong = self.book.sums(self.currents(state))
        if wrong or not self.case.judges_rest:
            return wrong
        again = max(0, state.charged_again)
        total = held + charged + again
        if state.phase == GIVEN_UP and state.charged_again != NONE and total > limit:
            return f"rights made: {total} of {limit}"
        if not self._is_at_rest(state):
            return ""
        # What a lost item charged ahead of its entries, which never arrived, stays charged.
        spent = applied + (0 if self.case.counts_unseen else state.unseen_charged)
        if charged + again != spent:
            kind = "leak" if charged + again > spent else "charged too little"
            return f"{kind}: {charged + again} charged, {spent} applied"
        return f"stranded: {total} of {limit}" if total < limit else ""

    def with_process(self, state: State, number: int, process: Process) -> State:
        """Return a state with another process."""
        return state._replace(processes=replaced(state.processes, number, process))

    def view(self, state: State, region: int) -> tuple[int, ...]:
        """Return the items of all holders as a region shows them."""
        return tuple(holder.writes[holder.shown[region]] for holder in state.holders)

    def phase(self, state: State, holder: int, version: int) -> int:
        """Return the phase of a grant."""
        return next((p for a, v, p in state.phases if (a, v) == (holder, version)), LIVE)

    def time(self, state: State) -> Events:
        """Yield the next phase of each grant that is open."""
        for holder in self.live(state):
            for version in self.book[self.current(state, holder)].grants:
                phase = self.phase(state, holder, version)
                if phase == OVER:
                    continue
                others = tuple(phase for phase in state.phases if phase[:2] != (holder, version))
                phases = tuple(sorted((*others, (holder, version, phase + 1))))
                label = ("a grant expires", "signatures end")[phase]
                yield (
                    (label, REGIONS[holder], version),
                    self._aged(state._replace(phases=phases), holder, version),
                )

    def _aged(self, state: State, holder: int, version: int) -> State:
        """Drop requests whose signature is too old; their processes do not know."""
        if self.phase(state, holder, version) < OVER:
            return state
        for entry in state.entries:
            if (
                (entry.holder, entry.version) != (holder, version)
                or not entry.is_alive
                or entry.is_late
            ):
                continue
            rest = list(state.entries)
            rest.remove(entry)
            if entry.owner != NONE:
                process = state.processes[entry.owner]
                state = self.with_process(
                    state, entry.owner, process._replace(unsure=process.unsure + 1)
                )
            state = with_entries(state, tuple(rest))
        return state

    def written(self, state: State, holder: int, number: int, region: int) -> State:
        """Write an item through a region; the others get it at any time, in any order."""
        one = state.holders[holder]
        writes = (*one.writes, number)
        shown = replaced(one.shown, region, len(writes) - 1)
        return self._trimmed(state, holder, HolderState(writes, shown))

    def _trimmed(self, state: State, holder: int, one: HolderState) -> State:
        live = self.live(state)
        first = min(one.shown[region] for region in live)
        shown = tuple(max(0, place - first) for place in one.shown)
        # What is closed for all needs no phase any more.
        after = HolderState(one.writes[first:], shown)
        state = state._replace(holders=replaced(state.holders, holder, after))
        if holder not in live:
            return state
        grants = self.book[self.current(state, holder)].grants
        phases = tuple(
            p for p in state.phases if p[0] != holder or p[1] in grants or self._used(state, *p[:2])
        )
        return state._replace(phases=phases)

    def _used(self, state: State, holder: int, version: int) -> bool:
        """Return whether a process or a request still goes by a grant."""
        if any(entry.is_alive and entry[:2] == (holder, version) for entry in state.entries):
            return True
        owners = zip(self.case.processes, state.processes, strict=True)
        return any((region, one.version) == (holder, version) for region, one in owners)

    def replication(self, state: State) -> Events:
        """Yield each arrival of a version that is newer than what a region shows."""
        for holder, one in enumerate(state.holders):
            if state.phase == GIVEN_UP and holder == LOST:
                continue
            for region in self.live(state):
                for place in range(one.shown[region] + 1, len(one.writes)):
                    after = HolderState(one.writes, replaced(one.shown, region, place))
                    version = self.book[one.writes[place]].version
                    label = ("version", version, "of", REGIONS[holder], "reaches", REGIONS[region])
                    yield label, self._trimmed(state, holder, after)
