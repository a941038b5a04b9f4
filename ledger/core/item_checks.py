"""Which items of a collection cannot be read, before anything is done with them.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from ledger.core import amounts, ids
from ledger.core.entry import Item, effective_of, entry_of, legs_of, number_of
from ledger.core.errors import DamagedItem
from ledger.core.fold import LEGS, is_entry
from ledger.core.parts import checked_item
from ledger.core.sums import SUM_PREFIX
from ledger.core.values import Entry


def damaged_entries(items: Sequence[Item]) -> list[Item]:
    """Return the entries among any items, with their partition keys, that cannot be counted.

    Those for which a collection raises `DamagedItem`; nets and sums are read one by one.
    """
    changes: list[Any] = [item["change"].get("N") for item in items if "change" in item]
    try:
        are_readable = amounts.are_plain(changes)
    except TypeError:  # one is no number
        are_readable = False
    if are_readable and len(changes) == len(items):
        return []
    return [
        item
        for item in items
        if not (are_readable and "change" in item)
        and not item["sk"]["S"].startswith(SUM_PREFIX)
        and is_entry(item)
        and _is_damaged(item)
    ]


def check_said(
    items: Iterable[Item], partition: str, *, with_items: bool, with_dates: bool
) -> None:
    """Check that all can be read which a merge keeps of entries besides their changes.

    That is the legs of transfers, with `with_items` all that they say, and with `with_dates` their
    effective dates. What is not kept goes with the entry, readable or not. A foreign key's item is
    never merged.

    Raises:
        DamagedItem: an entry cannot be read so far.
    """
    read = _checked_item_of if with_items else effective_of
    is_read = with_items or with_dates
    for item in items:
        if not (is_read or LEGS in item) or ids.parse(item["sk"]["S"]) is None:
            continue
        whole = item if "pk" in item else {**item, "pk": {"S": partition}}
        if LEGS in item:
            legs_of(whole)
        if with_items or (with_dates and "effective" in item):
            read(whole)


def _checked_item_of(item: Item) -> Entry:
    return checked_item(entry_of(item))


def _is_damaged(entry: Item) -> bool:
    try:
        number_of(entry, "change")
    except DamagedItem:
        return True
    return False
