"""Calls of a ledger, and what came of them, as they go to a writer's process and back: one line."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import TypeAdapter

from ledger.core.errors import LedgerError, OutcomeUnknown, RetryHorizonPassed, StoreError
from ledger.core.values import Entry
from ledger.lab.chaos.judge import Outcome, Place
from ledger.lab.harness.tagged import amount, digits
from ledger.ledger import Ledger
from ledger.writing.plan import Change

Kind = Literal["record", "keyed", "many", "together", "retry"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `key` and `at` for `keyed`, `entries` and `together` for `retry`."""

    number: int
    kind: Kind
    changes: tuple[Place, ...]
    key: str | None = None
    at: datetime | None = None
    entries: tuple[Entry, ...] = ()
    together: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: of all its changes, but `unknown` is about `entries` alone.

    `broken` tells of an error that no call should end with.
    """

    number: int
    outcome: Outcome
    entries: tuple[Entry, ...] = ()
    together: bool = False
    broken: str = ""


CALL: TypeAdapter[Call] = TypeAdapter(Call)
ANSWER: TypeAdapter[Answer] = TypeAdapter(Answer)


async def make(ledger: Ledger, call: Call) -> Answer:
    """Make a call and return what came of it, whatever it was."""
    try:
        await _make(ledger, call)
    except OutcomeUnknown as error:
        return Answer(call.number, "unknown", error.entries, error.together)
    except RetryHorizonPassed:
        return Answer(call.number, "late")
    except StoreError:
        return Answer(call.number, "refused")
    except Exception as error:  # noqa: BLE001 (handed on to the judge, whatever it is)
        kind = "" if isinstance(error, LedgerError) else "no error of the ledger: "
        return Answer(call.number, "unknown", broken=f"{kind}{error!r}")
    return Answer(call.number, "acknowledged")


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


def places_of(entries: Iterable[Entry]) -> tuple[Place, ...]:
    """Return the changes that entries stand for; one that is combined stands for several."""
    return tuple((entry.counter, number) for entry in entries for number in digits(entry.change))
