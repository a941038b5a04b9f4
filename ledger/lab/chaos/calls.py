"""Calls of a ledger and their results, as they go to a writer's process and back, a line each."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import TypeAdapter

from ledger.core.errors import LedgerError, OutcomeUnknown, RetryHorizonPassed, StoreError
from ledger.core.values import Entry
from ledger.lab.harness.checker import Outcome
from ledger.lab.harness.tagged import TaggedChange, amount, digits
from ledger.ledger import Ledger
from ledger.writing.plan import Change

Kind = Literal["record", "keyed", "many", "together", "retry"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `key` and `at` for `keyed`, `entries` and `together` for `retry`."""

    number: int
    kind: Kind
    changes: tuple[TaggedChange, ...]
    key: str | None = None
    at: datetime | None = None
    entries: tuple[Entry, ...] = ()
    together: bool = False


@dataclass(frozen=True, slots=True)
class CallResult:
    """The outcome of a call: of all its changes, but `unknown` is about `entries` alone.

    `error` is one that no call should end with.
    """

    number: int
    outcome: Outcome
    entries: tuple[Entry, ...] = ()
    together: bool = False
    error: str = ""


CALL: TypeAdapter[Call] = TypeAdapter(Call)
RESULT: TypeAdapter[CallResult] = TypeAdapter(CallResult)


async def make(ledger: Ledger, call: Call) -> CallResult:
    """Make a call and return its result, whatever it was."""
    try:
        await _make(ledger, call)
    except OutcomeUnknown as error:
        return CallResult(call.number, "unknown", error.entries, error.together)
    except RetryHorizonPassed:
        return CallResult(call.number, "late")
    except StoreError:
        return CallResult(call.number, "refused")
    except Exception as error:  # noqa: BLE001 (whatever it is, the run reports it)
        kind = "" if isinstance(error, LedgerError) else "not an error of the ledger: "
        return CallResult(call.number, "unknown", error=f"{kind}{error!r}")
    return CallResult(call.number, "acknowledged")


async def _make(ledger: Ledger, call: Call) -> None:
    changes = [
        Change(counter, amount(number), key=call.key, at=call.at)
        for counter, number in call.changes
    ]
    match call.kind:
        case "record" | "keyed":
            [one] = changes
            await ledger.record(one.counter, one.change, key=one.key, at=one.at)
        case "many":
            await ledger.record_many(changes)
        case "together":
            await ledger.record_together(changes)
        case "retry":
            await ledger.retry(call.entries, together=call.together)


def changes_of(entries: Iterable[Entry]) -> tuple[TaggedChange, ...]:
    """Return the changes that entries stand for; a combined entry stands for several."""
    return tuple((entry.counter, number) for entry in entries for number in digits(entry.change))
