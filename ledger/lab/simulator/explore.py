"""Every order of events in small cases, one after another: no region ever shows a wrong total.

::

    python -m ledger.lab.simulator.explore --regions 3 --entries 2 --leaders 2
    python -m ledger.lab.simulator.explore --twin home-candidates

A breadth-first walk over all states that writers, replication, leaders (each a zombie that acts on
what it saw however long ago, or crashes), plans in flight, a reader and a move of home can bring
about. What is decided and what is counted comes from the production code (`compactor.plan.decide`,
`ledger.core.fold.Collection`); the model only moves items about. In every state, wherever an item
has changed, the region's total must count each change that has reached it, once, and no other.
With a twin one rule is broken, and the walk ends with the shortest trace to a wrong total.

What needs no step of its own:

- a retry. A change is merged only once it is older than `settle`, when no retry of it can arrive
  any more; before that, a retry puts the same item where it has not arrived yet, which is what its
  arrival does. `settle` itself is the simulator's business.
- an entry that is too young to be merged: a leader that acts late on a view without that entry
  does the same. Nor a region that cannot be read: its reader waits for ever, or crashes.
- the hold. A leader that has observed while a reader was under way waits for that reader to end:
  `read_deadline` is less than `observation_delay`.
"""

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ledger.core.errors import InvalidInput
from ledger.lab.simulator.explore_keys import Keys
from ledger.lab.simulator.explore_model import Model
from ledger.lab.simulator.explore_plan import REGIONS, TWINS
from ledger.lab.simulator.explore_state import Case, Label, State, Step, entry_name, names
from ledger.runtime import command_line

STATES_MAX = 50_000_000
REPORT_STATES = 5_000

app = typer.Typer(add_completion=False, help="Walk through every order of events of a small case.")


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
        return [self.found[one] for one in reversed(places)]


def explore(
    case: Case,
    *,
    states_max: int = STATES_MAX,
    on_progress: Callable[[int, int, int, int], None] = lambda *_: None,
) -> Explored:
    """Walk through every state of a case, up to `states_max`, or to the first that is wrong.

    `on_progress` is told states, states still to visit, transitions and depth now and then.
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
    """Go the way again from the beginning, without exchanging names, and tell it."""
    state, lines = walk.model.initial(), []
    last = walk.keys.key(wrong.state)
    for key in [*walk.path(place)[1:], last]:
        step = _step_to(walk, state, key, is_wrong=key == last)
        lines.append(f"{_said(step.label):42} {_shown(walk.model, step.state)}")
        state = step.state
        if step.wrong:
            return (*lines, step.wrong)
    raise AssertionError("unreachable: the last step is wrong")


def _step_to(walk: _Walk, state: State, key: int, *, is_wrong: bool) -> Step:
    for step in walk.model.steps(state):
        if walk.keys.key(step.state) == key and bool(step.wrong) == is_wrong:
            return step
    raise AssertionError("unreachable: the walk has gone this way before")


def _shown(model: Model, state: State) -> str:
    """Return what every region shows: its entries, what its net counts, and which it names."""
    return "   ".join(f"{_region_shown(model, state, region):22}" for region in model.regions)


def _region_shown(model: Model, state: State, region: int) -> str:
    slot = state.shown[region]
    entries = list(enumerate(state.entries))
    visible = names([place for place, one in entries if model.is_visible(one, region)])
    known = [(place, model.known_to_net(one, slot)) for place, one in entries]
    counted = [name for place, one in known for name in [entry_name(place)] * (one & 0b11)]
    merged = names([place for place, one in known if one & 0b100])
    net = f" net {'+'.join(counted) or 0} ids {merged or '-'}" if slot else ""
    return f"{visible or '-'}{net}"


_SAID = {
    "write": "{entry} is written in {region}",
    "entry": "{entry} arrives in {region}",
    "delete": "the delete of {entry} arrives in {region}",
    "net": "a net arrives in {region}",
    "read net": "{leader} reads the net at home",
    "read": "{leader} reads {region}",
    "read page 1": "{leader} reads page 1 of {region}",
    "read page 2": "{leader} reads page 2 of {region}",
    "crash": "{leader} crashes",
    "leave": "{leader} leaves its plan in flight",
    "lose": "what is in flight is lost",
    "move": "the operator moves home",
    "hand over": "{leader} hands over the lease",
    "page 1": "a reader in {region} reads {first}",
    "page 2": "the reader in {region} reads the rest",
}


def _said(label: Label) -> str:
    """Tell one step in words."""
    what, *numbers = label
    who, _, act = str(what).partition(": ")
    if act:
        region = REGIONS[int(numbers[-1])]
        entry = entry_name(int(numbers[0]))
        return f"{who} puts a new net" if act == "fold" else f"{who} deletes {entry} in {region}"
    values = _values(str(what), [int(number) for number in numbers])
    return _SAID[str(what)].format(**values)


def _values(what: str, numbers: list[int]) -> dict[str, str]:
    if what in {"write", "entry", "delete"}:
        return {"entry": entry_name(numbers[0]), "region": REGIONS[numbers[1]]}
    if what in {"net", "page 1", "page 2"}:
        return {"region": REGIONS[numbers[0]], "first": ("entries", "the net")[numbers[1] == 1]}
    if what in {"read", "read page 1", "read page 2"}:
        return {"leader": f"leader {numbers[0] + 1}", "region": REGIONS[numbers[1]]}
    return {"leader": f"leader {numbers[0] + 1}"} if numbers else {}


def twin_case(name: str, case: Case) -> Case:
    """Return a case in which a twin shows.

    A change counted before its entry arrives, and a net that counts less than the one before, are
    let pass: the trace is to end where a region shows a wrong total.
    """
    twin = TWINS[name]
    return replace(
        case,
        entries=max(case.entries, twin.entries),
        leaders=max(case.leaders, twin.leaders),
        paged=case.paged or twin.needs_pages,
        reader=case.reader or twin.needs_reader,
        twin=twin,
        strict=False,
    )


@app.command()
def main(
    *,
    regions: Annotated[int, typer.Option(min=1, max=3)] = 2,
    entries: Annotated[int, typer.Option(min=1, max=6)] = 2,
    leaders: Annotated[int, typer.Option(min=1, max=2)] = 1,
    in_flight: Annotated[bool, typer.Option(help="A leader leaves its plan in flight.")] = False,
    paged: Annotated[bool, typer.Option(help="Leaders read views page by page.")] = False,
    reader: Annotated[bool, typer.Option(help="With a reader of two pages.")] = False,
    move: Annotated[bool, typer.Option(help="Home moves to another region.")] = False,
    fold_max: Annotated[int, typer.Option(min=0, help="Ids in a net; 0: no bound.")] = 0,
    twin: Annotated[str, typer.Option(help=f"Break a rule: {', '.join(TWINS)}.")] = "",
    states_max: Annotated[int, typer.Option(min=1)] = STATES_MAX,
) -> int:
    """Walk through every order of events of a small case, or find what a broken rule breaks."""
    if twin and twin not in TWINS:
        raise InvalidInput(f"there is no twin {twin!r}: {', '.join(TWINS)}")
    case = Case(
        regions=regions,
        entries=1 if twin else entries,
        leaders=leaders,
        flights=int(in_flight),
        paged=paged,
        reader=reader,
        move=move,
        fold_max=fold_max,
    )
    console = Console()
    explored = _with_progress(
        twin_case(twin, case) if twin else case, console, states_max=states_max
    )
    for line in _report(explored, twin):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return int(not explored.wrong) if twin else int(bool(explored.wrong) or not explored.is_whole)


def _with_progress(case: Case, console: Console, *, states_max: int) -> Explored:
    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")

        def on_progress(states: int, left: int, transitions: int, depth: int) -> None:
            text = (
                f"{states:,} states, {left:,} to visit, {transitions:,} transitions, depth {depth}"
            )
            progress.update(task, description=text)

        return explore(case, states_max=states_max, on_progress=on_progress)


def _report(explored: Explored, twin: str) -> Iterator[str]:
    if twin:
        yield f"{twin}: {TWINS[twin].what}"
    for number, line in enumerate(explored.trace, start=1):
        yield f"{number:3}  {line.rstrip()}"
    if explored.wrong:
        yield f"WRONG: {explored.wrong}"
    yield (
        f"{explored.states:,} states, {explored.transitions:,} transitions, depth"
        f" {explored.depth}, {explored.finished:,} with everything merged,"
        f" {explored.seconds:.1f} s"
    )
    if not explored.wrong:
        whole = "every state visited" if explored.is_whole else "stopped before the end"
        yield f"{whole}: no wrong total"


if __name__ == "__main__":
    command_line.run(app)
