"""The search: breadth first through every state of a case, to the first wrong total."""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from ledger.lab.simulator.explorer.describe import described
from ledger.lab.simulator.explorer.keys import Keys
from ledger.lab.simulator.explorer.model import Model
from ledger.lab.simulator.explorer.state import Case, State, Step

STATES_MAX = 50_000_000
REPORT_STATES = 5_000


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
class _Walk:
    """The states found so far, in order; of each, the one from which it was found first."""

    model: Model
    keys: Keys
    found: list[int]
    parents: "array[int]"
    transitions: int = 0
    depth: int = 0
    finished: int = 0

    @classmethod
    def begin(cls, case: Case) -> "_Walk":
        model = Model(case)
        keys = Keys(model)
        return cls(model, keys, [keys.key(model.initial())], array("L", [0]))

    def path(self, place: int) -> list[int]:
        """Return the keys from the first state to the one in this place."""
        places = [place]
        while places[-1]:
            places.append(self.parents[places[-1]])
        return [self.found[place] for place in reversed(places)]


def explore(
    case: Case,
    *,
    states_max: int = STATES_MAX,
    on_progress: Callable[[int, int, int, int], None] = lambda *_: None,
) -> Explored:
    """Walk through every state of a case, up to `states_max`, or to the first that is wrong.

    `on_progress` is called now and then with states, states to visit, transitions and depth.
    """
    began, walk = monotonic(), _Walk.begin(case)
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


def _visit(walk: _Walk, place: int, seen: set[int]) -> Step | None:
    """Take every step from one state; return the first that is wrong."""
    state = walk.keys.state(walk.found[place])
    walk.finished += walk.model.is_finished(state)
    for step in walk.model.steps(state):
        walk.transitions += 1
        if step.wrong:
            return step
        key = walk.keys.key(step.state)
        if key not in seen:
            seen.add(key)
            walk.found.append(key)
            walk.parents.append(place)
    return None


def _trace(walk: _Walk, place: int, wrong: Step) -> tuple[str, ...]:
    """Repeat the path from the beginning, without exchanging names, and describe it."""
    state, lines = walk.model.initial(), []
    last = walk.keys.key(wrong.state)
    for key in [*walk.path(place)[1:], last]:
        step = _step_to(walk, state, key, is_wrong=key == last)
        lines.append(described(walk.model, step))
        state = step.state
        if step.wrong:
            return (*lines, step.wrong)
    raise AssertionError("unreachable: the last step is wrong")


def _step_to(walk: _Walk, state: State, key: int, *, is_wrong: bool) -> Step:
    for step in walk.model.steps(state):
        if walk.keys.key(step.state) == key and bool(step.wrong) == is_wrong:
            return step
    raise AssertionError("unreachable: the walk has gone this way before")
