"""The usual way, for comparison: one item per counter, changed by `ADD` in the local region.

Each `ADD` is exact in its own region. Global tables then replicate the whole item, and of two
items written in two regions before they have met, the later one wins: the other's changes are
lost, and no error is raised anywhere.
"""

from collections.abc import Sequence
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import number_of
from ledger.core.errors import StoreError
from ledger.store.port import Applied, Store, Update

# Not a counter's partition: readers and the compactor pass it by.
PARTITION = "~single-item"


async def add(store: Store, counter: str, change: Decimal) -> None:
    """Change a single-item counter, once: an unknown outcome is not repeated.

    Raises:
        StoreError: it is not known to be applied.
    """
    update = Update(
        (PARTITION, counter),
        add={"value": {"N": amounts.to_text(change)}, "changes": {"N": "1"}},
    )
    outcome = await store.write(update)
    if not isinstance(outcome, Applied):
        raise StoreError(f"a single-item counter was not changed: {outcome}")


async def read_all(store: Store, counters: Sequence[str]) -> dict[str, tuple[Decimal, int]]:
    """Return value and number of changes that each counter's item holds in this region."""
    found = {}
    for counter in counters:
        item = await store.get((PARTITION, counter))
        if item is None:
            found[counter] = (Decimal(0), 0)
        else:
            found[counter] = (number_of(item, "value"), int(number_of(item, "changes")))
    return found
