"""Changes of layout in every order of steps: production code, late requests, kills, mutants."""

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from support.ledgers import make_services
from support.schedules import Bounds, Turns, every
from support.tiers import LONG

from ledger.core.errors import MethodConflict
from ledger.primitives.counters import ItemCounter, addition
from ledger.primitives.counters import layout as layouts
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.primitives.counters.layout import Layout
from ledger.primitives.counters.layout_changes import CounterLayout
from ledger.store.conditions import AllOf
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.writes import Applied, Outcome, Rejected, Unknown

MAXIMUM = 3
FEW = Bounds(switches=1)
BOUNDS = [
    pytest.param(FEW, id="1 switch"),
    pytest.param(Bounds(switches=0, late=1), id="a late request", marks=pytest.mark.slow),
    pytest.param(Bounds(switches=0, kills=1), id="a kill", marks=pytest.mark.slow),
    pytest.param(Bounds(switches=2), id="2 switches", marks=LONG),
    pytest.param(Bounds(switches=1, late=1), id="a late request, 1 switch", marks=LONG),
    pytest.param(Bounds(switches=1, kills=1), id="a kill, 1 switch", marks=LONG),
]


def counter_of(
    method: str, store: Store, seed: int, *, shards: int | None = None, maximum: int = MAXIMUM
) -> ItemCounter:
    """Return a counter as one process has it."""
    return ITEM_METHODS[method](
        store, "counter", services=make_services(seed=seed), maximum=maximum, shards=shards
    )


class World:
    """A counter at 1 of 3, and processes that add 1 each, while its layout changes."""

    def __init__(self, method: str, turns: Turns) -> None:
        self.method = method
        self.turns = turns
        self.outcomes: list[Outcome | None] = []

    async def begin(self, shards: int) -> None:
        """Count 1 before anything else happens."""
        first = counter_of(self.method, MemoryStore("us-east-1", self.turns.table), 1)
        await first.convert(shards=shards)
        assert isinstance(await first.add(1), Applied)

    async def add(self, name: str, seed: int, known: Layout) -> None:
        """Add 1 by a process that knows this layout, which may be an old one."""
        counter = counter_of(self.method, self.turns.store(name), seed)
        counter._layout.remembered.remember("counter", known)
        place = len(self.outcomes)
        self.outcomes.append(Unknown("killed"))
        try:
            self.outcomes[place] = await counter.add(1)
        except MethodConflict:
            self.outcomes[place] = Rejected("condition")

    async def convert(self, name: str, seed: int, shards: int, method: str | None = None) -> None:
        """Give the counter another layout."""
        counter = counter_of(method or self.method, self.turns.store(name), seed)
        await counter.convert(shards=shards)

    async def problems(self, method: str | None = None) -> list[str]:
        """Return what is wrong once all is over: against callers' outcomes, and the limit."""
        inner = MemoryStore("us-east-1", self.turns.table)
        counter = counter_of(method or self.method, inner, 99)
        value = int(await counter.value())
        applied = sum(isinstance(outcome, Applied) for outcome in self.outcomes)
        unknown = sum(isinstance(outcome, Unknown) for outcome in self.outcomes)
        found = []
        if not 1 + applied <= value <= 1 + applied + unknown:
            found.append(f"{value} counted of {self.outcomes}")
        if any(outcome == Rejected("contention") for outcome in self.outcomes):
            found.append("contention")
        for _ in range(MAXIMUM + 2):
            await counter.add(1)
        if await counter.value() != MAXIMUM:
            found.append(f"{await counter.value()} of {MAXIMUM}, after {value}")
        return found


async def two_add(method: str, before: int, after: int, turns: Turns) -> list[str]:
    """Two processes with the old layout in mind add, a third one changes it."""
    world = World(method, turns)
    await world.begin(before)
    item = turns.table.get(layouts.layout_key("counter"))
    known = layouts.layout_of(item or {})
    await turns.run(
        {
            "add 1": partial(world.add, "add 1", 5, known),
            "add 2": partial(world.add, "add 2", 6, known),
            "convert": partial(world.convert, "convert", 7, after),
        }
    )
    return await world.problems()


async def two_convert(method: str, turns: Turns) -> list[str]:
    """One process adds, one makes the shards 2, one makes them 3: the last one there stays."""
    world = World(method, turns)
    await world.begin(1)
    known = layouts.layout_of(turns.table.get(layouts.layout_key("counter")) or {})
    await turns.run(
        {
            "add": partial(world.add, "add", 5, known),
            "to 2": partial(world.convert, "to 2", 7, 2),
            "to 3": partial(world.convert, "to 3", 8, 3),
        }
    )
    return await world.problems()


async def to_another_method(method: str, other: str, turns: Turns) -> list[str]:
    """One process adds by the method before, while the counter is converted to another."""
    world = World(method, turns)
    await world.begin(1)
    known = layouts.layout_of(turns.table.get(layouts.layout_key("counter")) or {})
    await turns.run(
        {
            "add": partial(world.add, "add", 5, known),
            "convert": partial(world.convert, "convert", 7, 2, other),
        }
    )
    inner = MemoryStore("us-east-1", turns.table)
    now = await counter_of(method, inner, 98)._layout.renewed()
    return await world.problems(other if now.kind != ITEM_METHODS[method].kind else None)


def wrong(bounds: Bounds, world: Callable[[Turns], Any]) -> tuple[int, list[tuple[Any, Any]]]:
    """Return how many schedules there are, and those that ended wrong."""
    found = list(every(bounds, world))
    return len(found), [one for one in found if one[1]]


@pytest.mark.parametrize(
    ("method", "before", "after", "bounds"),
    [
        ("marker", 1, 2, FEW),
        pytest.param("history", 2, 1, FEW, marks=pytest.mark.slow),
        *(
            pytest.param(method, before, after, *bounds.values, marks=bounds.marks)
            for method in ("marker", "client-token", "history")
            for before, after in ((1, 2), (2, 1))
            for bounds in BOUNDS[1:]
        ),
    ],
)
def test_every_order_of_adding_and_changing(
    method: str, before: int, after: int, bounds: Bounds
) -> None:
    """No change is lost or counts twice, and the maximum is reached and not passed."""
    schedules, problems = wrong(bounds, partial(two_add, method, before, after))
    assert schedules > 30
    assert problems == []


@pytest.mark.slow
@pytest.mark.parametrize("bounds", BOUNDS)
def test_every_order_of_two_changes_of_layout(bounds: Bounds) -> None:
    """Two that change it at once take turns; each may finish what the other began."""
    schedules, problems = wrong(bounds, partial(two_convert, "marker"))
    assert schedules > 30
    assert problems == []


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize(("method", "other"), [("marker", "history"), ("history", "atomic")])
def test_every_order_of_a_change_of_method(method: str, other: str, bounds: Bounds) -> None:
    """A change by the method before counts, or its caller is refused; never neither, nor both."""
    schedules, problems = wrong(bounds, partial(to_another_method, method, other))
    assert schedules > 10
    assert problems == []


@pytest.mark.slow
def test_without_the_fence_the_maximum_is_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: writes that do not look at the layout of their item."""
    monkeypatch.setattr(addition, "stands", lambda *_: AllOf(()))
    monkeypatch.setattr(addition, "both", lambda _, other: other)
    _, problems = wrong(FEW, partial(two_add, "marker", 1, 2))
    assert any("of 3" in text for _, texts in problems for text in texts)


def test_without_freezing_a_change_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: values are read, then frozen, then portioned as they were read."""

    async def unfrozen(self: CounterLayout, layout: Layout, *, is_last: bool) -> None:
        del is_last
        shape = layout.pending or layout.shape
        keys = self._touched(layout, shape)
        items = await self._items(keys)
        for key in keys:
            await self._answered(layouts.freeze(key, layout.revision))
        await self._store.transact(layouts.finishing("counter", layout, items))

    monkeypatch.setattr(CounterLayout, "_finish", unfrozen)
    _, problems = wrong(FEW, partial(two_add, "marker", 1, 2))
    assert any("counted of" in text for _, texts in problems for text in texts)


async def moving(turns: Turns) -> list[Decimal]:
    """One process evens out all of 6 pieces in shard 0, another one reads them meanwhile."""
    inner = MemoryStore("us-east-1", turns.table)
    first = counter_of("atomic", inner, 3, shards=3, maximum=60)
    await first.add(6, spread=False)
    seen: list[Decimal] = []

    async def read() -> None:
        seen.append(await counter_of("atomic", turns.store("read"), 4).value())

    async def even() -> None:
        await counter_of("atomic", turns.store("even"), 5, maximum=60).even_out()

    await turns.run({"even": even, "read": read})
    assert await first.value() == 6
    return [value for value in seen if value != 6]


def test_a_reader_sees_no_piece_twice_or_never() -> None:
    """Between any two reads of shards pieces are moved: the sum read is the sum there was."""
    schedules, problems = wrong(Bounds(switches=1, late=1), moving)
    assert schedules > 30
    assert problems == []


def test_without_the_number_of_moves_a_reader_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: shards of before and after a move are added up."""
    monkeypatch.setattr("ledger.primitives.counters.item_counter.moves_of", lambda _: 0)
    _, problems = wrong(Bounds(switches=2), moving)
    assert problems
