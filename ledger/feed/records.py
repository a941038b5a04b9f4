"""Records of a table's stream: the entry that one brings, if it does.

Each change of an item makes a record. Those of nets, sums, records and leases bring nothing, nor
does a delete: an entry is deleted once it is merged, which changes no total. An entry that is put
again as it was brings nothing new, nor does one that another region put under the same key within
the replication lag, which replaces the region alone. One under the same id with another change
replaces the earlier.
"""

import logging

from ledger.core import keys
from ledger.core.entry import Item, entry_of
from ledger.core.errors import DamagedItem
from ledger.core.values import Entry, same_change

log = logging.getLogger("ledger.feed")


def readable_entry_in(old: Item | None, new: Item | None) -> Entry | None:
    """Return the entry that a record brings; one that cannot be read is left out, and logged."""
    try:
        return entry_in(old, new)
    except DamagedItem as error:
        log.warning("left out of the feed: %s", error)
        return None


def entry_in(old: Item | None, new: Item | None) -> Entry | None:
    """Return the entry that a record brings, by the images of the item before and after.

    Raises:
        DamagedItem: an attribute of it is of another kind than an entry's.
    """
    if new is None or not _is_entry(new):
        return None
    entry = entry_of(new)
    return None if old is not None and _is(old, entry) else entry


def _is(item: Item, entry: Entry) -> bool:
    try:
        return _is_entry(item) and same_change(entry_of(item), entry)
    except DamagedItem:  # what was put in its place is new
        return False


def _is_entry(item: Item) -> bool:
    is_counter = keys.counter_of(item["pk"].get("S", keys.RESERVED)) is not None
    return is_counter and "change" in item and not item["sk"]["S"].startswith(keys.RESERVED)
