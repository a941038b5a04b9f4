"""Changes per category: those of one version of a record, those of a batch, and their hash.

All sums are exact in any order. A category whose changes cancel out is left out.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from zlib import crc32

import orjson

from ledger.core import amounts

PART_CATEGORIES_MAX = 64
"""Of one map item, so that many of them with the same categories fit in one reduce transaction."""
PARTS_MAX = 64
"""Map items of one batch: with the lane's item, well under the 100 actions of a transaction."""
_HASH_BITS = 32

ONE = Decimal(1)
Changes = Mapping[str, Decimal]
NO_CHANGES: Changes = {}


@dataclass(frozen=True, slots=True)
class CategorySums:
    """What a version of a record adds: its value in each of its categories, 1 in `counted`."""

    value: Decimal
    categories: tuple[str, ...]
    counted: tuple[str, ...] = ()

    @property
    def changes(self) -> Changes:
        """The amount for each category, including zeroes."""
        values = dict.fromkeys(self.categories, self.value)
        return {**values, **dict.fromkeys(self.counted, ONE)} if self.counted else values


def difference(before: CategorySums | None, after: CategorySums) -> Changes:
    """Return the changes that move the totals from one version of a record to another."""
    if before is None:
        if after.value and not after.counted:
            return dict.fromkeys(after.categories, after.value)
        return {name: change for name, change in after.changes.items() if change}
    if before.categories == after.categories and before.counted == after.counted:
        change = amounts.total_wide((after.value, before.value.copy_negate()))
        return dict.fromkeys(after.categories, change) if change else NO_CHANGES
    taken = {name: change.copy_negate() for name, change in before.changes.items()}
    return total((taken, after.changes))


def total(changes: Iterable[Changes]) -> dict[str, Decimal]:
    """Add changes up, category by category in order of their ids, zeroes left out.

    Raises:
        AmountOverflow: a sum does not fit in 38 digits.
    """
    found: dict[str, list[Decimal]] = {}
    for added in changes:
        for category, change in added.items():
            found.setdefault(category, []).append(change)
    sums = ((category, amounts.total(found[category])) for category in sorted(found))
    return {category: change for category, change in sums if change}


def add_in(found: dict[str, Decimal], changes: Changes) -> None:
    """Add changes to sums, in place, with as many digits as it takes."""
    for category, change in changes.items():
        found[category] = amounts.total_wide((found.get(category, Decimal(0)), change))


def digest(partition: str, after: str, upto: str, changes: Changes) -> str:
    """Return the SHA-256, in hex, of what a batch changes: lane's partition, positions, changes."""
    pairs = [[category, amounts.to_text(change)] for category, change in changes.items()]
    return hashlib.sha256(orjson.dumps([partition, after, upto, pairs])).hexdigest()


def divided(changes: Changes) -> Sequence[Changes] | None:
    """Divide changes into parts of up to `PART_CATEGORIES_MAX`; None if that takes too many.

    By the highest bits of each category's hash, as many as it takes. So the parts of different
    batches hold the same categories, or one holds all those of another, and add up to few entries.
    """
    for bits in range(PARTS_MAX.bit_length()):
        parts: dict[int, dict[str, Decimal]] = {}
        for category, change in changes.items():
            parts.setdefault(place_of(category) >> (_HASH_BITS - bits), {})[category] = change
        if all(len(part) <= PART_CATEGORIES_MAX for part in parts.values()):
            return [parts[place] for place in sorted(parts)]
    return None


def place_of(category: str) -> int:
    """Return a category's place among all, the same everywhere: 32 bits."""
    return crc32(category.encode())
