"""Calls of a ledger and their results, as they go to a writer's process and back, a line each."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal, Protocol

from pydantic import TypeAdapter

from ledger.core.errors import (
    LedgerError,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
    StoreError,
)
from ledger.core.values import Entry
from ledger.demo.harness.checker import Outcome
from ledger.demo.harness.digit_tags import TaggedChange, amount, digits
from ledger.reads.total import Total
from ledger.writes.entry_plan import Change

Kind = Literal["record", "keyed", "many", "list", "together", "retry", "total"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `at` is for `keyed` and `list`, `entries` and `together` are for `retry`.

    A `total` reads the counter of its change, `max_age` seconds old at most.
    """

    kind: Kind
    changes: tuple[TaggedChange, ...]
    at: datetime | None = None
    entries: tuple[Entry, ...] = ()
    together: bool = False
    max_age: float = 0.0
    number: int = 0
    """Which of its process's calls it is."""

    @property
    def key(self) -> str | None:
        """The key of a keyed call, or of a list: its first change names it."""
        is_keyed = self.kind in {"keyed", "list"}
        return "{} {} {}".format(self.kind, *self.changes[0]) if is_keyed else None

    @property
    def oldest(self) -> tuple[TaggedChange, datetime | None]:
        """The change with the oldest id, and that id's time; None if the call makes new ids."""
        if self.entries:
            entry = min(self.entries, key=lambda one: one.id)
            return changes_of([entry])[0], entry.at
        return self.changes[0], self.at


@dataclass(frozen=True, slots=True)
class CallResult:
    """The outcome of a call: of all its changes, but `unknown` is about `entries` alone.

    `error` is one that no call should end with; `value` and `versions` are those of a total.
    """

    number: int
    outcome: Outcome
    entries: tuple[Entry, ...] = ()
    together: bool = False
    error: str = ""
    value: Decimal = Decimal(0)
    versions: tuple[str, ...] = ()


class Called(Protocol):
    """A ledger that calls are made of: in this process, or over HTTP."""

    async def record(
        self, counter: str, change: int | Decimal, *, key: str | None, at: datetime | None
    ) -> Entry:
        """Add to a counter."""

    async def record_many(
        self, changes: Iterable[Change], *, key: str | None, at: datetime | None
    ) -> list[Entry]:
        """Record changes, each on its own, or a list with one key."""

    async def record_together(self, changes: Iterable[Change]) -> list[Entry]:
        """Record changes, all or none."""

    async def retry(self, entries: Sequence[Entry], *, together: bool) -> list[Entry]:
        """Write entries again."""

    async def total(self, counter: str, *, max_age: float) -> Total:
        """Return a total that is at most so old."""


CALL: TypeAdapter[Call] = TypeAdapter(Call)
RESULT: TypeAdapter[CallResult] = TypeAdapter(CallResult)


async def make(ledger: Called, call: Call) -> CallResult:
    """Make a call and return its result, whatever it was."""
    try:
        if call.kind == "total":
            total = await ledger.total(call.changes[0][0], max_age=call.max_age)
            return CallResult(
                call.number, "acknowledged", value=total.value, versions=total.versions
            )
        await _make(ledger, call)
    except OutcomeUnknown as error:
        return CallResult(call.number, "unknown", error.entries, error.together)
    except RetryHorizonPassed:
        return CallResult(call.number, "late")
    except (StoreError, ReadTooSlow, NotSent):
        return CallResult(call.number, "refused")
    except Exception as error:  # noqa: BLE001 (whatever it is, the run reports it)
        kind = "" if isinstance(error, LedgerError) else "not an error of the ledger: "
        return CallResult(call.number, "unknown", error=f"{kind}{error!r}")
    return CallResult(call.number, "acknowledged")


async def _make(ledger: Called, call: Call) -> None:
    changes = [Change(counter, amount(number)) for counter, number in call.changes]
    match call.kind:
        case "record" | "keyed":
            [one] = changes
            await ledger.record(one.counter, one.change, key=call.key, at=call.at)
        case "many" | "list":
            await ledger.record_many(changes, key=call.key, at=call.at)
        case "together":
            await ledger.record_together(changes)
        case "retry":
            await ledger.retry(call.entries, together=call.together)


def changes_of(entries: Iterable[Entry]) -> tuple[TaggedChange, ...]:
    """Return the changes that entries stand for; a combined entry stands for several."""
    return tuple((entry.counter, number) for entry in entries for number in digits(entry.change))
