"""Errors survive a copy and the border of a process, with all that they carry."""

import copy
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any, get_args

import pytest

from ledger.core import errors
from ledger.core.errors import (
    ClockOff,
    KeyConflict,
    LedgerError,
    OutcomeUnknown,
    RegionUnreadable,
    SettingsError,
    StoreError,
    Throttled,
)
from ledger.core.values import Entry

ENTRY = Entry("counter", "2026-11-21T06:50:01.123456Z#4f1d2c3b5a697887", Decimal("2.50"))
ERRORS = (
    OutcomeUnknown("no answer", entries=[ENTRY], together=True, retryable=True),
    KeyConflict("another change", ours=ENTRY, theirs=ENTRY),
    RegionUnreadable("eu-west-1", Throttled("slow down")),
    ClockOff("set it", region="eu-west-1", offset_seconds=-700.5),
    SettingsError("two problems", problems=["one", "two"]),
)
COPIES: tuple[Callable[[LedgerError], LedgerError], ...] = (
    copy.copy,
    copy.deepcopy,
    lambda error: pickle.loads(pickle.dumps(error)),  # noqa: S301 (our own bytes)
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("again", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_an_error_is_copied_whole(
    error: LedgerError, again: Callable[[LedgerError], LedgerError]
) -> None:
    """`OutcomeUnknown` above all must reach who can retry it, entries included."""
    found = again(error)
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert vars(found) == vars(error)


RETRYABLE = {
    "BudgetUndecided",
    "ArchiveError",
    "ContractStale",
    "HomeMoving",
    "LaneFenced",
    "NotSent",
    "ReadTooSlow",
    "RegionUnreadable",
    "ReplicasDiffer",
    "SignedTooLate",
    "StoreError",
    "Throttled",
    "Unreachable",
}
"""Those that pass by themselves, and after which nothing can be counted twice."""
UNKNOWN = {"ImportRefused", "OutcomeUnknown", "RetryHorizonPassed"}


def kinds(base: type[LedgerError] = LedgerError) -> list[type[LedgerError]]:
    """Return every error of the tree: a class, and all below it."""
    below = [kind for kind in base.__subclasses__() if kind.__module__ == errors.__name__]
    return [base, *(found for kind in below for found in kinds(kind))]


def made(kind: type[LedgerError]) -> LedgerError:
    """Return an error as it is raised."""
    options: dict[type[LedgerError], Any] = {
        ClockOff: {"region": "eu-west-1", "offset_seconds": 7.5},
        KeyConflict: {"ours": ENTRY, "theirs": ENTRY},
        OutcomeUnknown: {"entries": [ENTRY]},
        RegionUnreadable: {"cause": Throttled("slow down")},
    }
    return kind("eu-west-1", **options.get(kind, {}))


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_each_error_has_what_programs_ask(kind: type[LedgerError]) -> None:
    """Of each that is raised: the outcome, whether to repeat, and AWS's code of the table's."""
    error = made(kind)
    assert error.outcome in get_args(errors.Outcome)
    assert type(error.retryable) is bool
    if isinstance(error, StoreError):
        assert error.code is None
        assert error.outcome == "not_applied"
    else:
        assert not hasattr(error, "code")


def test_an_unreadable_region_has_the_code_of_its_cause() -> None:
    """Who waits for it sees why."""
    cause = Throttled("slow down")
    cause.code = "ThrottlingException"
    assert RegionUnreadable("eu-west-1", cause).code == "ThrottlingException"


def test_the_tree_is_walked_whole() -> None:
    """No error of the module is missing below the root."""
    names = {name for name, kind in vars(errors).items() if is_error(kind)}
    assert names == {kind.__name__ for kind in kinds()}


def is_error(found: object) -> bool:
    """Return whether it is a class of the tree."""
    return isinstance(found, type) and issubclass(found, LedgerError)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_each_error_says_whether_the_call_may_be_repeated(kind: type[LedgerError]) -> None:
    """Only what is harmless to repeat says so, and only what surely wrote nothing says that."""
    assert kind.retryable == (kind.__name__ in RETRYABLE)
    assert kind.outcome == ("unknown" if kind.__name__ in UNKNOWN else "not_applied")


def test_an_unknown_outcome_is_repeated_by_its_entries() -> None:
    """The same call is harmless only where it names its changes; unless it says so it does not."""
    assert not OutcomeUnknown("no answer", entries=[ENTRY]).retryable
    assert OutcomeUnknown("no answer", entries=[ENTRY], retryable=True).retryable
