"""Every step that may happen next: the world's own, and those of leaders and plans in flight.

A leader is idle, reading (the net at home, then each region's view, one step each), or acting on
what was decided then: deletes and the fold, each a step of its own, however late, in any order, or
never (a crash). So every leader is also a zombie. It may leave its plan in flight and go on: the
parts of it land later, or are lost.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator

from proof.simulator.explorer.production import NET_BITS, NOWHERE
from proof.simulator.explorer.state import (
    ACTING,
    COUNT_MASK,
    HALF_READ,
    IDLE,
    MOVED,
    NET_MASK,
    NETS_MAX,
    PLAN_MASK,
    READING,
    UNREAD,
    Doing,
    State,
    Step,
    doing_now,
    names,
    with_one,
)
from proof.simulator.explorer.world import World


class Model(World):
    """The steps of one case."""

    def steps(self, state: State) -> Iterator[Step]:
        """Yield everything that may happen next."""
        yield from self.written(state)
        yield from self.replicated_nets(state)
        for leader, doing in enumerate(state.leaders):
            yield from self._leader(state, leader, doing)
        for flight, plan in enumerate(state.in_flight):
            if plan:
                yield from self._flying(state, flight, plan)
        if self.case.reader:
            yield from self.reading(state)
        if self.case.move and not state.phase:
            after = state._replace(phase=MOVED)
            yield Step(("move",), self.without_folds(after, 0) if self.mutant.waits else after, "")

    def _leader(self, state: State, leader: int, doing: Doing) -> Iterator[Step]:
        if doing:
            yield Step(("crash", leader), self.tidy(self._idle(state, leader)), "")
        if not doing:
            if self._may_lead(state, leader):
                yield from self._observe(state, leader, UNREAD, (UNREAD,) * self.case.regions)
        elif doing[0] == READING:
            yield from self._observe(state, leader, doing[1], doing[2])
        elif not doing[2]:
            yield from self._acting(state, leader, doing[1])
            yield from self._leave(state, leader, doing[1])

    def _acting(self, state: State, leader: int, fold_home: int) -> Iterator[Step]:
        place, home = self.plan[leader], self.home_of(leader)
        for step in self._act(state, place, home, fold_home, f"leader {leader + 1}"):
            yield step._replace(state=self.tidy(self.rest(step.state, leader)))

    def _may_lead(self, state: State, leader: int) -> bool:
        """Return whether this leader may begin: until the move is in force only the old home's."""
        return not self.case.move or (state.phase == MOVED) == bool(self.home_of(leader))

    def _observe(
        self, state: State, leader: int, base: int, views: tuple[int, ...]
    ) -> Iterator[Step]:
        """Read the net at home or one region's view; the last one read, decide."""
        home = self.home_of(leader)
        if base == UNREAD and (self.mutant.net_first or min(views) >= 0):
            after = doing_now(state, leader, (READING, state.shown[home], views))
            yield Step(("read net", leader, home), self._decided(after, leader), "")
            return
        for region, view in enumerate(views):
            if view >= 0:
                continue
            is_first, is_last = view == UNREAD, view == HALF_READ or not self.case.paged
            entries = self._look(state.entries, region, leader) if is_first else state.entries
            seen = with_one(views, region, state.shown[region] if is_last else HALF_READ)
            after = doing_now(state, leader, (READING, base, seen))._replace(entries=entries)
            what = "read" if is_first and is_last else "read page 1" if is_first else "read page 2"
            yield Step((what, leader, region), self._decided(after, leader), "")

    def _look(self, entries: tuple[int, ...], region: int, leader: int) -> tuple[int, ...]:
        shift = self.seen(region, leader)
        return tuple(entry | self.is_visible(entry, region) << shift for entry in entries)

    def _decided(self, state: State, leader: int) -> State:
        """Decide once all is read; the plan takes the place of what was seen."""
        _, base, views = state.leaders[leader]
        if base == UNREAD or min(views) < 0:
            return state
        home, entries = self.home_of(leader), state.entries
        decision = self.production.decision(
            home=home,
            base=base,
            views=views,
            seen=tuple(self._seen(entry, leader) for entry in entries),
            nets=tuple(entry >> self.nets for entry in entries),
            homes=state.homes,
        )
        after = self._idle(state, leader)
        shift = self.plan[leader]
        planned = tuple(
            entry | bits << shift for entry, bits in zip(after.entries, decision.bits, strict=True)
        )
        is_blocked = int(self.mutant.holds and bool(state.reader))
        doing = (ACTING, decision.fold_home, is_blocked)
        after = doing_now(after, leader, doing)._replace(entries=planned)
        is_over = state.phase == MOVED and not home and self.mutant.waits
        if is_over or (self.mutant.conditional and base != state.shown[home]):
            after = self.without_fold(after, leader)
        return self.tidy(self.rest(after, leader))

    def _seen(self, entry: int, leader: int) -> int:
        return sum((entry >> self.seen(region, leader) & 1) << region for region in self.regions)

    def _idle(self, state: State, leader: int) -> State:
        """Forget all that a leader has seen and planned."""
        mask = self.leader_mask(leader)
        return doing_now(state, leader, IDLE)._replace(
            entries=tuple(entry & ~mask for entry in state.entries)
        )

    def _leave(self, state: State, leader: int, fold_home: int) -> Iterator[Step]:
        """Leave the plan in flight, where it may land later or never, and go on."""
        for flight, other in enumerate(state.in_flight):
            if not other:
                shift, target = self.plan[leader], self.flight[flight]
                moved = tuple(
                    entry | (entry >> shift & PLAN_MASK) << target for entry in state.entries
                )
                plan = (self.home_of(leader), fold_home)
                after = self._idle(state._replace(entries=moved), leader)
                after = after._replace(in_flight=with_one(after.in_flight, flight, plan))
                yield Step(("leave", leader), after, "")

    def _flying(self, state: State, flight: int, plan: tuple[int, ...]) -> Iterator[Step]:
        """Land a part of what is in flight, or lose it."""
        shift, (home, fold_home) = self.flight[flight], plan
        yield Step(("lose", flight), self.tidy(self.lost(state, flight)), "")
        for step in self._act(state, shift, home, fold_home, "in flight"):
            after = step.state
            if after.in_flight[flight][1:] == (NOWHERE,) and not self.planned(after, shift):
                after = self.lost(after, flight)
            yield step._replace(state=self.tidy(after))

    # Acting: deletes and the fold, in any order.

    def _act(self, state: State, shift: int, home: int, fold_home: int, who: str) -> Iterator[Step]:
        if fold_home != NOWHERE:
            yield self._fold(state, shift, home, fold_home, who)
        if self.mutant.in_one:
            return
        for place in self.distinct(state.entries):
            entry = state.entries[place]
            if entry >> shift & 1:
                deleted = self._deleted(entry, home) & ~(1 << shift)
                entries = with_one(state.entries, place, deleted)
                yield self.checked((f"{who}: delete", place, home), state, entries, home)

    def _deleted(self, entry: int, region: int) -> int:
        """Return the entry once it is deleted through a region, where that shows it."""
        return entry | self.is_visible(entry, region) << self.deleted[region]

    def _fold(self, state: State, shift: int, home: int, fold_home: int, who: str) -> Step:
        """Put the new net; that its condition holds is what keeps the fold in the plan."""
        slot = len(state.homes) + 1
        if slot > NETS_MAX:
            raise OverflowError(f"over {NETS_MAX} nets matter at once")
        before, target = state.shown[home], self.nets + NET_BITS * (slot - 1)
        entries, lost = [], []
        for place, entry in enumerate(state.entries):
            known = entry >> (shift + 1) & NET_MASK
            if known & COUNT_MASK < self.known_to_net(entry, before) & COUNT_MASK:
                lost.append(place)
            after = entry & ~(NET_MASK << (shift + 1)) | known << target
            if self.mutant.in_one and entry >> shift & 1:
                after = self._deleted(after, home) & ~(1 << shift)
            entries.append(after)
        folded = self.without_plan(state, shift)._replace(
            homes=(*state.homes, fold_home), entries=tuple(entries)
        )
        folded = self.show(folded, home, slot)
        wrong = self.wrong(folded, home)
        if lost and self.case.strict and not wrong:
            wrong = f"a version is lost: the new net no longer counts {names(lost)}"
        return Step((f"{who}: fold", home), folded, wrong)

    def without_plan(self, state: State, shift: int) -> State:
        """Record that this fold is done, so that only its deletes are left."""
        if shift in self.plan:
            leader = self.plan.index(shift)
            return doing_now(state, leader, (ACTING, NOWHERE, 0))
        flight = self.flight.index(shift)
        plan = (state.in_flight[flight][0], NOWHERE)
        return state._replace(in_flight=with_one(state.in_flight, flight, plan))
