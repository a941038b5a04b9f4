"""Changing values by `ADD`: the action, and what its outcomes mean.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.primitives.counters.counter import AddOutcome, Applied, Rejected, Unknown
from ledger.primitives.counters.limits import VALUE, Part
from ledger.store import writes
from ledger.store.writes import FinalOutcome


def addition(key: Key, part: Part, *, not_after: datetime | None = None) -> writes.Update:
    """Return the update that makes one part of a change."""
    return writes.Update(
        key,
        add={VALUE: {"N": amounts.to_text(part.change)}},
        condition=part.limits.condition(part.change),
        not_after=not_after,
    )


def outcome_of(
    final: FinalOutcome, parts: Sequence[Part], *, token: str | None = None
) -> AddOutcome:
    """Read how a change by `ADD` ended; `token` repeats it without harm.

    A threshold that rejects a repeat says nothing about the try before it, which may have been
    applied, and may still land: that is no rejection.
    """
    match final.outcome:
        case writes.Applied(item):
            return Applied(_value(item))
        case writes.Rejected() if final.doubt is None:
            return Rejected("threshold", ", ".join(str(part.limits) for part in parts))
        case writes.Rejected():
            return Unknown(
                f"{final.doubt}; its repeat was stopped by the threshold, but it may have been"
                " applied, or land later",
                token,
            )
        case writes.Unknown(cause):
            return Unknown(cause, token)


def _value(item: Item | None) -> Decimal | None:
    return number_of(item, VALUE) if item is not None else None
