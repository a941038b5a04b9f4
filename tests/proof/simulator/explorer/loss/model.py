"""Every step that may happen next: the world's own, and those of leaders and a reader.

A leader is idle, reading (the net at home, then each region's view, one step each, in any order),
or acting on what was decided then, each part a step of its own, however late, in any order, or
never (a crash). So each leader is also a zombie, of the lost home too.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Hashable, Iterator
from typing import Any

from proof.simulator.explorer.loss.describe import described
from proof.simulator.explorer.loss.items import LOST
from proof.simulator.explorer.loss.production import (
    NOTHING,
    Contract,
    Decision,
    Delete,
    Put,
    PutAgain,
    Question,
)
from proof.simulator.explorer.loss.state import (
    ACTING,
    IDLE,
    READING,
    UNREAD,
    WHOLE,
    Case,
    Label,
    State,
    Step,
    with_one,
)
from proof.simulator.explorer.loss.world import World
from proof.simulator.explorer.production import REGIONS

_PUT = 1
_GONE = -1
_COPIES_MAX = 1
_NONE: tuple[int, int] = (0, 0)
"""The base of a leader that found no net."""


class Model(World):
    """The steps of one case; see `walk.Walkable`."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self._numbers: dict[object, int] = {}
        self._parts: list[Any] = []

    # States and their keys.

    def key(self, state: State) -> Hashable:
        """Return the key of a state; leaders may be exchanged."""
        leaders = state.leaders
        if len(leaders) > 1:
            leaders = tuple(sorted(leaders, key=self._number))
        parts = (state.claims, *state.nets, *state.entries, *leaders, state.reader)
        head = state.phase << 4 | state.force
        return (head, *map(self._number, parts))

    def state(self, key: tuple[int, ...]) -> State:
        """Return the state of a key."""
        head, *numbers = key
        claims, first, second, *rest = (self._parts[number] for number in numbers)
        entries = self.case.entries
        return State(
            phase=head >> 4,
            force=head & 0b1111,
            claims=claims,
            nets=(first, second),
            entries=tuple(rest[:entries]),
            leaders=tuple(rest[entries:-1]),
            reader=rest[-1],
        )

    def _number(self, part: object) -> int:
        number = self._numbers.setdefault(part, len(self._parts))
        if number == len(self._parts):
            self._parts.append(part)
        return number

    # Steps.

    def steps(self, state: State) -> Iterator[Step]:
        """Yield everything that may happen next, and first what is wrong with a state at rest."""
        if self.at_rest(state) and (wrong := self.wrong_at_rest(state)):
            yield Step(("rest",), state, wrong)
            return
        yield from self.world_steps(state)
        for leader, doing in enumerate(state.leaders):
            if doing == IDLE and leader and state.leaders[leader - 1] == IDLE:
                continue
            yield from self._leader(state, leader, doing)
        if self.case.reader:
            yield from self._reading(state)

    def is_finished(self, state: State) -> bool:
        """Return whether a state after the loss is at rest with everything written."""
        is_written = all(entry.item.writes for entry in state.entries)
        return state.phase != WHOLE and is_written and self.at_rest(state)

    def _leader(self, state: State, leader: int, doing: Any) -> Iterator[Step]:
        if doing:
            yield Step(("crash", leader), self._doing(state, leader, IDLE), "")
        if doing == IDLE:
            for contract in self.contracts(state):
                yield from self._begin(state, leader, contract)
        elif doing[0] == READING:
            yield from self._observe(state, leader, doing)
        elif not doing[2]:
            yield from self._act(state, leader, doing)

    @staticmethod
    def _doing(state: State, leader: int, doing: object) -> State:
        return state._replace(leaders=with_one(state.leaders, leader, doing))

    def _begin(self, state: State, leader: int, contract: Contract) -> Iterator[Step]:
        """Read the net at home; say which regions are to be read."""
        home = contract[0]
        observed = [self.live(state)]
        is_old = contract == (self.case.home, 1, self.case.always)
        if self.mutant.while_listed and state.phase == WHOLE and not is_old:
            observed = [self.remaining]
        nets = self.shown(state, home)
        base = nets[-1] if nets else _NONE
        for regions in observed:
            views = tuple(UNREAD if region in regions else None for region in self.regions)
            doing = (READING, contract, base, views)
            yield Step(("read net", home), self._doing(state, leader, doing), "")

    def _observe(self, state: State, leader: int, doing: Any) -> Iterator[Step]:
        """Read one region's view; the last one read, decide."""
        _, contract, base, views = doing
        live = self.live(state)
        for region, view in enumerate(views):
            if view != UNREAD or region not in live:
                continue
            seen = with_one(views, region, self.view(state, region))
            after: Any = (READING, contract, base, seen)
            if UNREAD not in seen:
                after = self._decided(state, contract, base, seen)
            yield Step(("read", region), self._doing(state, leader, after), "")

    def _decided(self, state: State, contract: Contract, base: Any, views: Any) -> Any:
        question = Question(contract, None if base == _NONE else base, views)
        decision = self.production.decision(question)
        if decision == NOTHING:
            return IDLE
        return (ACTING, contract, int(bool(state.reader)), decision)

    # Acting.

    def _act(self, state: State, leader: int, doing: Any) -> Iterator[Step]:
        _, (home, *_), _, decision = doing
        if decision.put is not None:
            left = decision._replace(put=None)
            yield from self._put(self._left(state, leader, doing, left), home, decision.put)
        for one in decision.deletes:
            left = decision._replace(deletes=_without(decision.deletes, one))
            yield from self._delete(self._left(state, leader, doing, left), one, state)
        for one in decision.again:
            left = decision._replace(again=_without(decision.again, one))
            yield from self._again(self._left(state, leader, doing, left), one)

    def _left(self, state: State, leader: int, doing: Any, left: Decision) -> State:
        after = IDLE if left == NOTHING else (*doing[:3], left)
        return self._doing(state, leader, after)

    def _put(self, after: State, home: int, put: Put) -> Iterator[Step]:
        place = put.generation - 1
        net = after.nets[place]
        if home not in self.live(after) or net.shown(home) != put.expected:
            yield Step(("refused put", home), after, "")
            return
        for item in net.written(home, put.content, ahead=self.ahead(after)):
            yield self.put_net(("put net", put.generation, home), after, place, item, home)

    def _delete(self, after: State, one: Delete, before: State) -> Iterator[Step]:
        """Delete an item through a region that shows it; elsewhere it is no write."""
        region = one.region
        if region not in self.live(after):
            return
        if one.generation:
            net = after.nets[one.generation - 1]
            label: Label = ("delete net", one.generation, region)
            if net.shown(region) is None:
                yield Step(label, after, "")
                return
            for item in net.written(region, _GONE, ahead=self.ahead(before)):
                yield self.put_net(label, after, one.generation - 1, item, region)
            return
        entry = after.entries[one.entry].item
        label = ("delete entry", one.entry, region)
        if entry.shown(region) is None:
            yield Step(label, after, "")
            return
        for item in entry.written(region, _GONE, ahead=self.ahead(before)):
            yield self.put_entry(label, after, one.entry, item, region)

    def _again(self, after: State, one: PutAgain) -> Iterator[Step]:
        """Put an entry again, if the net, and the entry, are there as they were observed."""
        region, entry = one.region, after.entries[one.entry].item
        if region not in self.live(after):
            return
        net = after.nets[one.generation - 1].shown(region)
        is_refused = self.mutant.checked and net != one.expected
        # At most one an hour: a second copy by the region to be lost is one too many for the model.
        is_refused |= region == LOST and len(entry.writes) > _COPIES_MAX
        if is_refused or (self.mutant.exists and entry.shown(region) is None):
            yield Step(("refused again", region), after, "")
            return
        for item in entry.written(region, _PUT, ahead=self.ahead(after)):
            yield self.put_entry(("again", one.entry, region), after, one.entry, item, region)

    # The reader, whose two reads lie apart.

    def _reading(self, state: State) -> Iterator[Step]:
        """Begin or end a read: the entries first, or from a stale replica the nets first."""
        if state.reader:
            yield self._read_end(state)
            return
        for region in self.live(state):
            visible, nets = self.view(state, region)
            reached = self.reached(state, region)
            for is_stale, part in ((0, visible), (1, nets)):
                after = state._replace(reader=(region, is_stale, part, reached))
                yield Step(("page 1", region, is_stale), after, "")

    def _read_end(self, state: State) -> Step:
        """Read the rest; the total lies between what had arrived at the begin and at the end."""
        region, is_stale, part, began = state.reader
        visible, nets = self.view(state, region)
        counts = self.production.counts((visible, part) if is_stale else (part, nets))
        ended = self.reached(state, region)
        is_right = all(
            low <= count <= high for low, count, high in zip(began, counts, ended, strict=True)
        )
        leaders = tuple(
            (*leader[:2], 0, leader[3]) if leader[:1] == (ACTING,) else leader
            for leader in state.leaders
        )
        after = state._replace(reader=(), leaders=leaders)
        wrong = "" if is_right else f"a reader in {REGIONS[region]} counts {counts}"
        return Step(("page 2", region, is_stale), after, wrong)

    def described(self, step: Step) -> str:
        """Return one line: what happens, and what every region shows after it."""
        return described(self, step)


def _without(values: tuple[Any, ...], one: object) -> tuple[Any, ...]:
    return tuple(value for value in values if value != one)
