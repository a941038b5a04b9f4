"""From the items of a collection to its total.

total = the net's change + the change of every entry whose id is not in the net's `merged`. The
result depends on the set of items only, not on page borders or on the order of arrival. Of several
net changes the highest generation counts; items without a `change` under a foreign key are none of
ours; a foreign item with a `change` is an entry that is counted and never merged.

An entry is not made an object: nearly all amounts are plain numbers, whose texts are checked a page
at a time and added at the end. Any other page is read item by item, with the same result.

What has been taken in can be given up but for its sum (`Collection.condense`), so that a collection
of any length fits in memory, and a later read can go on where an earlier one ended. Such a sum
leaves out the entries that one net names, so it holds for that net only (`is_sound`).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeVar

from ledger.core import amounts, ids, keys
from ledger.core.entry import Item, net_of, number_of
from ledger.core.errors import LedgerError
from ledger.core.values import NetChange

ATTRIBUTES = ("sk", "change", "count", "merged", "version", "until", "home", "digest")
"""All that a total rests on, of entries and of net changes: the rest need not be read."""

Amount = TypeVar("Amount", str, Decimal)
Stamp = tuple[int, str] | None
"""Generation and version of a net, None for no net: another at each write of it."""


def stamp_of(net: NetChange | None) -> Stamp:
    """Return what tells a net from every other that its collection has had."""
    return None if net is None else (net.generation, net.version)


@dataclass(frozen=True, slots=True)
class Subtotal:
    """The sum of some entries that the net under `stamp` does not name, and how many they are."""

    stamp: Stamp
    change: Decimal
    entries: int


class Collection:
    """What one region shows of one collection: entries by sort key, and the net change.

    `below` is the sum of entries that are not among these any more, or were read earlier;
    `partition` is the collection's key, for items that were read without it (`ATTRIBUTES`).
    """

    __slots__ = ("_parsed", "_partition", "_texts", "below", "net")

    def __init__(
        self,
        entries: dict[str, Decimal] | None = None,
        net: NetChange | None = None,
        *,
        partition: str = "",
        below: Subtotal | None = None,
    ) -> None:
        self._partition = partition
        self.net = net
        self.below = below
        self._parsed = {} if entries is None else entries
        # Newer than what is parsed: where both have a key, the text counts.
        self._texts: dict[str, str] = {}

    @property
    def kept(self) -> int:
        """How many entries are kept by their sort keys, merged ones too."""
        return len(self.entries) if self._parsed else len(self._texts)

    @property
    def entries(self) -> dict[str, Decimal]:
        """The change of each entry by its sort key, merged ones too."""
        if self._texts:
            self._parsed.update(zip(self._texts, map(Decimal, self._texts.values()), strict=True))
            self._texts.clear()
        return self._parsed

    def add(self, items: Sequence[Item]) -> None:
        """Take in a page of items.

        Raises:
            DamagedItem: an item that should be counted cannot be.
        """
        texts = _plain_texts(items)
        if texts is None:
            self._add_each(items)
            return
        if texts and max(texts) >= keys.NET_PREFIX:
            for item in items:
                if item["sk"]["S"].startswith(keys.NET_PREFIX):
                    self._take_net(item)
                    texts.pop(item["sk"]["S"], None)
        self._texts.update(texts)

    def _add_each(self, items: Iterable[Item]) -> None:
        entries = self.entries
        for item in items:
            sort_key = item["sk"]["S"]
            if sort_key.startswith(keys.NET_PREFIX):
                self._take_net(item)
            elif "change" in item or ids.parse(sort_key) is not None:
                entries[sort_key] = number_of(self._whole(item), "change")

    def _take_net(self, item: Item) -> None:
        net = net_of(self._whole(item))
        if self.net is None or net.generation > self.net.generation:
            self.net = net

    def _whole(self, item: Item) -> Item:
        return item if "pk" in item else {**item, "pk": {"S": self._partition}}

    @property
    def is_sound(self) -> bool:
        """Whether the sum kept in `below`, if any, goes with the net that was taken in."""
        return self.below is None or self.below.stamp == stamp_of(self.net)

    def condense(self, net: NetChange | None, *, upto: str | None = None) -> None:
        """Give up the entries taken in so far, but for the sum of those that `net` does not name.

        With `upto`, only those whose sort key is below it. `net` is the one that the rest of the
        items is expected to hold; if it holds another, nothing can be told any more.
        """
        self.below = self._subtotal(net, upto)
        self._texts = _from(self._texts, upto)
        self._parsed = _from(self._parsed, upto)

    def unmerged(self) -> Subtotal:
        """Return sum and number of the entries that the net does not count yet.

        Raises:
            LedgerError: the sum kept in `below` is another net's.
        """
        return self._subtotal(self.net, None)

    def total(self) -> Decimal:
        """Return the exact sum over every change that this region shows, each once.

        Raises:
            AmountOverflow: the sum does not fit in 38 digits.
            LedgerError: as `unmerged`.
        """
        before = Decimal(0) if self.net is None else self.net.change
        return amounts.total([before, self.unmerged().change])

    def _subtotal(self, net: NetChange | None, upto: str | None) -> Subtotal:
        """Add to what is kept in `below` the entries below a sort key that this net leaves."""
        stamp = stamp_of(net)
        before = self.below or Subtotal(stamp, Decimal(0), 0)
        if before.stamp != stamp:
            raise LedgerError(f"the sum of entries goes with net {before.stamp}, not with {stamp}")
        if self._parsed:
            texts, parsed = {}, _below(self.entries, upto)
        else:
            texts, parsed = _below(self._texts, upto), {}
        merged = named_by(net) if texts or parsed else ()
        shown = (texts.get(key, parsed.get(key)) for key in merged)
        named = [Decimal(one).copy_negate() for one in shown if one is not None]
        whole = amounts.total_plain(texts.values()), amounts.total_wide(parsed.values())
        return Subtotal(
            stamp,
            amounts.total_wide([before.change, *whole, *named]),
            before.entries + len(texts) + len(parsed) - len(named),
        )


def collect(items: Iterable[Item]) -> Collection:
    """Return the collection that these items make up."""
    collection = Collection()
    collection.add(list(items))
    return collection


def named_by(net: NetChange | None) -> Iterator[str]:
    """Yield the sort keys of the entries that a net counts and that may still be visible."""
    return map(str, net.merged) if net else iter(())


def _below(changes: dict[str, Amount], upto: str | None) -> dict[str, Amount]:
    """Return what lies below a sort key; all of it, not copied, without one."""
    if upto is None:
        return changes
    return {key: change for key, change in changes.items() if key < upto}


def _from(changes: dict[str, Amount], upto: str | None) -> dict[str, Amount]:
    """Return the rest of what `_below` returns."""
    return {} if upto is None else {key: changes[key] for key in changes if key >= upto}


def _plain_texts(items: Iterable[Item]) -> dict[str, str] | None:
    """Return the text of each item's change by its sort key, None if one is not plain."""
    try:
        texts = {item["sk"]["S"]: item["change"]["N"] for item in items}
        return texts if amounts.are_plain(texts.values()) else None
    except (KeyError, TypeError):
        return None
