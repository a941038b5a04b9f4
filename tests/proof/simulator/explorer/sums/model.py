"""States and steps: what is written where, what is on its way, and what is right."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from itertools import chain, combinations
from typing import Any, NamedTuple

from compactor.plan_execution import newer_than_there
from ledger.core.entry import Item
from ledger.core.fold import collect
from ledger.core.sums import Sum
from ledger.store.conditions import holds
from ledger.store.writes import Action, Delete, Update
from proof.simulator.explorer.stepping import Step
from proof.simulator.explorer.sums.rules import COUNTER, LOST, REGIONS, Case

HOME = 0
IN_FLIGHT_MAX = 2
"""Reduces of one region, and copies, that are sent and have not landed."""
AGAIN = 3
"""The writer that the lost region is once it was added again."""


class Content(NamedTuple):
    """A sum or copy: its value and version, and which writes of whom it goes back to."""

    value: int
    version: int
    by: tuple[tuple[int, int], ...]


Stamp = tuple[int, int]
Cell = tuple[Stamp, Content | None]
"""A version of an item, and its stamp; None for a deleted map item, or one that waits."""
Table = tuple[tuple[str, Cell], ...]


class Wire(NamedTuple):
    """An item on its way to a region; a stray one was sent by a region that is lost since."""

    target: int
    key: str
    cell: Cell
    is_stray: bool = False


class State(NamedTuple):
    """All regions; `done` has, of each writer, the map items added by each of its writes."""

    tables: tuple[Table, ...]
    waiting: tuple[frozenset[int], ...]
    wires: frozenset[Wire] = frozenset()
    reduces: frozenset[tuple[int, int, frozenset[int]]] = frozenset()
    copying: frozenset[tuple[str, Content]] = frozenset()
    done: tuple[tuple[frozenset[int], ...], ...] = ((), (), (), ())
    reached: tuple[tuple[int, ...], ...] = ((0, 0, 0, 0),) * len(REGIONS)
    lost: int = 0
    """0: not lost; 1: lost; 2: added again."""


@cache
def _items(table: Table) -> tuple[Item, ...]:
    return tuple(_item(key, content) for key, (_, content) in table if content is not None)


def _item(key: str, content: Content) -> Item:
    return {
        "pk": {"S": COUNTER},
        "sk": {"S": key},
        "value": {"N": str(content.value)},
        "version": {"N": str(content.version)},
    }


class Model:
    """One case, in every order of events."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._total: Callable[[Table], int] = cache(lambda table: case.total(_items(table)))

    def initial(self) -> State:
        """Return the first state: map items wait, and nothing is added."""
        count = len(self._case.waiting)
        waiting = tuple(map(frozenset, self._case.waiting))
        return State(((),) * count, waiting)

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
        """Return whether all is reduced, delivered and copied."""
        is_quiet = not (state.wires or state.reduces or state.copying)
        shown = (state.waiting[region] for region in self._live(state))
        return is_quiet and not any(shown) and not (state.lost and self._to_copy(state))

    def described(self, step: Step[str, State]) -> str:
        """Return one line: what happens, and what every region shows after it."""
        live = self._live(step.state)
        totals = ", ".join(
            f"{REGIONS[region]} {self._total(step.state.tables[region])}" for region in live
        )
        return f"{step.label:60} {totals}"

    def _live(self, state: State) -> list[int]:
        regions = range(len(self._case.waiting))
        return [region for region in regions if region != LOST or state.lost != 1]

    def _wrong(self, state: State) -> str:
        for region in self._live(state):
            shown, right = self._total(state.tables[region]), self._right(state, region)
            if shown != right:
                return f"{REGIONS[region]} shows {shown}, and {right} has reached it"
        if self.is_finished(state):
            totals = {self._total(state.tables[region]) for region in self._live(state)}
            if len(totals) > 1:
                return f"at rest regions differ: {sorted(totals)}"
        return ""

    def _right(self, state: State, region: int) -> int:
        """Return the sum over all that has reached a region, each once."""
        reached = zip(state.done, state.reached[region], strict=True)
        numbers = (number for done, count in reached for one in done[:count] for number in one)
        return sum(10**number for number in set(numbers))

    def _events(self, state: State) -> Iterator[tuple[str, State]]:
        for region in self._live(state):
            yield from self._sends(state, region)
        for reduce in state.reduces:
            after = self._landed(state, *reduce)
            numbers = ", ".join(map(str, sorted(reduce[2])))
            yield f"{REGIONS[reduce[0]]}: the reduce of {numbers} lands", after
            yield (
                f"{REGIONS[reduce[0]]}: the reduce of {numbers} lands, and is not over",
                after._replace(reduces=state.reduces),
            )
        for wire in state.wires:
            rest = state._replace(wires=state.wires - {wire})
            yield f"{wire.key} reaches {REGIONS[wire.target]}", _delivered(rest, wire)
            if wire.is_stray:
                yield f"{wire.key} never reaches {REGIONS[wire.target]}", rest
        if self._case.is_lost:
            yield from self._losses(state)

    def _sends(self, state: State, region: int) -> Iterator[tuple[str, State]]:
        sent = [reduction for reduction in state.reduces if reduction[0] == region]
        shown = sorted(state.waiting[region])
        if len(sent) >= IN_FLIGHT_MAX:
            return
        epoch = 2 if region == LOST and state.lost and not self._case.same_epoch else 1
        chosen = chain.from_iterable(combinations(shown, n + 1) for n in range(len(shown)))
        for numbers in chosen:
            reduce = (region, epoch, frozenset(numbers))
            if reduce not in state.reduces:
                label = f"{REGIONS[region]}: a reduce of {', '.join(map(str, numbers))} is sent"
                yield label, state._replace(reduces=state.reduces | {reduce})

    def _landed(self, state: State, region: int, epoch: int, numbers: frozenset[int]) -> State:
        """Carry a reduce out, if its conditions hold."""
        after = state._replace(reduces=state.reduces - {(region, epoch, numbers)})
        actions = self._case.planned(region, epoch, numbers)
        table = dict(state.tables[region])
        if not all(_is_true(action, state, region, table) for action in actions):
            return after
        writer = AGAIN if region == LOST and state.lost else region
        done = _replaced(state.done, writer, (*state.done[writer], numbers))
        after = after._replace(
            done=done,
            waiting=_replaced(state.waiting, region, state.waiting[region] - numbers),
        )
        for action in actions:
            if isinstance(action, Update):
                old = table.get(action.key[1])
                before = old[1] if old and old[1] else Content(0, 0, ())
                by = {**dict(before.by), writer: len(done[writer])}
                content = Content(
                    before.value + int(action.add["value"]["N"]),
                    before.version + int(action.add["version"]["N"]),
                    tuple(sorted(by.items())),
                )
                after = self._written(after, region, action.key[1], content)
        return after

    def _written(self, state: State, region: int, key: str, content: Content) -> State:
        """Write a sum or a copy in a region, and send it to the others."""
        old = dict(state.tables[region]).get(key)
        cell = ((old[0][0] + 1 if old else 1, region), content)
        others = [other for other in self._live(state) if other != region]
        wires = state.wires | {Wire(other, key, cell) for other in others}
        return _delivered(state._replace(wires=wires), Wire(region, key, cell))

    def _losses(self, state: State) -> Iterator[tuple[str, State]]:
        if not state.lost:
            yield (
                f"{REGIONS[LOST]} is lost",
                state._replace(
                    lost=1,
                    reduces=frozenset(
                        reduction for reduction in state.reduces if reduction[0] != LOST
                    ),
                    wires=frozenset(
                        wire._replace(is_stray=wire.cell[0][1] == LOST)
                        for wire in state.wires
                        if wire.target != LOST
                    ),
                ),
            )
            return
        if state.lost == 1 and self._case.again:
            yield f"{REGIONS[LOST]} is added again", self._added_again(state)
        found = self._to_copy(state)
        new = frozenset(found.items()) - state.copying
        if new and len(state.copying) + len(new) <= IN_FLIGHT_MAX:
            yield "home: copies are sent", state._replace(copying=state.copying | new)
        for key, content in state.copying:
            rest = state._replace(copying=state.copying - {(key, content)})
            old = dict(state.tables[HOME]).get(key)
            there = _item(key, old[1]) if old and old[1] else None
            is_new = holds(newer_than_there(Sum(content.value, content.version)), there)  # type: ignore[arg-type]
            yield (
                f"home: the copy of version {content.version} lands",
                self._written(rest, HOME, key, content) if is_new else rest,
            )

    def _added_again(self, state: State) -> State:
        """Fill a new replica with the newest of what the others show."""
        newest: dict[str, Cell] = {}
        for region in self._live(state):
            for key, cell in state.tables[region]:
                if key not in newest or newest[key][0] < cell[0]:
                    newest[key] = cell
        reached = tuple(map(max, zip(*(state.reached[region] for region in (0, 1)), strict=True)))
        onward = {wire._replace(target=LOST) for wire in state.wires if wire.cell[0][1] != LOST}
        return state._replace(
            lost=2,
            tables=_replaced(state.tables, LOST, tuple(sorted(newest.items()))),
            waiting=_replaced(state.waiting, LOST, frozenset(self._case.again)),
            reached=_replaced(state.reached, LOST, reached),
            wires=state.wires | onward,
        )

    def _to_copy(self, state: State) -> dict[str, Content]:
        views = [collect(_items(state.tables[region])) for region in self._live(state)]
        epochs = dict.fromkeys(REGIONS, 1) | {REGIONS[LOST]: 2}
        found = self._case.copies([view.sums for view in views], views[0].copies, epochs)
        contents: Mapping[tuple[int, int], Content] = {
            (content.value, content.version): content
            for region in self._live(state)
            for _, (_, content) in state.tables[region]
            if content is not None
        }
        return {key: contents[int(one.value), one.version] for key, one in found.items()}


def _is_true(action: Action, state: State, region: int, table: Mapping[str, Cell]) -> bool:
    """Return whether the condition of an action holds in a region."""
    if isinstance(action, Delete):
        is_there = int(action.key[1]) in state.waiting[region]
        return holds(action.condition, {"sums": {"M": {}}} if is_there else None)
    cell = table.get(action.key[1])
    return holds(action.condition, _item(action.key[1], cell[1]) if cell and cell[1] else None)


def _delivered(state: State, wire: Wire) -> State:
    """Let an item reach a region: the newer one stays."""
    table = dict(state.tables[wire.target])
    old = table.get(wire.key)
    if old is None or old[0] < wire.cell[0]:
        table[wire.key] = wire.cell
    reached = dict(enumerate(state.reached[wire.target]))
    for writer, count in wire.cell[1].by if wire.cell[1] else ():
        reached[writer] = max(reached[writer], count)
    return state._replace(
        tables=_replaced(state.tables, wire.target, tuple(sorted(table.items()))),
        reached=_replaced(state.reached, wire.target, tuple(reached.values())),
    )


def _replaced(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])
