"""Sum items: what one region's pipelines have added to one counter, besides its entries and net.

pk: the counter; sk `~sum#REGION.EPOCH#SLOT`: `value` N, the sum; `version` N, the number of
additions in it. Only REGION writes it, so last writer wins keeps the newest; EPOCH grows whenever
the region leaves the table, so a region that is added again begins other items. Each replicates
whole and is outside merging, so a total never depends on which of them have arrived together.

A region that was lost may have left different versions in different regions. Home then keeps a copy
of the newest under the same sort key with the suffix `#copy`, and readers take the higher version
of item and copy, never their sum: the item may still arrive after its copy.

An audit finds what was added since its cut in `since.NAME` of the same item; NAME is its own.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import AttributeValue, Item, damaged, number_of

SUM_PREFIX = "~sum#"
SUM_ATTRIBUTES = ("value", "version")
"""The attributes of a sum besides its key."""
"""Sorts after every entry and every net change, so a read of a collection ends with the sums."""
COPY = "#copy"
SINCE = "since."
"""Prefix of the attribute that holds what was added since the cut of an audit."""
SLOTS_MAX = 64

_SORT_KEY = re.compile(r"~sum#(.+)\.([1-9][0-9]{0,5})#([0-9]{1,2})(#copy)?", flags=re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class SumPlace:
    """The owner of a sum: region, its epoch in the contract, and the slot that spreads writes."""

    region: str
    epoch: int
    slot: int = 0

    @property
    def sort_key(self) -> str:
        """The sort key of the item that the region itself writes."""
        return f"{SUM_PREFIX}{self.region}.{self.epoch}#{self.slot}"


@dataclass(frozen=True, slots=True)
class Sum:
    """The value of a sum item after `version` additions."""

    value: Decimal
    version: int


def place_of(sort_key: str) -> tuple[SumPlace, bool] | None:
    """Return a sum's owner by its sort key, and whether it is a copy; None for other keys."""
    found = _SORT_KEY.fullmatch(sort_key)
    if found is None:
        return None
    return SumPlace(found[1], int(found[2]), int(found[3])), found[4] is not None


def sum_of(item: Item) -> tuple[SumPlace, bool, Sum]:
    """Read a sum item, or the copy of one: its owner, whether it is a copy, and its value.

    Raises:
        DamagedItem: it is not in our form.
    """
    found = place_of(item["sk"]["S"])
    if found is None:
        raise damaged(item, "a sum is named ~sum#REGION.EPOCH#SLOT")
    version = number_of(item, "version")
    if version < 1 or not amounts.is_whole(version):
        raise damaged(item, f"version must be a whole number from 1, got {version}")
    return *found, Sum(number_of(item, "value"), int(version))


def copy_item(partition: str, place: SumPlace, copied: Sum) -> dict[str, AttributeValue]:
    """Return the item of a copy of a lost region's sum."""
    return {
        "pk": {"S": partition},
        "sk": {"S": f"{place.sort_key}{COPY}"},
        "value": {"N": amounts.to_text(copied.value)},
        "version": {"N": str(copied.version)},
    }


def newer(one: Sum | None, other: Sum) -> Sum:
    """Return the sum of the higher version, the only one that counts."""
    return other if one is None or other.version > one.version else one


def to_copy(
    shown: Iterable[Mapping[SumPlace, Sum]],
    copies: Mapping[SumPlace, Sum],
    is_over: Callable[[SumPlace], bool],
) -> dict[SumPlace, Sum]:
    """Return the copies to put: of each sum that is final, the newest that any region shows.

    `shown` is what each region shows, `copies` what home has: a copy is put again each time that a
    region shows a higher version, however late that arrives (a copy of what was found once would
    stay below it).
    """
    newest: dict[SumPlace, Sum] = {}
    for sums in shown:
        for place, each in sums.items():
            newest[place] = newer(newest.get(place), each)
    return {
        place: each
        for place, each in sorted(newest.items())
        if is_over(place) and (place not in copies or copies[place].version < each.version)
    }


def since_name(audit: str) -> str:
    """Return the attribute in which a sum item has what was added since the cut of an audit.

    Each audit has its own, so a late request of an earlier audit does not disturb it.
    """
    return f"{SINCE}{audit}"


def since_of(item: Item | None, audit: str) -> Decimal:
    """Return what was added since the cut of an audit; the total at the cut is value - since.

    Raises:
        DamagedItem: it is not a number.
    """
    name = since_name(audit)
    return number_of(item, name) if item is not None and name in item else Decimal(0)
