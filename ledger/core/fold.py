"""From the items of a collection to its total.

total = the net's change + the change of every entry whose id is not in the net's `merged`. The
result depends on the set of items only, not on page borders or on the order of arrival. Of several
net changes the highest generation counts; items without a `change` under a foreign key are none of
ours; a foreign item with a `change` is an entry that is counted and never merged.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from ledger.core import amounts, ids, keys
from ledger.core.entry import Item, NetChange, net_of, number_of


@dataclass(slots=True)
class Collection:
    """What one region shows of one collection: entries by sort key, and the net change."""

    entries: dict[str, Decimal] = field(default_factory=dict)
    net: NetChange | None = None

    def add(self, items: Iterable[Item]) -> None:
        """Take in a page of items.

        Raises:
            DamagedItem: an item that should be counted cannot be.
        """
        entries = self.entries
        for item in items:
            sort_key = item["sk"]["S"]
            if sort_key.startswith(keys.NET_PREFIX):
                self._take_net(item)
            elif "change" in item or ids.parse(sort_key) is not None:
                entries[sort_key] = number_of(item, "change")

    def _take_net(self, item: Item) -> None:
        net = net_of(item)
        if self.net is None or net.generation > self.net.generation:
            self.net = net

    def unmerged(self) -> dict[str, Decimal]:
        """Return the entries that the net does not count yet."""
        if self.net is None or not self.net.merged:
            return self.entries
        merged = {str(entry) for entry in self.net.merged}
        return {key: change for key, change in self.entries.items() if key not in merged}

    def total(self) -> Decimal:
        """Return the exact sum over every change that this region shows, each once.

        Raises:
            AmountOverflow: the sum does not fit in 38 digits.
        """
        running = Decimal(0) if self.net is None else self.net.change
        for change in self.unmerged().values():
            running = amounts.add_wide(running, change)
        return amounts.within_range(running)


def collect(items: Iterable[Item]) -> Collection:
    """Return the collection that these items make up."""
    collection = Collection()
    collection.add(items)
    return collection
