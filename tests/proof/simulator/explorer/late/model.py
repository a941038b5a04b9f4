"""States and steps: where entries and nets are, and what a net says of an id."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

from compactor.archiver import settled_upto
from compactor.merge_plan import MergeRules, Observation
from compactor.observation import CollectionViews
from ledger.core.archive_pointers import BEGUN, ArchiveState
from ledger.core.fold import Collection
from ledger.core.ids import EPOCH, MICROSECOND, EntryIds, sort_key
from ledger.core.values import NetChange
from ledger.writes.past_horizon import unknown_because
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.stepping import Step

REGIONS = ("us-east-1", "eu-west-1")
HOME, OTHER = 0, 1
_START = datetime(2026, 1, 1, tzinfo=UTC)
SETTLE = 2
"""In ticks."""
NEVER = -1


@cache
def _id(number: int, tick: int) -> str:
    return sort_key(_at(tick), number)


def _at(tick: int) -> datetime:
    return _START + timedelta(seconds=tick)


class Net(NamedTuple):
    """A net: its version, the entries that it counts, those in segments, and what has settled."""

    version: int = 0
    counted: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()
    since: str = ""
    settled: int = 0
    is_archived: bool = False


class Look(NamedTuple):
    """What a compactor has read: when it began, of which net, and the entries of each region."""

    began: int
    version: int
    home: frozenset[int]
    other: frozenset[int] | None = None


class State(NamedTuple):
    """All of a small case; `shown` has the entries of each region, `nets` the net of each."""

    now: int = 0
    left: frozenset[int] = frozenset()
    applied: frozenset[int] = frozenset()
    shown: tuple[frozenset[int], frozenset[int]] = (frozenset(), frozenset())
    coming: frozenset[tuple[int, int]] = frozenset()
    nets: tuple[Net, Net] = (Net(), Net())
    look: Look | None = None
    archive: bool = False
    lost: int = NEVER


Settled = Callable[[CollectionViews, Iterable[str], MergeRules], int]
Unknown = Callable[[str, ArchiveState, Sequence[str], datetime | None], str]


def _unknown(entry: str, head: ArchiveState, named: Sequence[str], lost: datetime | None) -> str:
    return unknown_because(entry, head, named, lost=lost)


@dataclass(frozen=True, slots=True)
class Case:
    """Tick and region of each entry, how long time goes on, and what may happen."""

    entries: tuple[tuple[int, int], ...]
    ticks: int = 5
    archived_from_start: bool = True
    is_lost: bool = False
    fold_max: int = 9
    settled: Settled = settled_upto
    unknown: Unknown = _unknown
    measures_at_act: bool = False


class Model:
    """One case, in every order of events."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._ids = [_id(number, tick) for number, (tick, _) in enumerate(case.entries)]

    def initial(self) -> State:
        """Return the first state: nothing is written."""
        left = frozenset(range(len(self._case.entries)))
        return State(left=left, archive=self._case.archived_from_start)

    def key(self, state: State) -> Hashable:
        """Return the state itself."""
        return state

    def state(self, key: Any) -> State:
        """Return the state of a key."""
        return key  # type: ignore[no-any-return]

    def steps(self, state: State) -> Iterator[Step[str, State]]:
        """Yield everything that may happen next."""
        for label, after in self._events(state):
            yield Step(label, after, self._wrong(after))

    def is_finished(self, state: State) -> bool:
        """Return whether time is over."""
        return state.now == self._case.ticks and not state.coming

    def described(self, step: Step[str, State]) -> str:
        """Return one line: what happens, and what each net says after it."""
        said = "; ".join(
            f"{name}: kept {sorted(net.kept)}, settled {net.settled}"
            for name, net in zip(REGIONS, step.state.nets, strict=True)
        )
        return f"{step.state.now}: {step.label:45} {said}"

    def _live(self, state: State) -> tuple[int, ...]:
        return (HOME, OTHER) if state.lost == NEVER else (HOME,)

    def _wrong(self, state: State) -> str:
        lost = None if state.lost == NEVER else _at(state.lost)
        for region in self._live(state):
            net = state.nets[region]
            if not net.is_archived:
                continue
            named = [self._ids[number] for number in net.counted - net.kept]
            head = replace(BEGUN, since=net.since, settled=net.settled)
            for number in (state.applied | state.left) - net.kept - state.shown[region]:
                if not self._case.unknown(self._ids[number], head, named, lost):
                    return f"{REGIONS[region]} says that entry {number} was never applied"
        return ""

    def _events(self, state: State) -> Iterator[tuple[str, State]]:
        case = self._case
        if state.now < case.ticks:
            now = state.now + 1
            dead = {number for number in state.left if case.entries[number][0] + SETTLE <= now}
            yield "a tick", state._replace(now=now, left=state.left - dead)
        if not state.archive:
            yield "the archive begins", state._replace(archive=True)
        for number in state.left:
            tick, region = case.entries[number]
            if state.now >= tick and region in self._live(state):
                yield f"{REGIONS[region]}: entry {number} lands", self._landed(state, number)
        for region, number in state.coming:
            if region in self._live(state):
                rest = state._replace(coming=state.coming - {(region, number)})
                yield f"entry {number} reaches {REGIONS[region]}", _shown(rest, region, number)
        if state.nets[HOME] != state.nets[OTHER] and state.lost == NEVER:
            yield "the net reaches the other", state._replace(nets=(state.nets[HOME],) * 2)
        yield from self._deletes(state)
        yield from self._looks(state)
        if case.is_lost and state.lost == NEVER:
            coming = frozenset(one for one in state.coming if one[0] == HOME)
            yield (
                "the other region is lost",
                state._replace(lost=state.now, coming=coming, look=None),
            )
            yield (
                "the other region is lost, with what was on its way",
                state._replace(lost=state.now, coming=frozenset(), look=None),
            )

    def _landed(self, state: State, number: int) -> State:
        region = self._case.entries[number][1]
        after = state._replace(left=state.left - {number}, applied=state.applied | {number})
        return _shown(after, region, number)._replace(coming=after.coming | {(1 - region, number)})

    def _deletes(self, state: State) -> Iterator[tuple[str, State]]:
        """Yield the delete, in both regions, of what each region's net counts."""
        live = self._live(state)
        common = frozenset.intersection(*(state.nets[region].counted for region in live))
        for number in common & state.shown[HOME]:
            shown = (state.shown[HOME] - {number}, state.shown[OTHER] - {number})
            coming = frozenset(one for one in state.coming if one[1] != number)
            yield f"entry {number} is deleted", state._replace(shown=shown, coming=coming)

    def _looks(self, state: State) -> Iterator[tuple[str, State]]:
        look = state.look
        if look is None:
            began = Look(state.now, state.nets[HOME].version, state.shown[HOME])
            if state.lost != NEVER:
                began = began._replace(other=began.home)
            yield "the compactor reads home", state._replace(look=began)
        elif look.other is None:
            yield (
                "the compactor reads the other",
                state._replace(look=look._replace(other=state.shown[OTHER])),
            )
        else:
            rest = state._replace(look=None)
            is_current = look.version == state.nets[HOME].version
            yield "the compactor acts", self._folded(rest, look) if is_current else rest

    def _folded(self, state: State, look: Look) -> State:
        net, other = state.nets[HOME], look.other or frozenset()
        old = {
            number
            for number in look.home & other
            if self._case.entries[number][0] + SETTLE <= look.began
        }
        new = frozenset(sorted(old - net.counted)[: self._case.fold_max])
        settled = self._settled(state, look, net, new)
        counted = net.counted | new
        after = Net(net.version + 1, counted)
        if state.archive:
            since = net.since
            if not net.is_archived:
                since = max((self._ids[number] for number in net.counted), default="")
            after = after._replace(
                kept=net.kept | new,
                since=since,
                settled=max(net.settled, settled),
                is_archived=True,
            )
        if after._replace(version=net.version) == net:
            return state
        return state._replace(nets=(after, state.nets[OTHER]))

    def _settled(self, state: State, look: Look, net: Net, new: frozenset[int]) -> int:
        began = state.now if self._case.measures_at_act else look.began
        shown = dict(zip(REGIONS, (look.home, look.other or frozenset()), strict=True))
        if state.lost != NEVER:
            del shown[REGIONS[OTHER]]
        views = {
            name: Collection({self._ids[number]: Decimal(1) for number in numbers})
            for name, numbers in shown.items()
        }
        named = EntryIds.of_sort_keys(self._ids[number] for number in net.counted)
        item = NetChange(Decimal(0), len(named), named, "v", "", REGIONS[HOME])
        observed = CollectionViews(Observation("c", item, views), 0.0, _at(began))
        folded = [self._ids[number] for number in new]
        return self._case.settled(observed, folded, _RULES)


_RULES = MergeRules(
    home=REGIONS[HOME], settle=SETTLE, fold_max=9, fold_min=1, fold_age=0, prune_min=1
)


def _shown(state: State, region: int, number: int) -> State:
    shown = list(state.shown)
    shown[region] |= {number}
    return state._replace(shown=(shown[0], shown[1]))


def _at_once(observed: CollectionViews, folded: Iterable[str], rules: MergeRules) -> int:
    return settled_upto(observed, folded, replace(rules, settle=0.0))


def _at_home(observed: CollectionViews, folded: Iterable[str], rules: MergeRules) -> int:
    home = {rules.home: observed.observation.views[rules.home]}
    observation = replace(observed.observation, views=home)
    return settled_upto(replace(observed, observation=observation), folded, rules)


def _whatever_waits(observed: CollectionViews, folded: Iterable[str], rules: MergeRules) -> int:
    del folded
    return int((observed.began - timedelta(seconds=rules.settle) - EPOCH) / MICROSECOND)


def _without_base(
    entry: str, head: ArchiveState, named: Sequence[str], lost: datetime | None
) -> str:
    del named
    return unknown_because(entry, replace(head, since=""), (), lost=lost)


def _without_gap(
    entry: str, head: ArchiveState, named: Sequence[str], lost: datetime | None
) -> str:
    del lost
    return unknown_because(entry, head, named, lost=None)


CASES = {
    "two-regions": Case(entries=((0, OTHER), (1, HOME))),
    "folds-of-one": Case(entries=((0, OTHER), (0, OTHER), (1, HOME)), ticks=4, fold_max=1),
    "begun-later": Case(entries=((0, OTHER), (1, HOME)), archived_from_start=False),
    "lost": Case(entries=((0, OTHER), (1, HOME)), ticks=4, is_lost=True),
}
MUTANTS = {
    "measured-at-act": BrokenRule(
        "the settled time is measured when the compactor acts, not when it began to read",
        replace(CASES["two-regions"], measures_at_act=True),
    ),
    "settled-at-once": BrokenRule(
        "everything counts as settled at once", replace(CASES["two-regions"], settled=_at_once)
    ),
    "settled-at-home": BrokenRule(
        "only home is asked for entries that still wait",
        replace(CASES["two-regions"], settled=_at_home),
    ),
    "whatever-waits": BrokenRule(
        "the settled time moves on whatever entries wait",
        replace(CASES["folds-of-one"], settled=_whatever_waits),
    ),
    "no-archive-from": BrokenRule(
        "a net forgets when its archive began", replace(CASES["begun-later"], unknown=_without_base)
    ),
    "no-gap": BrokenRule(
        "a net forgets when a region was lost", replace(CASES["lost"], unknown=_without_gap)
    ),
}
