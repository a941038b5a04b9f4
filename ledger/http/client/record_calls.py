"""Changes recorded: each with an outcome of its own, and what is raised of all."""

from collections.abc import Sequence
from functools import partial
from typing import cast

from ledger.core.errors import LedgerError, OutcomeUnknown, safe_repeat
from ledger.core.values import Entry
from ledger.http.client.answers import Failed, Unanswered, is_definite
from ledger.http.client.exchange import Done, Exchange, Final, InDoubt, Outcome
from ledger.http.client.requests import NamedChange, change_portions, recording
from ledger.http.wire.problems import error_of
from ledger.http.wire.schemas import EntryModel, ResultModel
from ledger.runtime.tasks import run_all

REQUESTS_AT_ONCE = 4
"""Requests of one call that are under way together."""
_FOUND = 200
"""The status of an entry that was there before."""


async def record_all(
    exchange: Exchange, changes: Sequence[NamedChange], *, end: float
) -> list[Entry]:
    """Record changes, each on its own, and return their entries in order.

    Raises:
        OutcomeUnknown: with the entries that are not confirmed; all others are durable.
        LedgerError: of the first change that was refused; or, if none was written, why.
    """
    jobs = [partial(_finals, exchange, part, end) for part in change_portions(changes)]
    parts = await run_all(jobs, at_once=REQUESTS_AT_ONCE) if jobs else []
    finals = [final for part in parts for final in part]
    entries = [final.value for final in finals if isinstance(final, Done)]
    if len(entries) < len(changes):
        raise error_of_all(changes, finals)
    return entries


async def _finals(
    exchange: Exchange, changes: Sequence[NamedChange], end: float
) -> list[Final[Entry]]:
    async def ask(places: Sequence[int]) -> Sequence[Outcome[Entry]]:
        outcome = await exchange.once(recording([changes[place] for place in places]), end)
        if isinstance(outcome, Failed | Unanswered):
            return [outcome] * len(places)
        return [_outcome(result) for result in outcome.answer.results]

    return await exchange.outcomes(len(changes), ask, operation="write", end=end)


def _outcome(result: ResultModel) -> Outcome[Entry]:
    if result.problem is not None:
        return Failed(error_of(result.problem))
    return Done(written(result))


def written(result: ResultModel) -> Entry:
    """Return the entry of a result that has no problem."""
    entry = cast("EntryModel", result.entry)
    return entry.to_value(repeated=result.status == _FOUND)


def error_of_all(changes: Sequence[NamedChange], finals: Sequence[Final[Entry]]) -> LedgerError:
    """Return the error of a call of which not every change is confirmed."""
    open_ones = [
        (change, final)
        for change, final in zip(changes, finals, strict=True)
        if not isinstance(final, Done)
    ]
    errors = [final for _, final in open_ones if isinstance(final, LedgerError)]
    if len(errors) == len(changes):
        return errors[0]  # nothing was written
    if len(errors) == len(open_ones) and (
        definite := [error for error in errors if is_definite(error)]
    ):
        return definite[0]
    causes = [final.cause if isinstance(final, InDoubt) else str(final) for _, final in open_ones]
    return unknown([change for change, _ in open_ones], causes[0])


def unknown_list(entries: Sequence[Entry], cause: str) -> OutcomeUnknown:
    """Return the error of changes with one key that may be written or not."""
    first = entries[0]
    return OutcomeUnknown(
        f"no answer for {len(entries)} changes, first of {first.counter!r}: they may or may not be"
        f" there ({cause}); until the retry horizon {safe_repeat(is_named=True)} is safe",
        entries=entries,
        retryable=True,
    )


def unknown(
    changes: Sequence[NamedChange], cause: str, *, together: bool = False
) -> OutcomeUnknown:
    """Return the error of changes that may be written or not."""
    first = changes[0].entry
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    is_named = not any(change.is_own for change in changes)  # here the same call makes other keys
    return OutcomeUnknown(
        f"no answer for counter {first.counter!r} id {first.id}{more}: the change may or may not be"
        f" there ({cause}); until the retry horizon {safe_repeat(is_named=is_named)} is safe",
        entries=[change.entry for change in changes],
        together=together,
        retryable=is_named,
    )
