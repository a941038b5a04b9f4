"""Errors as problems, and back."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from ledger.budgets.spend_request import Refused
from ledger.core import errors
from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.http.wire.problems import KINDS, error_of, kind_of, problem_of
from ledger.http.wire.schemas import ProblemModel
from ledger.http.wire.values import exceeded

ENTRY = Entry(
    "stock",
    "2026-11-21T06:50:00.000000Z#afb763d1b176a30d",
    Decimal("-1.50"),
    "us-east-1",
    "sale",
    date(2026, 11, 20),
    2,
)


def every_class(base: type[LedgerError] = LedgerError) -> list[type[LedgerError]]:
    """Return each class of the errors' tree in `ledger.core.errors`."""
    below = [found for sub in base.__subclasses__() for found in every_class(sub)]
    return [base, *below] if base.__module__ == errors.__name__ else below


def made(kind: type[LedgerError]) -> LedgerError:
    """Return an error of a class, with what it carries."""
    with_parts: dict[type[LedgerError], dict[str, Any]] = {
        errors.KeyConflict: {"ours": ENTRY, "theirs": ENTRY},
        errors.OutcomeUnknown: {"entries": [ENTRY], "together": True},
        errors.ClockOff: {"region": "us-east-1", "offset_seconds": 3.5},
        errors.RetryHorizonPassed: {"entry": ENTRY},
        errors.NeverApplied: {"entry": ENTRY},
    }
    if kind is errors.RegionUnreadable:
        return errors.RegionUnreadable("us-east-1", errors.StoreError("no"))
    if kind is errors.BudgetExceeded:
        return exceeded(Refused("key/42", Decimal(4), Decimal(3), Decimal(0)))
    return kind("the reason", **with_parts.get(kind, {}))


@pytest.mark.parametrize("kind", every_class())
def test_every_error_has_a_kind_of_problem(kind: type[LedgerError]) -> None:
    """Its page says what to do, and its status fits: 4xx only if nothing was written."""
    found = kind_of(made(kind))
    assert KINDS[found.name] is found
    assert found.advice.endswith(".")
    is_of_caller = 400 <= found.status < 500
    if is_of_caller and kind not in {errors.RetryHorizonPassed, errors.ImportRefused}:
        assert made(kind).outcome == "not_applied"


@pytest.mark.parametrize("kind", every_class())
def test_what_a_program_asks_first_survives(kind: type[LedgerError]) -> None:
    """Outcome and `retryable` are those of the service; the class is the kind's."""
    error = made(kind)
    again = error_of(ProblemModel(**problem_of(error).fields()))
    assert (again.outcome, again.retryable, str(again)) == (
        error.outcome,
        error.retryable,
        str(error),
    )
    assert isinstance(error, type(again))


def test_an_unknown_outcome_keeps_its_entries() -> None:
    """With every part that a retry needs."""
    error = errors.OutcomeUnknown("no answer", entries=[ENTRY], together=True, retryable=True)
    again = error_of(ProblemModel(**problem_of(error).fields()))
    assert isinstance(again, errors.OutcomeUnknown)
    assert again.entries == (ENTRY,)
    assert again.together
    assert again.retryable


@pytest.mark.parametrize("kind", [errors.OutcomeUnknown, errors.RetryHorizonPassed])
def test_a_part_keeps_the_amounts_of_its_item(kind: type[LedgerError]) -> None:
    """Else nobody could write the item again; no other entry has such a member."""
    part = replace(ENTRY, id=f"{ENTRY.id}.001", note=None, effective=None, count=1, parts="7 -1.5")
    for entry, parts in ((part, "7 -1.5"), (ENTRY, "")):
        carried = [entry] if kind is errors.OutcomeUnknown else entry
        name = "entries" if kind is errors.OutcomeUnknown else "entry"
        fields = problem_of(kind("no", **{name: carried})).fields()
        sent = fields[name][0] if name == "entries" else fields[name]
        assert sent.get("parts", "") == parts
        assert ("parts" in sent) == bool(parts)
        again = getattr(error_of(ProblemModel(**fields)), name)
        (found,) = again if name == "entries" else [again]
        assert (found, found.parts) == (entry, parts)


def test_a_conflict_keeps_both_changes() -> None:
    """As the library's error does."""
    other = Entry("stock", ENTRY.id, Decimal(7))
    problem = problem_of(errors.KeyConflict("no", ours=ENTRY, theirs=other))
    again = error_of(ProblemModel(**problem.fields()))
    assert isinstance(again, errors.KeyConflict)
    assert (again.ours, again.theirs) == (ENTRY, other)


def test_a_late_call_keeps_its_entry() -> None:
    """So a program can compare it with the history."""
    problem = problem_of(errors.NeverApplied("no", entry=ENTRY))
    again = error_of(ProblemModel(**problem.fields()))
    assert isinstance(again, errors.NeverApplied)
    assert again.entry == ENTRY


def test_a_problem_of_a_later_release_is_an_error_too() -> None:
    """Without a kind that this release knows it is a plain `LedgerError`."""
    problem = ProblemModel(
        type="/problems/new",
        title="New",
        status=409,
        detail="",
        outcome="unknown",
        retryable=True,
    )
    error = error_of(problem)
    assert (type(error), str(error)) == (LedgerError, "New")
    assert (error.outcome, error.retryable) == ("unknown", True)
