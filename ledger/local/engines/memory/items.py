"""The items of one table in one region, in the order in which DynamoDB gives them.

Collections (items of one partition key) lie in the order of a hash of that key, as DynamoDB's
partitions do; a segment of a parallel Scan is a range of hashes, so a collection is always wholly
inside one segment. Within a collection items lie in the order of the sort key.

Pure: no clock, no randomness, no I/O.
"""

import hashlib
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ledger.core import amounts
from ledger.core.capacity import item_size
from ledger.local.engines.port import Image, TableKey

_HASH_BYTES = 8
_HASHES = 1 << (8 * _HASH_BYTES)

Place = tuple[Any, Any]
"""Partition and sort key as values that compare as DynamoDB compares them."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An item with its size in bytes."""

    image: Image
    size: int


@dataclass(slots=True)
class _Collection:
    items: dict[Any, Stored] = field(default_factory=dict)
    order: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SortRange:
    """A condition on the sort key: comparison as in a key condition, with its operands."""

    comparison: str
    operands: tuple[Any, ...]

    def bounds(self, order: Sequence[Any]) -> tuple[int, int]:  # noqa: PLR0911 (one per comparison)
        """Return the slice of an ascending list of sort keys that fulfils the condition."""
        first = self.operands[0]
        match self.comparison:
            case "=":
                return bisect_left(order, first), bisect_right(order, first)
            case "<":
                return 0, bisect_left(order, first)
            case "<=":
                return 0, bisect_right(order, first)
            case ">":
                return bisect_right(order, first), len(order)
            case ">=":
                return bisect_left(order, first), len(order)
            case "BETWEEN":
                return bisect_left(order, first), bisect_right(order, self.operands[1])
            case _:  # begins_with
                start = bisect_left(order, first)
                return start, bisect_right(order, first, lo=start, key=lambda v: v[: len(first)])


def comparable(value: Mapping[str, Any]) -> Any:
    """Return a key attribute's value so that Python orders it as DynamoDB does."""
    ((kind, content),) = value.items()
    return amounts.of_text(content) if kind == "N" else content


def _hash(partition: Any) -> int:
    content = partition if isinstance(partition, bytes) else str(partition).encode()
    return int.from_bytes(hashlib.blake2b(content, digest_size=_HASH_BYTES).digest())


class TableItems:
    """All items of a table: single reads and writes, and ordered walks over them.

    A walk sees the items as they were when it yields them: use it up before writing.
    """

    def __init__(self, key: TableKey) -> None:
        self.key = key
        self._collections: dict[Any, _Collection] = {}
        self._order: list[tuple[int, Any]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def place(self, item: Mapping[str, Any]) -> Place:
        """Return where an item, or bare key, belongs."""
        names = self.key.names
        return (
            comparable(item[names[0]]),
            comparable(item[names[1]]) if len(names) > 1 else None,
        )

    def get(self, place: Place) -> Stored | None:
        """Return the item at a place."""
        collection = self._collections.get(place[0])
        return collection.items.get(place[1]) if collection else None

    def put(self, place: Place, image: Image, size: int | None = None) -> None:
        """Put an item, replacing the one that is there."""
        collection = self._collections.get(place[0])
        if collection is None:
            collection = self._collections[place[0]] = _Collection()
            insort(self._order, (_hash(place[0]), place[0]))
        if place[1] not in collection.items:
            insort(collection.order, place[1]) if len(self.key.names) > 1 else (
                collection.order.append(None)
            )
            self._count += 1
        collection.items[place[1]] = Stored(image, item_size(image) if size is None else size)

    def delete(self, place: Place) -> None:
        """Delete the item at a place, if there is one."""
        collection = self._collections.get(place[0])
        if collection is None or collection.items.pop(place[1], None) is None:
            return
        self._count -= 1
        if collection.items:
            del collection.order[bisect_left(collection.order, place[1])]
            return
        del self._collections[place[0]]
        del self._order[bisect_left(self._order, (_hash(place[0]), place[0]))]

    def query(
        self,
        partition: Any,
        *,
        sort: SortRange | None = None,
        after: Place | None = None,
        forward: bool = True,
    ) -> Iterator[Stored]:
        """Walk one collection in the order of the sort key, from behind `after`."""
        collection = self._collections.get(partition)
        if collection is None:
            return
        order = collection.order
        start, end = sort.bounds(order) if sort else (0, len(order))
        if after is not None and after[1] is None:
            return
        if after is not None and forward:
            start = max(start, bisect_right(order, after[1]))
        elif after is not None:
            end = min(end, bisect_left(order, after[1]))
        places = range(start, end) if forward else range(end - 1, start - 1, -1)
        for position in places:
            yield collection.items[order[position]]

    def scan(
        self, *, segment: int = 0, segments: int = 1, after: Place | None = None
    ) -> Iterator[Stored]:
        """Walk one segment of the table, collection by collection, from behind `after`."""
        start = self._border(segment, segments)
        end = self._border(segment + 1, segments)
        if after is not None:
            behind = bisect_left(self._order, (_hash(after[0]), after[0]))
            if start <= behind < end and self._order[behind][1] == after[0]:
                yield from self.query(after[0], after=after)
                behind += 1
            start = max(start, behind)
        for position in range(start, end):
            collection = self._collections[self._order[position][1]]
            for sort_key in collection.order:
                yield collection.items[sort_key]

    def _border(self, segment: int, segments: int) -> int:
        return bisect_left(self._order, _HASHES * segment // segments, key=lambda place: place[0])

    def every(self) -> Iterator[Image]:
        """Walk all items, in no particular order."""
        for collection in self._collections.values():
            for stored in collection.items.values():
                yield stored.image
