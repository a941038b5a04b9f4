"""The result of a correction by a physical count, and its record in the table.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, damaged, number_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """A counter was corrected by `change`, since `counted` was there at `at` and not `total`.

    `entry` is the id of the correcting entry, None if there was nothing to correct, or if the
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
    try:
        at = datetime.fromisoformat(item["at"]["S"])
        region = str(item["region"]["S"])
    except (KeyError, TypeError, ValueError):
        raise damaged(item, "a record of a count must have at and region") from None
    return Reconciled(
        counter=item["pk"]["S"].removeprefix(prefix),
        change=number_of(item, "change"),
        counted=number_of(item, "counted"),
        total=number_of(item, "total"),
        at=at,
        region=region,
        token=item["sk"]["S"],
        reason=item.get("reason", {}).get("S"),
        entry=item.get("entry", {}).get("S"),
        repeated=True,
    )
