"""Where markers lie, and their form as items.

Each marker has a partition of its own, so that markers take as many writes as their counters::

    pk = ~count-marker~~<16 hex digits of SHA-256 of counter and token>~<counter>    sk = <token>

The digest only spreads: counter and token are both in the key, so two pairs never share an item,
and the longest ones fit (DynamoDB takes 2,048 bytes of partition key and 1,024 of sort key).
Releases before this one kept all markers of a counter under `~count-marker~<counter>`; no counter
begins with `~`, so no key of theirs is one of these.

Pure: no clock, no randomness, no I/O.
"""

from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core import amounts, ids
from ledger.core.entry import Item, Key
from ledger.core.keys import COUNT_PREFIX, EXPIRES

MARKER_PREFIX = f"{COUNT_PREFIX}-marker~"


def marker_key(counter: str, token: str) -> Key:
    """Return the key of a token's marker, in a partition of its own."""
    return f"{MARKER_PREFIX}~{ids.suffix_of(counter, token):016x}~{counter}", token


def earlier_key(counter: str, token: str) -> Key:
    """Return the key that a token's marker had in earlier releases."""
    return f"{MARKER_PREFIX}{counter}", token


def marker_item(
    key: Key, *, change: Decimal, at: datetime, region: str, shards: list[int], kept_seconds: float
) -> Item:
    """Return the marker of a change: what it was, when, in which region, at which shards."""
    expires = at + timedelta(seconds=kept_seconds)
    return {
        "pk": {"S": key[0]},
        "sk": {"S": key[1]},
        "change": {"N": amounts.to_text(change)},
        "at": {"S": at.isoformat()},
        "region": {"S": region},
        "shards": {"L": [{"N": str(shard)} for shard in shards]},
        EXPIRES: {"N": str(int(expires.timestamp()))},
    }
