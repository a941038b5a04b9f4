"""Items that several changes share, as a writer that combines them puts them."""

from datetime import datetime
from decimal import Decimal

from ledger.core import amounts, ids, keys
from ledger.core.own_keys import own_suffix
from ledger.core.values import Entry
from ledger.store.port import Store
from ledger.store.writes import Put

KEY = "5".zfill(32)
"""The key that was made for an item: it proves who wrote its changes."""


def parts_of(counter: str, parts: str, at: datetime, *, region: str | None = None) -> list[Entry]:
    """Return the changes of an item, as an `OutcomeUnknown` has them."""
    changes = [Decimal(text) for text in parts.split(" ")]
    suffix = own_suffix(counter, KEY, amounts.total(changes), len(changes), parts)
    item_id = ids.sort_key(at, suffix)
    return [
        Entry(counter, ids.part_id(item_id, place), change, region, key=KEY, parts=parts)
        for place, change in enumerate(changes)
    ]


async def put_shared(store: Store, counter: str, parts: str, at: datetime) -> list[Entry]:
    """Put an item, and return the changes in it, as they can be written again."""
    made = parts_of(counter, parts, at, region=store.region)
    whole = {
        "pk": {"S": keys.partition_key(counter, 0)},
        "sk": {"S": ids.split(made[0].id)[0]},
        "change": {"N": amounts.to_text(amounts.total(entry.change for entry in made))},
        "region": {"S": store.region},
        "count": {"N": str(len(made))},
        "parts": {"S": parts},
    }
    await store.write(Put(whole))
    return made
