"""Changing values by `ADD`: the action, and what its outcomes mean.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.primitives.counters.layout import LAYOUT, both, stands
from ledger.primitives.counters.thresholds import VALUE, ThresholdPart
from ledger.store import writes
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected, Unknown


def plan_addition(
    key: Key, part: ThresholdPart, *, not_after: datetime | None = None
) -> writes.Update:
    """Return the update that makes one part of a change."""
    return writes.Update(
        key,
        add={VALUE: {"N": amounts.to_text(part.change)}},
        condition=both(stands(LAYOUT, part.revision), part.limits.condition(part.change)),
        not_after=not_after,
    )


def outcome_of(
    final: FinalOutcome, parts: Sequence[ThresholdPart], *, token: str | None = None
) -> Outcome:
    """Read how a change by `ADD` ended; `token` repeats it without harm.

    A threshold that rejects a repeat says nothing about an earlier try, which may have been
    applied, and may still land: that is not a rejection.
    """
    match final.outcome:
        case Applied(item):
            return Applied(value=_value(item))
        case Rejected() if final.doubt is None:
            return Rejected("threshold", ", ".join(str(part.limits) for part in parts))
        case Rejected():
            return Unknown(
                f"{final.doubt}; its repeat was stopped by the threshold, but it may have been"
                " applied, or land later",
                token,
            )
        case Unknown(cause):
            return Unknown(cause, token)


def _value(item: Item | None) -> Decimal | None:
    return number_of(item, VALUE) if item is not None else None


def is_full(outcome: Outcome) -> bool:
    """Return whether a change was rejected because there is no room for it."""
    return isinstance(outcome, Rejected) and outcome.reason == "threshold"


def after_doubt(doubt: str | None, outcome: Outcome) -> Outcome:
    """Return an outcome that leaves an earlier try without an answer unknown."""
    if doubt is None or not isinstance(outcome, Rejected):
        return outcome
    return Unknown(f"{doubt}; its repeat was rejected ({outcome.reason}), but it may be applied")
