"""Every step that may happen next: of writers, replication, leaders, a reader; and what is wrong.

A leader is idle, reading (the net at home, then each region's view, one step each, in any order),
or acting on what was decided then, each part a step of its own, however late, in any order, or
never. So each leader is also a zombie.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator
from typing import Any

from proof.simulator.explorer.loss.items import EVERYWHERE, GONE, PAST, Item, never_written
from proof.simulator.explorer.production import NET_BITS, REGIONS
from proof.simulator.explorer.repeats.production import (
    COUNT,
    NAMED,
    Decision,
    ProductionCode,
    Question,
)
from proof.simulator.explorer.repeats.state import (
    ACTING,
    HOME,
    IDLE,
    READING,
    UNREAD,
    Case,
    Label,
    State,
)
from proof.simulator.explorer.state import entry_name, names, with_one
from proof.simulator.explorer.stepping import Step

_PUT = 1
_ORIGINS = frozenset({EVERYWHERE, *range(len(REGIONS)), PAST})

Steps = Iterator[Step[Label, State]]


class Model:
    """The steps of one case; see `walk.Walkable`."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._places = range(case.entries)
        self._named = sum(NAMED << (NET_BITS * place) for place in self._places)
        self._production = ProductionCode(entries=case.entries, deciding=case.deciding)

    # States and their keys.

    def initial(self) -> State:
        """Return the state in which nothing is written."""
        case = self._case
        nothing = (0,) * case.entries
        items = (never_written(case.regions),) * case.entries
        leaders = (IDLE,) * case.leaders
        return State(0, items, nothing, nothing, 0, (), (0,) * case.regions, leaders)

    def key(self, state: State) -> State:
        """Return a state in which leaders that may be exchanged are in order."""
        if len(state.leaders) > 1:
            return state._replace(leaders=tuple(sorted(state.leaders, key=repr)))
        return state

    def state(self, key: State) -> State:
        """Return the state of a key."""
        return key

    def is_finished(self, state: State) -> bool:
        """Return whether all is written, old and merged, and no entry is left anywhere."""
        live = self._live(state)
        if state.old < self._case.entries or not state.nets:
            return False
        newest = len(state.nets)
        is_named = bool(state.nets[-1] & self._named)
        return (
            all(item.writes for item in state.items)
            and all(state.shown[region] == newest for region in live)
            and not any(self._visible(state, region) for region in live)
            and not (is_named and not state.lost)
        )

    def described(self, step: Step[Label, State]) -> str:
        """Return one line: what happens, and what every region shows after it."""
        what, *where = step.label
        shown = "   ".join(self._described(step.state, region) for region in self._live(step.state))
        return f"{what!s:46} {' '.join(map(str, where)):16} {shown}"

    def _described(self, state: State, region: int) -> str:
        visible = names([p for p in self._places if self._visible(state, region) >> p & 1]) or "-"
        slot = state.shown[region]
        if not slot:
            return f"{visible:4} no net       "
        parts = [state.nets[slot - 1] >> (NET_BITS * place) for place in self._places]
        counted = names([place for place in self._places if parts[place] & COUNT]) or "0"
        named = names([place for place in self._places if parts[place] & NAMED]) or "-"
        return f"{visible:4} net {counted} ids {named}"

    # What regions show.

    def _live(self, state: State) -> range:
        return range(self._case.regions - state.lost)

    def _visible(self, state: State, region: int) -> int:
        return sum(
            (item.shown(region) is not None) << place for place, item in enumerate(state.items)
        )

    def _counted(self, state: State, region: int, visible: int) -> tuple[int, ...]:
        slot = state.shown[region]
        return self._production.counts(visible, state.nets[slot - 1] if slot else None)

    def _reached(self, state: State, region: int) -> tuple[int, ...]:
        return tuple(reached >> region & 1 for reached in state.reached)

    def _checked(self, label: Label, state: State, region: int) -> Step[Label, State]:
        """Return a step, with what is wrong with the total of a region after it."""
        if region not in self._live(state):
            return Step(label, state)
        counts = self._counted(state, region, self._visible(state, region))
        reached = self._reached(state, region)
        if counts == reached:
            return Step(label, state)
        there = names([place for place in self._places if reached[place]]) or "nothing"
        wrong = f"{REGIONS[region]} counts {_times(counts)}; what has reached it: {there}"
        return Step(label, state, wrong)

    def _with_item(
        self, label: Label, state: State, place: int, item: Item, region: int
    ) -> Step[Label, State]:
        """Return the step after which an entry's item is this; a put reaches the region."""
        tidy = item.tidy(self._live(state), _ORIGINS)
        is_there = item.shown(region) is not None
        after = state._replace(
            items=with_one(state.items, place, tidy),
            reached=with_one(state.reached, place, state.reached[place] | is_there << region),
        )
        return self._checked(label, after, region)

    # Steps.

    def steps(self, state: State) -> Steps:
        """Yield everything that may happen next."""
        yield from self._writes(state)
        yield from self._arrivals(state)
        for leader, doing in enumerate(state.leaders):
            if doing == IDLE:
                if leader and state.leaders[leader - 1] == IDLE:
                    continue
                after = (READING, state.shown[HOME], (UNREAD,) * len(self._live(state)), 0)
                yield Step(("a leader reads the net",), self._doing(state, leader, after))
                continue
            yield Step(("a leader crashes",), self._doing(state, leader, IDLE))
            if doing[0] == READING:
                yield from self._observe(state, leader, doing)
            elif not doing[2]:
                yield from self._act(state, leader, doing)
        if self._case.reader is not None:
            yield from self._reading(state, self._case.reader)
        if self._case.loses and not state.lost:
            yield Step(("the last region is lost",), self._lose(state))

    def _writes(self, state: State) -> Steps:
        """Write, repeat or answer an entry, in any region; let the next one become old."""
        if state.old < self._case.entries:
            yield Step(("an entry is older than settle",), state._replace(old=state.old + 1))
        for place in range(state.old, self._case.entries):
            item, name = state.items[place], entry_name(place)
            if not item.writes:
                if not state.lost:
                    yield from self._written(state, place)
                return
            if self._may_repeat(state, place):
                repeats = with_one(state.repeats, place, state.repeats[place] + 1)
                after = state._replace(repeats=repeats)
                for region in self._live(state):
                    for stamp in range(item.got[region], len(item.writes) + 1):
                        again = item.inserted(region, _PUT, stamp)
                        label = (f"{name} is put again", REGIONS[region])
                        yield self._with_item(label, after, place, again, region)
            if not self._case.carried and self._may_answer(state, place):
                yield Step((f"{name} is said to be answered",), _said(state, place))

    def _written(self, state: State, place: int) -> Steps:
        """Write an entry; if its writer knows that the one before was answered, it may say so."""
        before = [state]
        if self._case.carried and place and self._may_answer(state, place - 1):
            before.append(_said(state, place - 1))
        for after in before:
            for region in self._live(state):
                item = state.items[place].inserted(region, _PUT, 0)
                label: Label = (f"{entry_name(place)} is written", REGIONS[region])
                yield self._with_item(label, after, place, item, region)

    def _may_answer(self, state: State, place: int) -> bool:
        is_new = self._case.answers and not state.answered >> place & 1
        return is_new and (not state.repeats[place] or not self._case.promises)

    def _may_repeat(self, state: State, place: int) -> bool:
        is_promised = state.answered >> place & 1 and self._case.promises
        return state.repeats[place] < self._case.repeats and not is_promised

    def _arrivals(self, state: State) -> Steps:
        for region in self._live(state):
            for place, item in enumerate(state.items):
                for write, _ in item.arrivals(region):
                    after = item.arrived(region, write)
                    what = "the delete of " if after.shown(region) is None else ""
                    label: Label = (f"{what}{entry_name(place)} arrives", REGIONS[region])
                    yield self._with_item(label, state, place, after, region)
            for slot in range(state.shown[region] + 1, len(state.nets) + 1):
                after_net = state._replace(shown=with_one(state.shown, region, slot))
                yield self._checked(("a net arrives", REGIONS[region]), after_net, region)

    def _lose(self, state: State) -> State:
        """Lose the last region; of what was decided before only deletes are still done."""
        last = self._case.regions - 1
        leaders = []
        for doing in state.leaders:
            left = doing[:1] == (ACTING,) and doing[3]._replace(
                deletes=doing[3].deletes[:last], again=(0,) * last, fold=None
            )
            leaders.append((*doing[:3], left) if left and not left.is_idle else IDLE)
        after = state._replace(lost=True, leaders=tuple(leaders))
        live = self._live(after)
        return after._replace(
            items=tuple(item.lost(last).tidy(live, _ORIGINS) for item in state.items),
            reached=tuple(reached & ~(1 << last) for reached in state.reached),
        )

    # Leaders.

    @staticmethod
    def _doing(state: State, leader: int, doing: object) -> State:
        return state._replace(leaders=with_one(state.leaders, leader, doing))

    def _observe(self, state: State, leader: int, doing: Any) -> Steps:
        """Read one region's view; the last one read, decide."""
        _, base, views, answered = doing
        for region, view in enumerate(views):
            if view != UNREAD:
                continue
            seen = with_one(views, region, (self._visible(state, region), state.shown[region]))
            told = self._told(state) if region == HOME else answered
            after: Any = (READING, base, seen, told)
            if UNREAD not in seen:
                after = self._decided(state, base, seen, told)
            yield Step(("a leader reads", REGIONS[region]), self._doing(state, leader, after))

    def _told(self, state: State) -> int:
        """Return the entries (bits) of which home shows that they were answered."""
        if not self._case.carried:
            return state.answered
        return state.answered & self._visible(state, HOME) >> 1

    def _decided(self, state: State, base: int, views: Any, told: int) -> Any:
        case, every = self._case, (1 << self._case.entries) - 1
        old = (1 << state.old) - 1
        may = old | told if case.settles and not case.early else every
        is_remembered = state.lost and case.remembers
        question = Question(base, views, state.nets, old, may, state.lost, is_remembered)
        decision = self._production.decision(question)
        if case.early and decision.fold is not None:
            before = state.nets[base - 1] if base else 0
            young = sum(NAMED << (NET_BITS * place) for place in range(state.old, case.entries))
            fold = decision.fold | before & young
            decision = decision._replace(fold=None if fold == before else fold)
        if decision.is_idle:
            return IDLE
        return (ACTING, base, int(bool(state.reader) and case.holds), decision)

    def _act(self, state: State, leader: int, doing: Any) -> Steps:
        base, decision = doing[1], doing[3]
        if decision.fold is not None:
            after = self._left(state, leader, doing, decision._replace(fold=None))
            if state.shown[HOME] == base:
                nets = (*state.nets, decision.fold)
                shown = with_one(state.shown, HOME, len(nets))
                after = after._replace(nets=nets, shown=shown)
            yield self._checked(("a leader folds",), after, HOME)
        for region, some in enumerate(decision.deletes):
            for place in self._places:
                if some >> place & 1:
                    yield from self._delete(state, leader, doing, region, place)
        for region, some in enumerate(decision.again):
            for place in self._places:
                if some >> place & 1:
                    yield self._put_again(state, leader, doing, region, place)

    def _left(self, state: State, leader: int, doing: Any, left: Decision) -> State:
        after = IDLE if left.is_idle else (*doing[:3], left)
        return self._doing(state, leader, after)

    def _delete(self, state: State, leader: int, doing: Any, region: int, place: int) -> Steps:
        """Delete an entry where the region shows it; elsewhere that is no write."""
        decision = doing[3]
        deletes = with_one(decision.deletes, region, decision.deletes[region] & ~(1 << place))
        done = self._left(state, leader, doing, decision._replace(deletes=deletes))
        item, label = state.items[place], (f"{entry_name(place)} is deleted", REGIONS[region])
        if item.shown(region) is None:
            yield Step(label, done)
            return
        is_late = place < state.old and self._case.stamps and not state.lost
        first = len(item.writes) if is_late else item.got[region]
        for stamp in range(first, len(item.writes) + 1):
            deleted = item.inserted(region, GONE, stamp)
            for after in (done, state) if self._case.twice else (done,):
                yield self._with_item(label, after, place, deleted, region)

    def _put_again(
        self, state: State, leader: int, doing: Any, region: int, place: int
    ) -> Step[Label, State]:
        """Put an entry again, if entry and net are there as observed, once in all."""
        decision, bit = doing[3], 1 << place
        again = with_one(decision.again, region, decision.again[region] & ~bit)
        after = self._left(state, leader, doing, decision._replace(again=again))
        item, label = state.items[place], (f"{entry_name(place)} is put once more", REGIONS[region])
        is_there = item.shown(region) is not None and state.shown[region] == doing[1]
        if state.again & bit or not is_there:
            return Step(label, after)
        put = item.inserted(region, _PUT, len(item.writes))
        after = after._replace(again=state.again | bit)
        return self._with_item(label, after, place, put, region)

    # The reader.

    def _reading(self, state: State, region: int) -> Steps:
        """Begin a read, read one entry, or the net; the total lies between what was there."""
        if not state.reader:
            began = self._reached(state, region)
            after = state._replace(reader=(began, (None,) * self._case.entries))
            yield Step(("a reader begins", REGIONS[region]), after)
            return
        began, read = state.reader
        visible = self._visible(state, region)
        for place in self._places:
            if read[place] is None:
                one = with_one(read, place, visible >> place & 1)
                label = (f"the reader reads {entry_name(place)}", REGIONS[region])
                yield Step(label, state._replace(reader=(began, one)))
        if None in read:
            return
        seen = sum(one << place for place, one in enumerate(read))
        counts, ended = self._counted(state, region, seen), self._reached(state, region)
        is_right = all(
            low <= count <= high for low, count, high in zip(began, counts, ended, strict=True)
        )
        leaders = tuple(
            (*doing[:2], 0, doing[3]) if doing[:1] == (ACTING,) else doing
            for doing in state.leaders
        )
        wrong = "" if is_right else f"a reader in {REGIONS[region]} counts {_times(counts)}"
        label = ("the reader reads the net", REGIONS[region])
        yield Step(label, state._replace(reader=(), leaders=leaders), wrong)


def _said(state: State, place: int) -> State:
    return state._replace(answered=state.answered | 1 << place)


def _times(counts: tuple[int, ...]) -> str:
    return ", ".join(f"{entry_name(place)} {count}x" for place, count in enumerate(counts))
