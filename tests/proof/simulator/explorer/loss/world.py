"""What happens by itself: writes, replication, the loss, a return, operators; and what is right.

Each write reaches each other region on its own, at any time, in any order. What the lost region
wrote may stay away from any region for ever. In every region, wherever something changes, the total
must count each change that has reached it, once. At rest, when nothing is left to arrive and to do,
all regions must count the same, and one net must hold it all.

Of the changes that reached no other region before the loss, then: each is counted in exactly the
regions that it still reaches, from then on; once it has reached one, `PutAgain` takes it to the
others. One that reaches none is lost, and no total shows it.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator
from typing import Any

from proof.simulator.explorer.loss.items import LOST, PAST, Item, never_written
from proof.simulator.explorer.loss.production import (
    NOTHING,
    Contract,
    ProductionCode,
    Question,
    Shown,
    View,
)
from proof.simulator.explorer.loss.state import (
    ACTING,
    BACK,
    IDLE,
    READING,
    REDUCED,
    UNREAD,
    WHOLE,
    Case,
    Entry,
    Label,
    State,
    Step,
    with_one,
)
from proof.simulator.explorer.production import NET_BITS, REGIONS
from proof.simulator.explorer.state import entry_name, names

_HEARTBEAT = 3
"""In the lost home's own item: what it wrote there itself."""
_PUT = 1
_NAMED = 0b100


class World:
    """Regions, replication and operators of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.mutant = case.mutant
        self.regions = range(case.regions)
        self.remaining = [region for region in self.regions if region != LOST]
        self.named = sum(_NAMED << (NET_BITS * place) for place in range(case.entries))
        self.production = ProductionCode(
            entries=case.entries,
            succeeding=case.mutant.succeeding,
            reading=case.mutant.reading,
            remembers=case.repeats and case.mutant.remembers,
        )

    def initial(self) -> State:
        """Return the state in which nothing is written."""
        case, nothing = self.case, never_written(self.case.regions)
        return State(
            phase=WHOLE,
            force=0,
            claims=nothing,
            nets=(nothing, nothing),
            entries=(Entry(nothing, 0),) * case.entries,
            leaders=(IDLE,) * case.leaders,
            reader=(),
        )

    def live(self, state: State) -> list[int]:
        """Return the regions that are replicas."""
        return self.remaining if state.phase == REDUCED else list(self.regions)

    def scope(self, state: State) -> tuple[list[int], frozenset[int]]:
        """Return the regions that are replicas, and the origins whose writes can be lost."""
        return self.live(state), frozenset({PAST, LOST} if state.phase == WHOLE else {PAST})

    def ahead(self, state: State) -> frozenset[int]:
        """Return the origins whose stamps may be ahead."""
        if not self.case.ahead:
            return frozenset()
        is_past_only = state.phase == BACK or self.case.repeats
        return frozenset({PAST} if is_past_only else {PAST, LOST})

    # What a region shows.

    def shown(self, state: State, region: int) -> Shown:
        """Return the nets that a region shows."""
        found = [(place + 1, item.shown(region)) for place, item in enumerate(state.nets)]
        return tuple((generation, what) for generation, what in found if what is not None)

    def visible(self, state: State, region: int) -> int:
        """Return the entries (bits) that a region shows."""
        return sum(
            (entry.item.shown(region) is not None) << place
            for place, entry in enumerate(state.entries)
        )

    def view(self, state: State, region: int) -> View:
        """Return all that a region shows."""
        return self.visible(state, region), self.shown(state, region)

    def reached(self, state: State, region: int) -> tuple[int, ...]:
        """Return for each entry 1 if it has reached a region, else 0."""
        return tuple(entry.reached >> region & 1 for entry in state.entries)

    def wrong(self, state: State, region: int) -> str:
        """Say what is wrong with a region's total."""
        counts = self.production.counts(self.view(state, region))
        reached = self.reached(state, region)
        if counts == reached:
            return ""
        there = names([place for place, one in enumerate(reached) if one])
        return f"{REGIONS[region]} counts {_times(counts)}; what has reached it: {there or '-'}"

    # Writing, and what arrives by replication.

    def world_steps(self, state: State) -> Iterator[Step]:
        """Yield what writers, replication, operators and the loss may do next."""
        yield from self._writes(state)
        yield from self._arrivals(state)
        if state.phase == WHOLE:
            yield Step(("lose",), self._lose(state), "")
        if self._may_come_back(state):
            for source in self.remaining:
                yield Step(("back", source), self._come_back(state, source), "")
        yield from self._operators(state)

    def _writes(self, state: State) -> Iterator[Step]:
        """Write the first entry that is not written yet, in any region."""
        for place, entry in enumerate(state.entries):
            if entry.item.writes:
                continue
            for region in self.live(state):
                (item,) = entry.item.written(region, _PUT, ahead=frozenset())
                if self.case.repeats:
                    (item,) = item.written(region, _PUT, ahead=frozenset())
                yield self.put_entry(("write", place, region), state, place, item, region)
            return

    def put_entry(self, label: Label, state: State, place: int, item: Item, region: int) -> Step:
        """Return the step after which an entry's item is this; a put in it reaches the region."""
        is_there = item.shown(region) is not None
        entry = Entry(
            item.tidy(*self.scope(state)), state.entries[place].reached | is_there << region
        )
        after = state._replace(entries=with_one(state.entries, place, entry))
        return Step(label, after, self.wrong(after, region))

    def put_net(self, label: Label, state: State, place: int, item: Item, region: int) -> Step:
        """Return the step after which a net's item is this."""
        nets = with_one(state.nets, place, item.tidy(*self.scope(state)))
        after = state._replace(nets=nets)
        if not self.case.strict:
            after = self._counted_reaches(after, region)
        return Step(label, after, self.wrong(after, region))

    def _counted_reaches(self, state: State, region: int) -> State:
        """Take what the net counts for reached, so that a trace ends where a total is wrong."""
        nets = self.shown(state, region)
        content = nets[-1][1] if nets else 0
        entries = tuple(
            entry._replace(
                reached=entry.reached | bool(content >> (NET_BITS * place) & 0b11) << region
            )
            for place, entry in enumerate(state.entries)
        )
        return state._replace(entries=entries)

    def _arrivals(self, state: State) -> Iterator[Step]:
        for region in self.live(state):
            for place, entry in enumerate(state.entries):
                for write, _ in self.arriving(state, entry.item, region):
                    item = entry.item.arrived(region, write)
                    what = "delete" if item.shown(region) is None else "entry"
                    yield self.put_entry((what, place, region), state, place, item, region)
            for place, net in enumerate(state.nets):
                for write, _ in self.arriving(state, net, region):
                    label = ("net", place + 1, region)
                    yield self.put_net(label, state, place, net.arrived(region, write), region)
            for write, _ in self.arriving(state, state.claims, region):
                claims = state.claims.arrived(region, write).tidy(*self.scope(state))
                yield Step(("claim", region), state._replace(claims=claims), "")

    def arriving(self, state: State, item: Item, region: int) -> Iterator[tuple[int, int]]:
        """Yield the writes that may still arrive: none of the past in a new replica."""
        is_over = region == LOST or (bool(state.force) and not self.case.late)
        for write, origin in item.arrivals(region):
            if origin != PAST or not is_over:
                yield write, origin

    # The loss, and the return.

    def _lose(self, state: State) -> State:
        leaders = tuple(sorted(map(self._without_lost, state.leaders), key=repr))
        after = State(
            phase=REDUCED,
            force=state.force,
            claims=state.claims.lost(LOST),
            nets=tuple(net.lost(LOST) for net in state.nets),
            entries=tuple(
                Entry(entry.item.lost(LOST), entry.reached & ~(1 << LOST))
                for entry in state.entries
            ),
            leaders=leaders,
            reader=() if state.reader[:1] == (LOST,) else state.reader,
        )
        return self._tidied(after)

    def _without_lost(self, doing: Any) -> Any:
        """Return what a leader can still do: nothing through the lost region."""
        if doing[:1] == (READING,):
            *_, views = doing
            return doing if views[LOST] != UNREAD else IDLE
        if doing[:1] == (ACTING,):
            _, home, waits, decision = doing
            left = decision._replace(
                put=None if home[0] == LOST else decision.put,
                deletes=tuple(delete for delete in decision.deletes if delete.region != LOST),
                again=tuple(put for put in decision.again if put.region != LOST),
            )
            return IDLE if left == NOTHING else (ACTING, home, waits, left)
        return doing

    def _tidied(self, state: State) -> State:
        scope = self.scope(state)
        return state._replace(
            claims=state.claims.tidy(*scope),
            nets=tuple(net.tidy(*scope) for net in state.nets),
            entries=tuple(entry._replace(item=entry.item.tidy(*scope)) for entry in state.entries),
        )

    def _may_come_back(self, state: State) -> bool:
        """Return whether the contract may take a new replica in: every old view has run out."""
        is_led = bool(state.force) and not any(state.leaders)
        return self.case.back and state.phase == REDUCED and is_led

    def _come_back(self, state: State, source: int) -> State:
        after = state._replace(
            phase=BACK,
            claims=state.claims.copied(source, LOST),
            nets=tuple(net.copied(source, LOST) for net in state.nets),
            entries=tuple(
                Entry(
                    entry.item.copied(source, LOST),
                    entry.reached | (entry.reached >> source & 1) << LOST,
                )
                for entry in state.entries
            ),
        )
        return self._tidied(after)

    # Operators.

    def _operators(self, state: State) -> Iterator[Step]:
        may_act = state.phase != WHOLE or self.mutant.while_listed
        if self.mutant.in_place and state.phase == WHOLE and not state.claims.writes:
            (claims,) = state.claims.written(LOST, _HEARTBEAT, ahead=frozenset({LOST}))
            yield Step(("heartbeat",), state._replace(claims=claims), "")
        for operator in range(1, self.case.operators + 1) if may_act else ():
            if state.force >> operator & 1:
                continue
            if all(state.claims.shown(region) == operator for region in self.remaining):
                if self.mutant.waits and any(state.leaders):
                    continue
                after = state._replace(force=state.force | 1 << operator)
                is_second = len({self.new_home(operator) for operator in self._acting(after)}) > 1
                wrong = "two operators act, each with a home of its own" if is_second else ""
                yield Step(("act", operator), after, wrong)
            elif not self._has_claimed(state, operator):
                yield from self._claim(state, operator)

    def new_home(self, operator: int) -> int:
        """Return the region that an operator takes for home, or in which home is."""
        return self.case.home or min(operator, self.case.regions - 1)

    def _acting(self, state: State) -> list[int]:
        return [
            operator
            for operator in range(1, self.case.operators + 1)
            if state.force >> operator & 1
        ]

    def _has_claimed(self, state: State, operator: int) -> bool:
        return any(what == operator for what, _ in state.claims.writes)

    def _claim(self, state: State, operator: int) -> Iterator[Step]:
        region = self.new_home(operator)
        shown = state.claims.shown(region)
        if shown is None or (self.mutant.in_place and shown == _HEARTBEAT):
            for claims in state.claims.written(region, operator, ahead=self.ahead(state)):
                after = state._replace(claims=claims.tidy(*self.scope(state)))
                yield Step(("claim by", operator), after, "")

    # At rest.

    def contracts(self, state: State) -> list[Contract]:
        """Return the contracts that leaders may act on."""
        new = sorted({(self.new_home(operator), 2, True) for operator in self._acting(state)})
        old = [(self.case.home, 1, self.case.always)] if state.phase == WHOLE else []
        return [*old, *new]

    def at_rest(self, state: State) -> bool:
        """Return whether nothing can happen but late arrivals, losses and new writes."""
        contracts = self.contracts(state)
        if any(state.leaders) or state.reader or not contracts:
            return False
        items = [state.claims, *state.nets, *(entry.item for entry in state.entries)]
        for region in self.live(state):
            for item in items:
                if any(origin != PAST for _, origin in self.arriving(state, item, region)):
                    return False
        return all(self.decided(state, contract) == NOTHING for contract in contracts)

    def decided(self, state: State, contract: Contract) -> object:
        """Return what a leader would do that reads everything now."""
        live = self.live(state)
        views = tuple(
            self.view(state, region) if region in live else None for region in self.regions
        )
        nets = self.shown(state, contract[0])
        return self.production.decision(Question(contract, nets[-1] if nets else None, views))

    def wrong_at_rest(self, state: State) -> str:
        """Say what is wrong with a state at rest: regions differ, or something is left over."""
        live = self.live(state)
        reached = [self.reached(state, region) for region in live]
        if len(set(reached)) > 1:
            return f"at rest {', '.join(REGIONS[region] for region in live)} show different totals"
        for region in live:
            visible, nets = self.view(state, region)
            is_named = any(one & self.named for _, one in nets)
            if visible or len(nets) > 1 or (is_named and not self.case.repeats):
                return f"at rest {REGIONS[region]} still shows what was merged"
        return ""


def _times(counts: tuple[int, ...]) -> str:
    return ", ".join(f"{entry_name(place)} {count}x" for place, count in enumerate(counts))
