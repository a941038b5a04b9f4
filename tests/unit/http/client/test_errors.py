"""Errors that the service sends are raised again with all that they carry."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx
import pytest
from support.serving import SERVICE, served
from support.shared_items import KEY, parts_of

from ledger.budgets.spend_request import Refused
from ledger.core import errors
from ledger.core.errors import LedgerError
from ledger.core.values import Entry
from ledger.http.client import Ledger
from ledger.http.wire.problems import error_of, problem_of
from ledger.http.wire.schemas import ProblemModel
from ledger.http.wire.values import exceeded
from ledger.testing import ManualClock, MemoryGlobalTable


def throttled() -> errors.Throttled:
    """Return an error with the limits that were exceeded."""
    error = errors.Throttled("slow down")
    error.limits, error.counters = ("KeyRangeThroughputExceeded",), ("stock",)
    return error


@pytest.mark.parametrize(
    "error",
    [
        throttled(),
        errors.ClockOff("off", region="us-east-1", offset_seconds=-3.5),
        errors.ArchiveError("no", reason="denied"),
        errors.ReadTooSlow("slow"),
        errors.DamagedItem("damaged"),
        errors.NotSent("closed"),
        exceeded(Refused("key/42", Decimal(4), Decimal("3.5"), Decimal(0))),
    ],
)
def test_an_error_keeps_what_it_carries(error: LedgerError) -> None:
    """By its class and its members."""
    again = error_of(ProblemModel(**problem_of(error).fields()))
    assert type(again) is type(error)
    carried = {"outcome": error.outcome, "retryable": error.retryable}
    assert vars(again) == carried | vars(error)
    assert str(again) == str(error)


async def test_a_ledgers_error_arrives_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the service, and not repeated where that cannot help."""
    async with served() as service:
        calls = []

        async def damaged(*_: Any, **__: Any) -> None:
            calls.append(1)
            raise errors.DamagedItem("item x is damaged")

        monkeypatch.setattr(service.ledger, "total", damaged)
        transport = httpx.ASGITransport(app=service.app)
        async with Ledger(SERVICE, transport=transport, clock=service.table.clock) as ledger:
            with pytest.raises(errors.DamagedItem, match="item x is damaged"):
                await ledger.total("stock")
        assert calls == [1]


async def test_a_part_is_written_again_as_the_problem_had_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With its key, and the amounts of its item, whichever of the two answers is lost."""
    async with served(MemoryGlobalTable(clock=ManualClock(instant=True))) as service:
        made = parts_of("stock", "5 -1 8", service.table.clock.now())
        problem = problem_of(errors.OutcomeUnknown("no answer", entries=made[1:]))
        lost = error_of(ProblemModel(**problem.fields()))
        assert isinstance(lost, errors.OutcomeUnknown)
        asked = list[list[Entry]]()

        async def retry(entries: list[Entry], **_: Any) -> list[Entry]:
            asked.append(entries)
            if len(asked) == 1:
                raise errors.OutcomeUnknown("again", entries=entries)
            return [replace(entry, parts="", repeated=True) for entry in entries]

        monkeypatch.setattr(service.ledger, "retry", retry)
        transport = httpx.ASGITransport(app=service.app)
        async with Ledger(SERVICE, transport=transport, clock=service.table.clock) as ledger:
            found = await ledger.retry(lost.entries)
        assert [(entry.id, entry.parts) for entry in found] == [(one.id, "") for one in made[1:]]
        assert asked == [made[1:]] * 2
        assert {(entry.key, entry.parts) for entry in asked[1]} == {(KEY, "5 -1 8")}
