"""From the items of a collection to its total.

total = the net's change + the change of every entry whose id is not in the net's `merged` + the
value of every sum item (`ledger.core.sums`). The
result depends only on the set of items, not on page borders or on the order of arrival. Of several
net changes only the one of the highest generation counts (a region that was home, and is lost,
leaves nets of earlier generations behind). An item under a foreign key counts as an entry
that is never merged if it has a `change`, and is ignored otherwise.

Entries are not made into objects: nearly all amounts are plain numbers, whose texts are checked a
page at a time and added at the end. Any other page is read item by item, with the same result.

Items that were added can be replaced by their sum (`Collection.condense`), so that a collection of
any length fits in memory, and a later read can continue where an earlier one ended. Such a sum
leaves out the entries that one net names, so it is valid only for that net (`is_sound`).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Generator, Iterable, Iterator, KeysView, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

from ledger.core import amounts, books, ids, keys, once
from ledger.core.entry import Item, Key, legs_of, net_of, number_of
from ledger.core.errors import LedgerError
from ledger.core.ids import EntryIds
from ledger.core.sums import SUM_PREFIX, Sum, SumPlace, newer, sum_of
from ledger.core.values import Leg, NetChange

ATTRIBUTES = (
    *("sk", "change", "count", "merged", "version", "until", "home", "digest", "periods"),
    *("archive", "accounts", "value", "signature"),
)
"""The attributes of entries, net changes and sums that a total depends on."""
COPIES = "copies"
"""How often an entry was put again, in a table that lost a region; readers ignore it."""
_NOT_COMPARED = {"change", COPIES}
DATED = (*ATTRIBUTES, "effective")
"""The attributes that sums by period depend on."""
LEGS = "legs"
"""The attribute that balances of a book depend on besides."""

LEGS_PORTION = 5_000
"""Legs that are added up in one portion, in some 5 milliseconds."""
PORTION = 1_000
"""Entries that are calculated with at once, each by its own time: some milliseconds."""

_NONE = Decimal(0)
Amount = TypeVar("Amount", str, Decimal)
Part = TypeVar("Part")
Result = TypeVar("Result")
Portions = Generator[None, None, Result]
"""A calculation that yields between its portions; `ledger.runtime.tasks.in_portions` runs it."""
Stamp = tuple[int, str] | None
"""Generation and version of a net, different at each write; None without a net."""


def stamp_of(net: NetChange | None) -> Stamp:
    """Return what distinguishes a net from every other of its collection, past and future."""
    return None if net is None else (net.generation, net.version)


class Subtotal(NamedTuple):
    """Sum and number of some entries that the net with `stamp` does not name.

    Of a book also what its transfers come to, if `Collection.legs` are wanted.
    """

    stamp: Stamp
    change: Decimal
    entries: int
    accounts: books.Accounts | None = None


class Collection:
    """What one region shows of one collection: entries by sort key, the net change, and sums.

    `below` is the sum of entries that were condensed, or read earlier; `partition` is the
    collection's key, for items that were read without it (`ATTRIBUTES`). `outdated` has the
    generations of further nets, all lower than that of `net`, which do not count. `sums` has
    the newer of each sum item and its copy, `copies` only the copies. `dates` has the text of the
    effective date of an entry, by its sort key, if dates are wanted (`with_dates`); `items` all
    items that are not the ledger's own, as read, if they are wanted (`with_items`); `records` the
    key of the record of each entry that a call makes once, if they are wanted (`with_records`);
    `legs` those of each transfer in a book, if they are wanted (`with_legs`).
    """

    __slots__ = (
        *("_parsed", "_partition", "_texts"),
        *("below", "copies", "dates", "items", "legs", "net", "outdated", "records"),
        "sums",
    )

    def __init__(
        self,
        entries: dict[str, Decimal] | None = None,
        net: NetChange | None = None,
        *,
        partition: str = "",
        below: Subtotal | None = None,
        with_dates: bool = False,
        with_items: bool = False,
        with_records: bool = False,
        with_legs: bool = False,
    ) -> None:
        self._partition = partition
        self.net = net
        self.outdated: frozenset[int] = frozenset()
        self.sums: dict[SumPlace, Sum] = {}
        self.copies: dict[SumPlace, Sum] = {}
        self.below = below
        self.dates: dict[str, str] | None = {} if with_dates else None
        self.items: dict[str, Item] | None = {} if with_items else None
        self.records: dict[str, Key] | None = {} if with_records else None
        self.legs: dict[str, tuple[Leg, ...]] | None = {} if with_legs else None
        self._parsed = {} if entries is None else entries
        self._texts: dict[str, str] = {}  # of other keys than `_parsed`

    @property
    def kept(self) -> int:
        """How many entries are kept by their sort keys, including merged ones."""
        return len(self._parsed) + len(self._texts)

    @property
    def entries(self) -> dict[str, Decimal]:
        """The change of each entry by its sort key, including merged ones."""
        if self._texts:
            is_mixed = bool(self._parsed)
            self._parsed.update(zip(self._texts, map(Decimal, self._texts.values()), strict=True))
            self._texts = {}  # not cleared: callers may hold a view of that dictionary
            if is_mixed:  # a read's order, whichever page had which
                self._parsed = dict(sorted(self._parsed.items()))
        return self._parsed

    @property
    def sort_keys(self) -> KeysView[str]:
        """The sort key of each entry, including merged ones; no change is parsed."""
        return self.entries.keys() if self._parsed else self._texts.keys()

    def alike(self, others: Iterable["Collection"]) -> list[str]:
        """Return the sort keys of the entries that all others show alike, with all that is kept.

        They come in the order in which they were read.
        """
        found: AbstractSet[str] = self.sort_keys
        for other in others:
            if other is not self:
                found = self._alike(found, other)
                dates, there = self.dates or {}, other.dates or {}
                if dates != there:
                    found = {key for key in found if dates.get(key) == there.get(key)}
                legs, others_legs = self.legs or {}, other.legs or {}
                if legs != others_legs:
                    found = {key for key in found if legs.get(key) == others_legs.get(key)}
                if self.items is not None and self.items != other.items:
                    mine, others_items = self.items, other.items or {}
                    found = {
                        key for key in found if _said(mine.get(key)) == _said(others_items.get(key))
                    }
        return [key for key in self.sort_keys if key in found]

    def _alike(self, found: AbstractSet[str], other: "Collection") -> AbstractSet[str]:
        """Return which of these entries `other` shows with the same change."""
        # The same class: both, or neither, are read as texts.
        texts, is_text = other._texts, not (self._parsed or other._parsed)  # noqa: SLF001
        if not is_text:
            mine, there = self.entries, other.entries
            return {key for key in found if there.get(key) == mine[key]}
        if self._texts == texts:
            return found
        shown = ((key, self._texts[key], texts.get(key)) for key in found)
        return {key for key, text, other in shown if other is not None and _is_same(text, other)}

    def sum_of(self, sort_keys: Iterable[str]) -> Decimal:
        """Return the sum of the changes under these sort keys, without a check of its range."""
        if self._parsed:
            return amounts.total_wide(map(self.entries.__getitem__, sort_keys))
        return amounts.total_plain([*map(self._texts.__getitem__, sort_keys)])

    def changes_of(self, sort_keys: Iterable[str]) -> list[Decimal]:
        """Return the changes under these sort keys."""
        if self._parsed:
            return [*map(self.entries.__getitem__, sort_keys)]
        return [*map(Decimal, map(self._texts.__getitem__, sort_keys))]

    def add(self, items: Sequence[Item]) -> None:
        """Add a page of items.

        Raises:
            DamagedItem: an item that counts cannot be read.
        """
        if self.dates is not None:
            dated = (item for item in items if "effective" in item)
            self.dates.update((one["sk"]["S"], str(one["effective"].get("S"))) for one in dated)
        self._take_records(items)
        if self.legs is not None:
            moving = (self._whole(item) for item in items if LEGS in item and is_entry(item))
            self.legs.update((item["sk"]["S"], legs_of(item)) for item in moving)
        if self.items is not None:
            self.items.update(
                (key, item) for item in items if (key := item["sk"]["S"]) < keys.RESERVED
            )
        if len(items) == 1 and items[0]["sk"]["S"].startswith(keys.NET_PREFIX):
            self._take_net(items[0])  # the only item of a merged collection
            return
        texts = _plain_texts(items)
        if texts is None or (texts and max(texts) >= SUM_PREFIX):
            items = self._without_sums(items)
            texts = _plain_texts(items)
        if texts is None:
            self._add_each(items)
            return
        if texts and max(texts) >= keys.NET_PREFIX:
            for item in self._take_nets(items):
                texts.pop(item["sk"]["S"], None)
        for key in self._parsed and texts:
            self._parsed.pop(key, None)
        self._texts.update(texts)

    def _take_records(self, items: Sequence[Item]) -> None:
        if self.records is not None:
            named = (item for item in items if once.REVERSES in item or once.TOKEN in item)
            found = ((item["sk"]["S"], once.record_key(self._whole(item))) for item in named)
            self.records.update((key, record) for key, record in found if record is not None)

    def _add_each(self, items: Sequence[Item]) -> None:
        self._take_nets(items)
        for item in filter(is_entry, items):
            key = item["sk"]["S"]
            self._parsed[key] = number_of(self._whole(item), "change")
            self._texts.pop(key, None)

    def _without_sums(self, items: Sequence[Item]) -> list[Item]:
        """Take the sums in a page; return the other items."""
        others: list[Item] = []
        for item in items:
            if not item["sk"]["S"].startswith(SUM_PREFIX):
                others.append(item)
                continue
            place, is_copy, found = sum_of(self._whole(item))
            self.sums[place] = newer(self.sums.get(place), found)
            if is_copy:
                self.copies[place] = found
        return others

    def _take_nets(self, items: Sequence[Item]) -> list[Item]:
        """Take the net of the highest generation in a page; return all nets in it."""
        nets = [item for item in items if item["sk"]["S"].startswith(keys.NET_PREFIX)]
        # From the highest down: nets that do not count are not read, so they may be damaged.
        for item in sorted(nets, key=_sort_key, reverse=True):
            self._take_net(item)
        return nets

    def _take_net(self, item: Item) -> None:
        generation = keys.generation_of(item["sk"]["S"])
        if self.net is None:
            self.net = net_of(self._whole(item))
        elif generation is None or generation > self.net.generation:
            self.outdated |= {self.net.generation}
            self.net = net_of(self._whole(item))
        elif generation < self.net.generation:
            self.outdated |= {generation}

    def _whole(self, item: Item) -> Item:
        return item if "pk" in item else {**item, "pk": {"S": self._partition}}

    @property
    def is_sound(self) -> bool:
        """Whether the sum in `below`, if any, is valid for the net that was added."""
        return self.below is None or self.below.stamp == stamp_of(self.net)

    def condense(self, net: NetChange | None, *, upto: str | None = None) -> Portions[Subtotal]:
        """Replace the entries added so far by the sum of those that `net` does not name.

        With `upto`, only those whose sort key is below it. `net` is the one that the remaining
        items are expected to hold; if they hold another, the collection is not sound. Returns the
        sum, and takes at most `PORTION` entries between two yields.
        """
        self.below = yield from self._subtotal(net, upto)
        for changes in (self._texts, self._parsed, self.legs or {}):
            for keys_ in _from_the_last(changes):
                for key in keys_:
                    if upto is None or key < upto:
                        del changes[key]
                if len(keys_) == PORTION:
                    yield
        return self.below

    def unmerged(self) -> Subtotal:
        """Return sum and number of the entries that the net does not count yet.

        Raises:
            LedgerError: the collection is not sound.
        """
        return at_once(self._subtotal(self.net, None))

    def take_unmerged(self) -> Iterator[list[tuple[str, str | None, Decimal]]]:
        """Yield sort key, effective date and change of those entries, and keep none of them.

        They are of `PORTION` entries at a time, with the merged ones, which are left out.
        """
        named, dates = {*named_by(self.net)}, self.dates or {}
        for changes in (self._texts, self._parsed):
            for keys_ in _from_the_last(changes):
                taken = [
                    (key, dates.pop(key, None), Decimal(changes.pop(key), amounts.EXACT))
                    for key in keys_
                ]
                yield [each for each in taken if each[0] not in named]

    def total(self) -> Decimal:
        """Return the exact sum of every change that this region shows, each counted once.

        Raises:
            AmountOverflow: the sum does not fit in 38 digits.
            LedgerError: the collection is not sound.
        """
        before = Decimal(0) if self.net is None else self.net.change
        return amounts.total([before, self.unmerged().change, self.added])

    @property
    def added(self) -> Decimal:
        """The sum of all sums, without a check of its range."""
        return amounts.total_wide(each.value for each in self.sums.values()) if self.sums else _NONE

    @property
    def additions(self) -> int:
        """The number of additions in the sums."""
        return sum(each.version for each in self.sums.values())

    def _subtotal(self, net: NetChange | None, upto: str | None) -> Portions[Subtotal]:
        """Return `below` plus the entries below a sort key that this net does not name."""
        stamp = stamp_of(net)
        before = self.below or Subtotal(stamp, _NONE, 0)
        if before.stamp != stamp:
            raise LedgerError(f"the sum of entries belongs to net {before.stamp}, not to {stamp}")
        texts, parsed = self._texts, self._parsed
        if not (texts or parsed):
            return before
        change, count = before.change, before.entries
        for part in in_parts(texts.items()):
            plain = [text for key, text in part if upto is None or key < upto]
            change, count = _plus(change, amounts.total_plain(plain)), count + len(plain)
            if len(part) == PORTION:
                yield
        for portion in in_parts(parsed.items()):
            wide = [number for key, number in portion if upto is None or key < upto]
            change, count = _plus(change, amounts.total_wide(wide)), count + len(wide)
            if len(portion) == PORTION:
                yield
        for merged in in_parts(named_by(net)):
            below = (key for key in merged if upto is None or key < upto)
            shown = (texts.get(key, parsed.get(key)) for key in below)
            named = [Decimal(each, amounts.EXACT) for each in shown if each is not None]
            change = _plus(change, amounts.total_wide(named).copy_negate())
            count -= len(named)
            if len(merged) == PORTION:
                yield
        return Subtotal(stamp, change, count, (yield from self._moved(before, net, upto)))

    def _moved(
        self, before: Subtotal, net: NetChange | None, upto: str | None
    ) -> Portions[books.Accounts | None]:
        """Return the accounts of `before` with the legs below a sort key that this net lacks."""
        if self.legs is None:
            return None
        found, named, moved = books.AccountSums(), {*named_by(net)}, 0
        found.add(before.accounts or {})
        for part in in_parts(self.legs.items()):
            for key, legs in part:
                if (upto is None or key < upto) and key not in named:
                    found.move(legs)
                    moved += len(legs)
                if moved >= LEGS_PORTION:
                    moved = 0
                    yield
            if len(part) == PORTION:
                yield
        return found.running()


def collect(items: Iterable[Item]) -> Collection:
    """Return the collection of these items."""
    collection = Collection()
    collection.add(list(items))
    return collection


def named_by(net: NetChange | None) -> tuple[str, ...]:
    """Return the sort keys of the entries that a net counts and that may still be visible."""
    return EntryIds.of(net.merged).sort_keys if net else ()


def at_once(work: Portions[Result]) -> Result:
    """Return the result of a calculation whose portions follow one another."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return cast("Result", end.value)


def in_parts(items: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield these in order, at most `PORTION` at a time."""
    left = iter(items)
    while part := list(islice(left, PORTION)):
        yield part


def _from_the_last(changes: dict[str, Any]) -> Iterator[list[str]]:
    """Yield the keys of a dictionary, at most `PORTION` at a time; they may be removed meanwhile.

    None is kept, since to give up very many at once takes long.
    """
    left = [*changes]
    while left:
        part = left[-PORTION:]
        del left[-PORTION:]
        yield part


def _plus(one: Decimal, other: Decimal) -> Decimal:
    return amounts.EXACT.add(one, other)


def _is_same(one: str, other: str) -> bool:
    return one == other or amounts.of_text(one) == amounts.of_text(other)


def is_alike(one: Item, other: Item) -> bool:
    """Return whether two regions show an entry alike: its change, and all else that it says."""
    return number_of(one, "change") == number_of(other, "change") and _said(one) == _said(other)


def _said(item: Item | None) -> Item | None:
    """Return an entry's attributes other than its change, which is compared as a number."""
    return item and {name: value for name, value in item.items() if name not in _NOT_COMPARED}


def is_entry(item: Item) -> bool:
    """Return whether an item that is no sum is an entry; a foreign one is if it has a change."""
    sort_key = item["sk"]["S"]
    if sort_key.startswith(keys.NET_PREFIX):
        return False
    return "change" in item or ids.parse(sort_key) is not None


def _sort_key(item: Item) -> str:
    return str(item["sk"]["S"])


def _plain_texts(items: Iterable[Item]) -> dict[str, str] | None:
    """Return the text of each item's change by its sort key; None if one is not plain."""
    try:
        texts = {item["sk"]["S"]: item["change"]["N"] for item in items}
        return texts if amounts.are_plain(texts.values()) else None
    except (KeyError, TypeError):
        return None
