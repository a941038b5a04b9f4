"""Records of a table's stream: the entry that one brings, if it does.

Each change of an item makes a record. Those of nets, sums, records and leases bring nothing, nor
does a delete: an entry is deleted once it is merged, which changes no total. An entry that is put
again as it was brings nothing new; one under the same id with another change replaces the earlier.

Pure: no clock, no randomness, no I/O.
"""

from ledger.core import keys
from ledger.core.entry import Item, entry_of
from ledger.core.values import Entry


def entry_in(old: Item | None, new: Item | None) -> Entry | None:
    """Return the entry that a record brings, by the images of the item before and after.

    Raises:
        DamagedItem: an attribute of it is of another kind than an entry's.
    """
    if new is None or not _is_entry(new):
        return None
    entry = entry_of(new)
    return None if old is not None and _is_entry(old) and entry_of(old) == entry else entry


def _is_entry(item: Item) -> bool:
    is_counter = keys.counter_of(item["pk"].get("S", keys.RESERVED)) is not None
    return is_counter and "change" in item and not item["sk"]["S"].startswith(keys.RESERVED)
