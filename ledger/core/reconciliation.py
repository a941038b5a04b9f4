"""The result of a correction by a physical count, and the item that keeps it.

A counter in entries keeps it in the entry of the correction, one in a single item in a record.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, damaged, entry_of, number_of
from ledger.core.once import COUNTED, COUNTED_AT, TOKEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """A counter was corrected by `change`, since `counted` was there at `at` and not `total`.

    `entry` is the id of the correcting entry, of 0 if there was nothing to correct; None if the
    counter has no entries. `repeated` is whether an earlier call made it.
    """

    counter: str
    change: Decimal
    counted: Decimal
    total: Decimal
    at: datetime
    region: str
    token: str
    reason: str | None = None
    entry: str | None = None
    repeated: bool = field(default=False, compare=False)


def corrected_by(entry: Item, token: str, *, counted: Decimal, at: datetime) -> Item:
    """Return the entry of a correction with the count that it was made by."""
    return {
        **entry,
        TOKEN: {"S": token},
        COUNTED: {"N": amounts.to_text(counted)},
        COUNTED_AT: {"S": at.isoformat()},
    }


def corrected(item: Item) -> Reconciled:
    """Return the correction that an entry made.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    entry, counted = entry_of(item), number_of(item, COUNTED)
    return Reconciled(
        counter=entry.counter,
        change=entry.change,
        counted=counted,
        total=amounts.total([counted, entry.change.copy_negate()]),
        at=_moment(item, COUNTED_AT),
        region=entry.region or "",
        token=str(item[TOKEN]["S"]),
        reason=entry.note,
        entry=entry.id,
    )


def _moment(item: Item, name: str) -> datetime:
    try:
        return datetime.fromisoformat(item[name]["S"])
    except (KeyError, TypeError, ValueError):
        raise damaged(item, f"what a count left must have {name}") from None


def record_item(done: Reconciled, prefix: str) -> Item:
    """Return the record of a correction; `prefix` begins the partition of each counter's."""
    texts = {"reason": done.reason, "entry": done.entry}
    return {
        "pk": {"S": f"{prefix}{done.counter}"},
        "sk": {"S": done.token},
        "change": {"N": amounts.to_text(done.change)},
        "counted": {"N": amounts.to_text(done.counted)},
        "total": {"N": amounts.to_text(done.total)},
        "at": {"S": done.at.isoformat()},
        "region": {"S": done.region},
        **{name: {"S": text} for name, text in texts.items() if text is not None},
    }


def reconciled_of(item: Item, prefix: str) -> Reconciled:
    """Return the correction in a record, as one that an earlier call made.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    region = item.get("region", {}).get("S")
    if not isinstance(region, str):
        raise damaged(item, "a record of a count must have region")
    return Reconciled(
        counter=item["pk"]["S"].removeprefix(prefix),
        change=number_of(item, "change"),
        counted=number_of(item, "counted"),
        total=number_of(item, "total"),
        at=_moment(item, "at"),
        region=region,
        token=item["sk"]["S"],
        reason=item.get("reason", {}).get("S"),
        entry=item.get("entry", {}).get("S"),
        repeated=True,
    )
