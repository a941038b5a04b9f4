"""The search: breadth first through every state of a case, to the first wrong total."""

from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from proof.simulator.explorer.describe import described
from proof.simulator.explorer.keys import Keys
from proof.simulator.explorer.model import Model
from proof.simulator.explorer.state import Case
from proof.simulator.explorer.state import Step as MergeStep

STATES_MAX = 50_000_000
REPORT_STATES = 5_000


S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Step(Protocol[S_co]):
    """What happens, the state after it, and what is wrong then; empty if nothing is."""

    @property
    def label(self) -> Any: ...  # noqa: D102 (each model's own)
    @property
    def state(self) -> S_co: ...  # noqa: D102
    @property
    def wrong(self) -> str: ...  # noqa: D102


class Walkable(Protocol[S]):
    """A model that can be walked through: its states, what may happen in each, their keys.

    States that differ only in what may be exchanged have one key; `state` returns one of them.
    """

    def initial(self) -> S:
        """Return the first state."""

    def steps(self, state: S) -> Iterable[Step[S]]:
        """Return everything that may happen next."""

    def is_finished(self, state: S) -> bool:
        """Return whether all that was to be reached is reached."""

    def key(self, state: S) -> Hashable:
        """Return the key of a state."""

    def state(self, key: Any) -> S:
        """Return the state of a key."""

    def described(self, step: Any) -> str:
        """Return one line: what happens, and what there is after it."""


class Merging:
    """The model of merging, with its keys."""

    def __init__(self, case: Case) -> None:
        self._model = model = Model(case)
        keys = Keys(model)
        self.initial, self.steps, self.is_finished = model.initial, model.steps, model.is_finished
        self.key, self.state = keys.key, keys.state

    def described(self, step: MergeStep) -> str:
        """Return one line: what happens, and what every region shows after it."""
        return described(self._model, step)


@dataclass(frozen=True, slots=True)
class Explored:
    """What a walk found.

    `finished` states have everything merged, deleted and forgotten everywhere. `wrong` is empty,
    or says what was wrong at the end of `trace`, one line a step.
    """

    states: int
    transitions: int
    depth: int
    finished: int
    seconds: float
    is_whole: bool = True
    wrong: str = ""
    trace: tuple[str, ...] = ()


@dataclass(slots=True)
class _Walk(Generic[S]):
    """The states found so far, in order; of each, the one from which it was found first."""

    model: Walkable[S]
    found: list[Any]
    parents: "array[int]"
    transitions: int = 0
    depth: int = 0
    finished: int = 0

    def path(self, place: int) -> list[Any]:
        """Return the keys from the first state to the one in this place."""
        places = [place]
        while places[-1]:
            places.append(self.parents[places[-1]])
        return [self.found[place] for place in reversed(places)]


OnProgress = Callable[[int, int, int, int], None]


def explore(
    case: Case, *, states_max: int = STATES_MAX, on_progress: OnProgress = lambda *_: None
) -> Explored:
    """Walk through every state of a case of merging; see `walk_through`."""
    return walk_through(Merging(case), states_max=states_max, on_progress=on_progress)


def walk_through(
    model: Walkable[S],
    *,
    states_max: int = STATES_MAX,
    on_progress: OnProgress = lambda *_: None,
) -> Explored:
    """Walk through every state of a model, up to `states_max`, or to the first that is wrong.

    `on_progress` is called now and then with states, states to visit, transitions and depth.
    """
    began, walk = monotonic(), _Walk(model, [model.key(model.initial())], array("L", [0]))
    found, seen = walk.found, set(walk.found)
    place, level_end, wrong = 0, 1, None
    while place < len(found) < states_max and wrong is None:
        if place == level_end:
            walk.depth, level_end = walk.depth + 1, len(found)
        if place % REPORT_STATES == 0:
            on_progress(len(found), len(found) - place, walk.transitions, walk.depth)
        wrong = _visit(walk, place, seen)
        place += 1
    trace = _trace(walk, place - 1, wrong) if wrong else ()
    return Explored(
        states=len(found),
        transitions=walk.transitions,
        depth=walk.depth,
        finished=walk.finished,
        seconds=monotonic() - began,
        is_whole=place == len(found),
        wrong=trace[-1] if trace else "",
        trace=trace[:-1],
    )


def _visit(walk: _Walk[S], place: int, seen: set[Any]) -> Step[S] | None:
    """Take every step from one state; return the first that is wrong."""
    model = walk.model
    state = model.state(walk.found[place])
    walk.finished += model.is_finished(state)
    for step in model.steps(state):
        walk.transitions += 1
        if step.wrong:
            return step
        key = model.key(step.state)
        if key not in seen:
            seen.add(key)
            walk.found.append(key)
            walk.parents.append(place)
    return None


def _trace(walk: _Walk[S], place: int, wrong: Step[S]) -> tuple[str, ...]:
    """Repeat the path from the beginning, without exchanging names, and describe it."""
    model = walk.model
    state, lines = model.initial(), []
    last = model.key(wrong.state)
    path = [*((key, False) for key in walk.path(place)[1:]), (last, True)]
    for key, is_wrong in path:
        step = _step_to(model, state, key, is_wrong=is_wrong)
        lines.append(model.described(step))
        state = step.state
    return (*lines, step.wrong)


def _step_to(model: Walkable[S], state: S, key: Any, *, is_wrong: bool) -> Step[S]:
    for step in model.steps(state):
        if model.key(step.state) == key and bool(step.wrong) == is_wrong:
            return step
    raise AssertionError("unreachable: the walk has gone this way before")
