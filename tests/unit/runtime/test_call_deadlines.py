"""What a call reports once a write of it was left without an answer."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from support.ledgers import HOME, seeded

from ledger import Table
from ledger.core.errors import (
    LedgerError,
    NotSent,
    OutcomeUnknown,
    StateConflict,
    Throttled,
    Unreachable,
)
from ledger.runtime.call_deadlines import TIMEOUT, arranging, changing, current_call
from ledger.store.memory import MemoryStore
from ledger.store.retrier import Retrier
from ledger.store.writes import Action, Applied, Outcome, Rejected, Unknown
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import ManualClock

BLOCKS = [
    lambda: changing(None),
    lambda: arranging(None, "again"),
]
Transact = Callable[..., Awaitable[Outcome]]


async def answered(*outcomes: Outcome) -> Outcome:
    """Send a write that is answered so, one try after the other."""
    retrier = Retrier.of(MemoryStore(HOME), clock=ManualClock(instant=True), randomness=seeded(1))
    left = iter(outcomes)

    async def send() -> Outcome:
        return next(left)

    return (await retrier.until_answered(send)).outcome


async def fails(error: LedgerError, *outcomes: Outcome) -> None:
    """Send a write that is answered so, and fail afterwards."""
    await answered(*outcomes)
    raise error


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("error", [Throttled("slow down"), StateConflict("it is there")])
@pytest.mark.parametrize(
    ("outcomes", "outcome"),
    [
        ((Unknown("lost"), Rejected()), "unknown"),
        ((Unknown("lost"), Applied()), "not_applied"),
        ((Rejected(),), "not_applied"),
    ],
)
async def test_no_error_after_a_doubt_says_that_nothing_was_written(
    block: Callable[[], Any], error: LedgerError, outcomes: Sequence[Outcome], outcome: str
) -> None:
    """The first try may be why its repeat was refused; one that was answered leaves no doubt."""
    error.outcome = "not_applied"
    with pytest.raises(type(error)) as caught, block():
        await fails(error, *outcomes)
    assert caught.value.outcome == outcome


async def test_the_doubt_of_a_call_is_that_of_the_call_around_it() -> None:
    """The outer one reports the outcome of all of it."""

    async def call() -> None:
        with changing(None):
            await answered(Unknown("lost"), Rejected())
        raise Throttled("slow down")

    with pytest.raises(Throttled) as caught, changing(None):
        await call()
    assert caught.value.outcome == "unknown"


@pytest.mark.parametrize(
    ("outcomes", "kind"),
    [((Unknown("lost"), Rejected()), OutcomeUnknown), ((Rejected(),), NotSent)],
)
async def test_a_call_in_doubt_that_is_cut_off_is_not_reported_as_not_sent(
    outcomes: Sequence[Outcome], kind: type[LedgerError]
) -> None:
    """Its end comes while it looks why the repeat was refused."""

    async def call() -> None:
        call = current_call()
        assert call is not None
        await fails(call.cut(), *outcomes)

    with pytest.raises(kind), changing(60):
        await call()


def test_a_write_without_an_answer_is_of_unknown_outcome() -> None:
    """An error in its place says so, too."""
    assert Unreachable.unanswered(TIMEOUT).outcome == "unknown"
    assert Unreachable(TIMEOUT).outcome == "not_applied"


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[MemoryGlobalTable, Table]]:
    """Open a table in memory with a budget of 10."""
    world = MemoryGlobalTable([HOME], budgets={"key/*": {}}, clock=ManualClock(instant=True))
    async with world.table(HOME) as table:
        assert await table.budget("key/42").create(10)
        yield world, table


def lose_first_answer(
    world: MemoryGlobalTable, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]
) -> None:
    """Apply the next transaction without an answer; `then` is called before the one after."""
    store: Any = world.store(HOME)
    inner: Transact = store.transact
    sent: list[Sequence[Action]] = []

    async def transact(actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        sent.append(actions)
        if len(sent) > 1:
            then()
        outcome = await inner(actions, token=token)
        return Unknown("lost") if len(sent) == 1 else outcome

    monkeypatch.setattr(store, "transact", transact)


def throttle(monkeypatch: pytest.MonkeyPatch, store: Any, *operations: str) -> None:
    """Let these operations be refused from now on."""

    async def refused(*_args: Any, **_options: Any) -> None:
        raise Throttled("slow down")

    for operation in operations:
        monkeypatch.setattr(store, operation, refused)


async def test_a_limit_is_not_said_to_be_unchanged_after_a_lost_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first try was applied; what was planned after it could not be read."""
    async with opened() as (world, table):
        store = world.store(HOME)
        lose_first_answer(world, monkeypatch, lambda: None)
        inner: Any = store.transact

        async def transact(*args: Any, **options: Any) -> Outcome:
            outcome: Outcome = await inner(*args, **options)
            throttle(monkeypatch, store, "get", "query", "get_each")
            return outcome

        monkeypatch.setattr(store, "transact", transact)
        with pytest.raises(LedgerError) as caught:
            await table.budget("key/42").raise_limit(5, id="order-1")
        assert caught.value.outcome == "unknown"
        monkeypatch.undo()
        assert (await table.budget("key/42").raise_limit(5, id="order-1")).limit == 15


async def test_an_entry_is_not_said_to_be_unreversed_after_a_lost_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The repeat is refused, since the first try was applied; why, could not be read."""
    async with opened() as (world, table):
        entry = await table.ledger.record("stock", 7)
        store = world.store(HOME)
        lose_first_answer(world, monkeypatch, lambda: throttle(monkeypatch, store, "get"))
        with pytest.raises(Throttled) as caught:
            await table.ledger.reverse(entry)
        assert caught.value.outcome == "unknown"
        monkeypatch.undo()
        assert (await table.ledger.reverse(entry)).repeated
