"""`ledger record`: what an error says became of the change."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support.commands import run_command_here

from ledger.commands.record import with_outcome
from ledger.core.errors import (
    InvalidAmount,
    KeyConflict,
    LedgerError,
    NeverApplied,
    NotSent,
    OutcomeUnknown,
    RetryHorizonPassed,
    Throttled,
    Unreachable,
)
from ledger.core.values import Entry
from ledger.session.ledger import Ledger

ENTRY = Entry("shop", "2026-11-20T00:00:00.000000Z#0000000000000001", Decimal(3))


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (InvalidAmount("no"), "no; nothing was written"),
        (KeyConflict("no", ours=ENTRY, theirs=ENTRY), "no; nothing was written"),
        (NeverApplied("no"), "no; nothing was written"),
        (Throttled("no"), "no; nothing was written: the same command may be run again"),
        (NotSent("closed: nothing was sent"), "closed: nothing was sent"),
        (RetryHorizonPassed("too late"), "too late"),
        (
            OutcomeUnknown("no answer", entries=[ENTRY], retryable=True),
            "no answer; it may have been written: repeat the same command, which is harmless",
        ),
        (
            OutcomeUnknown("no answer", entries=[ENTRY]),
            (
                "no answer; it may have been written: before recording it again, look for"
                f" {ENTRY.id} in `ledger history shop`"
            ),
        ),
    ],
)
def test_an_error_says_what_became_of_the_change(error: LedgerError, said: str) -> None:
    """By its outcome, and whether the same call again is harmless; nothing is said twice."""
    assert with_outcome(error) == said


def test_where_nobody_answers_nothing_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the one line of the error, while the ledger is opened, too."""

    def unreachable(*_: Any, **__: Any) -> None:
        raise Unreachable("no answer from us-east-1")

    monkeypatch.setattr(Ledger, "open", unreachable)
    (tmp_path / "regions.yaml").write_text("regions: {us-east-1: }\n", encoding="utf-8")
    ran = run_command_here("ledger", "record", "shop", "3", folder=tmp_path)
    assert ran.status == 1
    assert ran.errors.startswith("error: no answer from us-east-1; nothing was written")
