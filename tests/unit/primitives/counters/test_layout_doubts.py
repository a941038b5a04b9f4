"""What a caller learns whose try had no answer when the layout changed."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
from support.counting import Interrupted
from support.ledgers import AWAY, HOME, make_services

from ledger.core.errors import Unreachable
from ledger.primitives.counters import ItemCounter
from ledger.primitives.counters.atomic import AtomicCounter
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.primitives.counters.item_counter import LAYOUTS_MAX
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    Lost,
    NeverArrived,
    Raises,
    Slow,
)
from ledger.store.writes import Action, Applied, Outcome, Rejected, Unknown, Write
from ledger.testing.clock import ManualClock

Between = Callable[[], Awaitable[object]]


def counter_of(
    method: str, store: MemoryStore | FaultyStore, seed: int, clock: ManualClock | None = None
) -> ItemCounter:
    """Return the counter as one process has it."""
    clock = clock or ManualClock(instant=True)
    return ITEM_METHODS[method](store, "counter", services=make_services(clock, seed))


async def in_doubt(method: str, fault: Fault, between: Between, inner: MemoryStore) -> Outcome:
    """Add 1 with no answer to the first try, after which others act."""
    await counter_of(method, inner, 1).add(10)
    faults = iter([Slow(after_seconds=1, then=fault)])

    def decide(call: FaultCall) -> Fault | None:
        return next(faults, None) if call.operation in ("write", "transact") else None

    clock = Interrupted(between)
    store = FaultyStore(inner, decide, clock=clock)
    return await counter_of(method, store, 2, clock).add(1, token="t")


async def test_exact_methods_are_exact_across_a_change_of_shards() -> None:
    """Whether the try was lost or never arrived: it counts once, and is Applied."""
    for method in ("marker", "client-token", "optimistic", "history"):
        for fault in (Lost(), NeverArrived()):
            inner = MemoryStore("us-east-1")
            after = counter_of(method, inner, 3)
            outcome = await in_doubt(method, fault, lambda one=after: one.convert(shards=3), inner)  # type: ignore[misc]
            value = await after.value()
            assert isinstance(outcome, Applied), (method, fault)
            assert value == 11, (method, fault)


async def test_a_change_of_method_leaves_a_doubt_unknown() -> None:
    """A method that does not know its tries cannot say that nothing was written."""
    for fault, value in ((Lost(), 11), (NeverArrived(), 10)):
        inner = MemoryStore("us-east-1")
        after = counter_of("history", inner, 3)
        outcome = await in_doubt("atomic", fault, after.convert, inner)
        assert isinstance(outcome, Unknown)
        assert "MethodConflict" in outcome.cause or "kept by method" in outcome.cause
        assert await after.value() == value


async def test_no_answer_after_a_doubt_leaves_it_unknown() -> None:
    """An error while the layout is read again is part of the doubt, not raised."""
    inner = MemoryStore("us-east-1")
    await counter_of("atomic", inner, 1).add(10)
    faults = iter([Slow(after_seconds=1, then=Lost())])
    changed: list[bool] = []

    def decide(call: FaultCall) -> Fault | None:
        if changed and call.operation == "get":
            return Raises(Unreachable("no connection"))
        return next(faults, None) if call.operation == "write" else None

    async def between() -> None:
        await counter_of("atomic", inner, 3).convert(shards=2)
        changed.append(True)

    clock = Interrupted(between)
    outcome = await counter_of("atomic", FaultyStore(inner, decide, clock=clock), 2, clock).add(1)
    assert isinstance(outcome, Unknown)
    assert "no connection" in outcome.cause


async def test_a_layout_that_changes_each_time_is_contention() -> None:
    """The call ends by a bound, and nothing of it is written."""
    inner = MemoryStore("us-east-1")
    await counter_of("atomic", inner, 1).add(10)
    other = counter_of("atomic", inner, 3)
    changes = 0

    class Ahead(MemoryStore):
        """Before each write of ours the number of shards changes."""

        async def write(self, write: Write) -> Outcome:
            """Let another process change the layout first."""
            nonlocal changes
            changes += 1
            await other.convert(shards=1 + changes % 2)
            return await super().write(write)

    outcome = await counter_of("atomic", Ahead("us-east-1", inner.table), 2).add(1)
    assert outcome == Rejected("contention", "the number of shards changed each time")
    assert changes == LAYOUTS_MAX
    assert await other.value() == 10


@pytest.mark.parametrize("call", ["hand_over", "convert", "add"])
async def test_an_arrangement_without_an_answer_is_unknown(call: str) -> None:
    """Its writes may have been applied, whatever the call was for."""
    store = Unheard(HOME)
    await counter_of("atomic", MemoryStore(HOME, store.table), 1).add(1)
    counter = AtomicCounter(store, "counter", services=make_services(seed=2), shards=4)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "hand_over": lambda: counter.hand_over(AWAY),
        "convert": lambda: counter.convert(shards=2),
        "add": lambda: counter.add(1),
    }
    with pytest.raises(Unreachable) as raised:
        await calls[call]()
    assert raised.value.outcome == "unknown"


class Unheard(MemoryStore):
    """A store whose answers to writes of one item are lost, and that takes no transaction."""

    async def write(self, write: Write) -> Outcome:
        """Write it, and lose the answer."""
        await super().write(write)
        return Unknown("no answer")

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Lose the request."""
        del actions, token
        return Unknown("no answer")
