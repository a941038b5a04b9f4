"""Items that several changes share, for tests of what reads them."""

from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import entry_id
from ledger.core.parts import parts_text
from ledger.core.values import Entry


def combined(
    at: datetime,
    *changes: int | str,
    counter: str = "counter",
    region: str = "us-east-1",
    suffix: int = 7,
    shard: int = 0,
) -> Entry:
    """Return the item that these changes share."""
    each = [Decimal(change) for change in changes]
    return Entry(
        counter,
        str(entry_id(at, suffix)),
        amounts.total_wide(each),
        region,
        count=len(each),
        shard=shard,
        parts=parts_text(each),
    )
