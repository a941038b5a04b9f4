"""Calls as a writer's process makes them, and what it says came of each."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from lab.faults.calls import CALL, RESULT, Call, CallResult, Kind, changes_of, make

from ledger.core.errors import (
    DamagedItem,
    LedgerError,
    OutcomeUnknown,
    RetryHorizonPassed,
    Throttled,
)
from ledger.core.values import Entry
from ledger.session.ledger import Ledger

AT = datetime(2026, 11, 21, 6, 50, tzinfo=UTC)
ENTRY = Entry("a", "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", Decimal(10**35), "us-east-1")


class FakeLedger(Ledger):
    """A ledger that notes what it is asked for, and raises what it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._error = error

    def __getattribute__(self, name: str) -> Any:
        """Return a call that notes itself, for every call of the ledger."""
        if name in {"record", "record_many", "record_together", "retry"}:
            return self._call(name)
        return object.__getattribute__(self, name)

    def _call(self, name: str) -> Callable[..., Awaitable[None]]:
        async def call(*arguments: Any, **options: Any) -> None:
            self.asked.append((name, *arguments, options))
            if self._error is not None:
                raise self._error

        return call


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("record", "record"),
        ("keyed", "record"),
        ("many", "record_many"),
        ("list", "record_many"),
        ("together", "record_together"),
        ("retry", "retry"),
    ],
)
async def test_each_kind_of_call_is_made_as_a_user_makes_it(kind: Kind, name: str) -> None:
    """The public face is called once, and the answer says so."""
    ledger = FakeLedger()
    call = Call(kind, (("a", 2),), at=AT, entries=(ENTRY,), together=True, number=3)
    assert await make(ledger, call) == CallResult(3, "acknowledged")
    [(called, *arguments)] = ledger.asked
    assert called == name
    if name == "record":
        assert arguments == ["a", 100, {"key": "keyed a 2" if kind == "keyed" else None, "at": AT}]
    elif name == "retry":
        assert arguments == [(ENTRY,), {"together": True}]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (
            OutcomeUnknown("?", entries=[ENTRY], together=True),
            CallResult(1, "unknown", (ENTRY,), together=True),
        ),
        (RetryHorizonPassed("late"), CallResult(1, "late")),
        (Throttled("full"), CallResult(1, "refused")),
    ],
)
async def test_every_expected_end_is_an_answer(error: LedgerError, answer: CallResult) -> None:
    """Unknown with its entries, past the horizon, and nothing written are told apart."""
    assert await make(FakeLedger(error), Call("record", (("a", 0),), number=1)) == answer


@pytest.mark.parametrize("error", [DamagedItem("cut"), ZeroDivisionError("bug")])
async def test_any_other_end_is_a_complaint(error: Exception) -> None:
    """What no call should end with is told as it is, and the change may be there."""
    answer = await make(FakeLedger(error), Call("record", (("a", 0),), number=1))
    assert answer.outcome == "unknown"
    assert type(error).__name__ in answer.error


def test_calls_and_answers_go_over_a_line() -> None:
    """Both come back as they went, in one line each."""
    call = Call("retry", (("a", 35), ("b", 0)), AT, (ENTRY,), together=True, number=1)
    answer = CallResult(1, "unknown", (ENTRY,), together=True, error="é")
    assert CALL.validate_json(CALL.dump_json(call)) == call
    assert RESULT.validate_json(RESULT.dump_json(answer)) == answer
    assert b"\n" not in CALL.dump_json(call) + RESULT.dump_json(answer)


def test_an_entry_names_its_changes() -> None:
    """One change by its digit, a combined entry by several."""
    combined = Entry("b", ENTRY.id, Decimal(101), count=2)
    assert changes_of([ENTRY, combined]) == (("a", 35), ("b", 0), ("b", 2))


def test_a_repeat_is_as_old_as_its_oldest_id() -> None:
    """A retry by its oldest entry, a keyed call by its time; a new call has no id yet."""
    older = Entry("b", "2026-11-21T06:50:00.000000Z#4f1d2c3b5a697887", Decimal(1), "us-east-1")
    retry = Call("retry", (("a", 35), ("b", 0)), entries=(ENTRY, older))
    assert retry.oldest == (("b", 0), AT)
    assert Call("keyed", (("a", 1),), at=AT).oldest == (("a", 1), AT)
    assert Call("record", (("a", 1),)).oldest == (("a", 1), None)
