"""The index: one small item for each collection of the counters that the contract's `index` names.

It records the collection's net as of the compactor's last write, so that counters are listed by
prefix, with totals, without reading them. The items of a counter are stored under one of a few
reserved partition keys, in the order of counter ids; those of its further shards follow it, because
their separator is a control character, which an id must not contain, and sorts before all others:

    ~index-2 / usage/acme                   value 120, count 8, generation 1, as_of ...
    ~index-2 / usage/acme<US>0001           the same for its shard 1
    ~index-2 / usage/acme<US>0000<US>0002   of shard 0, put under generation 2 of the contract

States of one collection are ordered by generation and count, which only grow; a counter that has
no net yet is listed under generation 0. No total depends on the index: an item that is missing or
old is corrected by the compactor's next fold or search.

The loss of a home begins a generation of the contract, with index items of its own: an item that
the lost home put may have a later stamp than anything the next home puts under the same key, and
would survive it in other regions. Of the items of a collection the one with the highest generation
in its key counts; the others are deleted once the next search finds them.

Pure: no clock, no randomness, no I/O.
"""

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import NamedTuple
from zlib import crc32

from ledger.core import amounts, keys
from ledger.core.descriptions import Value
from ledger.core.entry import AttributeValue, Item, Key, damaged, number_of
from ledger.core.errors import InvalidCounter, StateConflict
from ledger.core.values import NetChange

INDEX_PREFIX = "~index-"
INDEX_PARTITIONS = tuple(f"{INDEX_PREFIX}{number}" for number in range(4))
"""More than one, because a partition accepts 1,000 writes a second."""
SEPARATOR = "\x1f"
COUNTER_BYTES_MAX = 1_014
"""A sort key's 1,024 bytes less shard and generation: counters of longer ids are not listed."""
TOP_MAX = 1_000
"""How many counters `top` keeps at most, and of how many an exact one reads the totals."""
_FIRST = (0, 1)
"""The shard and the generation that a sort key omits."""
_LEAST = " "
"""The least character that an id may contain."""
_SURROGATES = range(0xD800, 0xE000)
_CODE_MAX = 0x10FFFF


@dataclass(frozen=True, slots=True)
class IndexState:
    """The state of one collection in the index: its net's generation, count and change."""

    generation: int
    count: int
    value: Decimal

    @staticmethod
    def of(net: NetChange | None) -> "IndexState":
        """Return the state of a net; without one, that of a counter that is only listed."""
        if net is None:
            return ONLY_LISTED
        return IndexState(net.generation, net.count, net.change)

    def replaces(self, found: "IndexState | None") -> bool:
        """Return whether it is to be written over `found`."""
        if found is None:
            return True
        mine, there = (self.generation, self.count), (found.generation, found.count)
        return mine > there or (mine == there and self.value != found.value)


ONLY_LISTED = IndexState(0, 0, Decimal(0))
"""The state of a collection that has no net yet."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A counter as the index lists it, with its value.

    `value` is the sum of `count` merged entries, as its nets were at `as_of`, the earliest of its
    shards; entries written later, entries not merged yet and sums of pipelines are not in it. With
    `is_exact` it is the counter's total, read from the table at `as_of`, and `count` counts all of
    its changes. `description` has the attributes of its description, if asked for.
    """

    counter: str
    value: Decimal
    count: int
    as_of: datetime
    is_exact: bool = False
    description: Mapping[str, Value] | None = None


class IndexPlace(NamedTuple):
    """The owner of an index item: a counter's shard, and the contract's generation that put it."""

    counter: str
    shard: int
    generation: int

    @property
    def key(self) -> Key:
        """The key of the item."""
        partition = INDEX_PARTITIONS[crc32(self.counter.encode()) % len(INDEX_PARTITIONS)]
        if self.generation > 1:
            name = f"{self.counter}{SEPARATOR}{self.shard:04d}{SEPARATOR}{self.generation:04d}"
        else:
            name = f"{self.counter}{SEPARATOR}{self.shard:04d}" if self.shard else self.counter
        return partition, name


def index_key(partition: str, generation: int) -> Key | None:
    """Return the key of a collection's index item; None if its counter cannot be listed.

    `generation` is that of the contract under which it is put.
    """
    place = keys.counter_of(partition)
    if place is None or len(place[0].encode()) > COUNTER_BYTES_MAX:
        return None
    try:
        keys.checked_counter(place[0])  # another tool's items may have any key
    except InvalidCounter:
        return None
    return IndexPlace(*place, generation).key


def index_place(sort_key: str) -> IndexPlace | None:
    """Return the owner of an index item; None if the sort key is not one of the index."""
    counter, *numbers = sort_key.split(SEPARATOR)
    if len(numbers) > len(_FIRST) or not all(map(str.isdecimal, numbers)):
        return None
    return IndexPlace(counter, *map(int, numbers), *_FIRST[len(numbers) :])


def attributes_of(state: IndexState, at: datetime) -> dict[str, AttributeValue]:
    """Return the attributes of a state's item, without its key."""
    return {
        "value": {"N": amounts.to_text(state.value)},
        "count": {"N": str(state.count)},
        "generation": {"N": str(state.generation)},
        "as_of": {"S": at.astimezone(UTC).isoformat(timespec="seconds")},
    }


def state_of(item: Item) -> IndexState:
    """Return the state in an index item.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    generation, count = number_of(item, "generation"), number_of(item, "count")
    return IndexState(int(generation), int(count), number_of(item, "value"))


def counter_in(sort_key: str) -> str:
    """Return the counter of an index item."""
    return sort_key.partition(SEPARATOR)[0]


def listed_of(items: Iterable[Item]) -> Listed:
    """Return a counter from the items of its shards, at least one.

    Raises:
        DamagedItem: one of them cannot be read.
        AmountOverflow: their sum does not fit in 38 digits.
    """
    shown = [(item, state_of(item)) for item in _latest(items)]
    return Listed(
        counter=counter_in(shown[0][0]["sk"]["S"]),
        value=amounts.total(state.value for _, state in shown),
        count=sum(state.count for _, state in shown),
        as_of=min(_time(item) for item, _ in shown),
    )


def _latest(items: Iterable[Item]) -> Iterable[Item]:
    """Return the item of each shard that the highest generation put."""
    found: dict[int, tuple[int, Item]] = {}
    for item in items:
        place = index_place(item["sk"]["S"])
        if place is None:
            raise damaged(item, "an index item's sk must be a counter, its shard and a generation")
        if place.generation > found.get(place.shard, (0, item))[0]:
            found[place.shard] = place.generation, item
    return [item for _, item in found.values()]


def covers(patterns: Iterable[str], prefix: str) -> bool:
    """Return whether every counter that begins with `prefix` matches one of these patterns.

    Only a pattern that ends in `*` can: anything may follow the prefix.
    """
    return any(pattern.endswith("*") and fnmatchcase(prefix, pattern) for pattern in patterns)


def checked_prefix(prefix: object, patterns: tuple[str, ...]) -> str:
    """Return a prefix whose counters are indexed; the empty prefix covers all counters.

    Raises:
        InvalidCounter: it cannot begin a counter id.
        StateConflict: the index does not cover it.
    """
    text = prefix if prefix == "" else keys.checked_counter(prefix, "prefix")
    if not covers(patterns, str(text)):
        held = ", ".join(map(repr, patterns)) or "nothing"
        raise StateConflict(
            f"counters that begin with {text!r} are not indexed: the contract's index has {held}"
            f" (`ledger table set index '{text}*'`)"
        )
    return str(text)


def checked_after(after: object, prefix: str) -> str:
    """Return the counter after which a list of these counters goes on.

    Raises:
        InvalidCounter: it is none, or not one of the prefix, so that the list that it is from had
            other counters.
    """
    counter = keys.checked_counter(after, "after")
    if not counter.startswith(prefix):
        raise InvalidCounter(
            f"after must begin with the prefix {prefix!r:.80}, as the last counter of the page"
            f" before does, got {counter!r:.80}"
        )
    return counter


def bounds(prefix: str, after: str | None) -> tuple[str | None, str | None]:
    """Return the first and last sort keys, both included, of counters with a prefix, in order.

    Only those after the counter `after` of the prefix, if it is given. None for either bound if
    there is no such bound. The range may include keys without the prefix: the last bound is the
    least text that does not begin with it.
    """
    first = prefix
    if after is not None:
        fits = len(after.encode()) < COUNTER_BYTES_MAX
        first = after + _LEAST if fits else after  # after the shards of `after`
    return first or None, _behind(prefix)


def _behind(prefix: str) -> str | None:
    """Return the least text above all that begin with a prefix; None if there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code in _SURROGATES:
            code = _SURROGATES.stop
        if code <= _CODE_MAX:
            return prefix[: end - 1] + chr(code)
    return None


class TopList:
    """The `count` counters of the largest values, or the smallest, of those that are added.

    Of equal values the one added first ranks higher.
    """

    def __init__(self, count: int, *, smallest: bool) -> None:
        self._count = count
        self._sign = -1 if smallest else 1
        self._added = 0
        self._kept: list[tuple[Decimal, int, Listed]] = []

    def add(self, one: Listed) -> None:
        """Add a counter."""
        self._added += 1
        value = one.value if self._sign > 0 else one.value.copy_negate()
        place = (value, -self._added, one)
        if len(self._kept) < self._count:
            heapq.heappush(self._kept, place)
        else:
            heapq.heappushpop(self._kept, place)

    def found(self) -> list[Listed]:
        """Return them, best first."""
        return [one for _, _, one in sorted(self._kept, reverse=True)]


def _time(item: Item) -> datetime:
    try:
        return datetime.fromisoformat(item["as_of"]["S"])
    except (KeyError, TypeError, ValueError):
        raise damaged(item, "as_of must be a time") from None
