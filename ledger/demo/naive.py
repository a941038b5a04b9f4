"""The usual way, for comparison: one item per counter, changed by `ADD` in the local region.

Each `ADD` is exact in its own region. Global tables then replicate the whole item, and of two
items written in two regions before they have met, the later one wins: the other's changes are
lost, and no error is raised anywhere.
"""

from collections.abc import Sequence
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import number_of
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Applied, Update

# Not a counter's partition: readers and the compactor pass it by.
PARTITION = "~single-item"


async def add(store: Store, counter: str, change: Decimal) -> bool:
    """Change a single-item counter; returns whether that is known to be applied.

    An unknown outcome is not repeated: the repeat could count twice.

    Raises:
        StoreError: nothing was written.
    """
    update = Update(
        (PARTITION, counter),
        add={"value": {"N": amounts.to_text(change)}, "changes": {"N": "1"}},
    )
    return isinstance(await store.write(update), Applied)


async def read_all(store: Store, counters: Sequence[str]) -> dict[str, tuple[Decimal, int]]:
    """Return value and number of changes that each counter's item holds in this region."""
    kept, query = dict.fromkeys(counters, (Decimal(0), 0)), Query(PARTITION)
    while True:
        page = await store.query(query)
        for item in page.items:
            kept[item["sk"]["S"]] = (number_of(item, "value"), int(number_of(item, "changes")))
        if page.after is None:
            return kept
        query = query.next(page)
