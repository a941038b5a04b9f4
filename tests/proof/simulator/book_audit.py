"""What must hold of books, judged by a decoding of its own.

- P1, P6: after every step each collection, as a region shows it, has the balances of exactly the
  transfers that have reached the region, each once, and each asset sums to 0. Every read has the
  balances of all that had reached the region when it began (less its staleness), and of nothing
  that had not when it ended. One at a moment has those of what was made before that.
- P2, P4 at rest: all regions show the same, as one item per collection. Where a net has little room
  the oldest entry that is left would not fit, nor does one that opens no account.
- P3: what was acknowledged is there; what was refused is not, ever. A transfer is reversed once.
- A balance of 0 is not kept, and no net has more bytes of balances than the bound.
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ledger.core import keys
from ledger.core.entry import Item
from ledger.core.values import Entry
from ledger.reads.balances import Balances
from proof.simulator.book_plan import ALL, BOOKS, FORGED, STRANGE, TAGS, Amounts, added, moved

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BOUND = 200 * 1024
_NUMBERS = 38
_ID = 44
"""Characters of an item's id; that of a transfer that shares the item goes on."""
Tables = Mapping[str, Mapping[str, Mapping[str, Item]]]
Change = tuple[int, bool]
"""The number of a transfer, and whether it is its reversal."""


@dataclass(frozen=True, slots=True)
class PendingBookRead:
    """A read in flight, and the changes that it must count at least; `before` if at a moment."""

    region: str
    book: str
    least: frozenset[Change]
    before: datetime | None = None


@dataclass
class BookAudit:
    """The audit of one world's books; `lost` are the regions of which nothing is promised."""

    fail: Callable[[str, str], None]
    lost: AbstractSet[str]
    now: Callable[[], float]
    bytes_max: int = 0
    fold_max: int | None = None
    """How many of the oldest entries that wait a visit looks at."""
    reads: int = 0
    _shown: dict[tuple[str, str], dict[str, Amounts]] = field(default_factory=dict)
    _reached: dict[tuple[str, str], dict[Change, float]] = field(default_factory=dict)
    _made: dict[tuple[str, Change], str] = field(default_factory=dict)
    _twins: set[tuple[str, int]] = field(default_factory=set)
    _refused: set[tuple[str, int]] = field(default_factory=set)

    def has(self, counter: str) -> bool:
        """Return whether a counter is judged here, or its reads alone."""
        return counter in BOOKS or counter in {STRANGE, FORGED}

    def of_two(self, book: str, numbers: Iterable[int]) -> None:
        """Note transfers of one key, of which only one can stay."""
        self._twins.update((book, number) for number in numbers)

    # What regions show.

    def changed(self, region: str, partition: str, items: Mapping[str, Item]) -> None:
        """Register what a region shows, and check that it is what it has shown, each once."""
        place = keys.counter_of(partition)
        if place is None or place[0] not in BOOKS:
            return
        shown = self._shown.setdefault((region, partition), {})
        balances, named = list[Amounts](), frozenset[bytes]()
        nets = [sort_key for sort_key, item in items.items() if "merged" in item]
        if nets:
            net = items[max(nets)]
            packed = net["merged"]["B"]
            named = frozenset(packed[at : at + 16] for at in range(0, len(packed), 16))
            balances.append(self._kept(region, partition, net))
        for sort_key, item in items.items():
            if "merged" not in item and _packed(sort_key) not in named:
                legs = _legs(item)
                if sort_key not in shown or shown[sort_key] != legs:
                    self._register(region, place[0], sort_key, item)
                shown[sort_key] = legs
                balances.append(legs)
        found, expected = added(balances), added([*shown.values()])
        if found != expected:
            self.fail("P1", f"{region} shows {partition} as {found}, and {expected} has reached it")

    def _kept(self, region: str, partition: str, net: Item) -> Amounts:
        """Return the balances of a net, as they are in its attribute."""
        data = net["accounts"]["B"] if "accounts" in net else b""
        kept = _unpacked(data) if data else {}
        if int(net["change"]["N"]):
            self.fail("P1", f"{region} shows {partition} with a change of {net['change']}")
        if 0 in kept.values():
            self.fail("P1", f"{region} shows {partition} with a balance of 0: {kept}")
        if len(data) > (self.bytes_max or _BOUND):
            self.fail("bound", f"{region} shows {partition} with {len(data)} bytes of balances")
        return kept

    def _register(self, region: str, book: str, sort_key: str, item: Item) -> None:
        listed = _transfers(item)
        if len(listed) != int(item.get("count", {"N": "1"})["N"]):
            self.fail("P1", f"{region} is shown {sort_key} of {book}: it has {listed}: {item}")
        for place, legs in enumerate(listed):
            name = f"{sort_key}.{place:03d}" if "B" in item["legs"] else sort_key
            self._register_one(region, book, name, item, legs)

    def _register_one(
        self, region: str, book: str, sort_key: str, item: Item, legs: Amounts
    ) -> None:
        change = _change_of(book, legs)
        if change is None or int(item["change"]["N"]):
            self.fail("P1", f"{region} is shown {sort_key} of {book}: nobody made it: {item}")
            return
        self._reached.setdefault((region, book), {}).setdefault(change, self.now())
        first = self._made.setdefault((book, change), sort_key)
        if first != sort_key:
            self.fail("once", f"{region} is shown {first} and {sort_key}, both {change} of {book}")
        number, is_reversal = change
        original = self._made.get((book, (number, False)))
        if is_reversal and item.get("reverses") != {"S": original}:
            self.fail("once", f"{sort_key} reverses {item.get('reverses')}, and not {original}")

    # What callers are told.

    def confirmed(self, region: str, entries: Sequence[Entry]) -> None:
        """Check that transfers are durable, as they are, in the region that acknowledges them."""
        for entry in entries:
            legs = _said(entry)
            change = _change_of(entry.counter, legs)
            reached = self._reached.get((region, entry.counter), {})
            if change is None or change not in reached:
                self.fail("P3", f"{region} acknowledges {entry}: it is not there")
            elif self._made[entry.counter, change] != entry.id:
                self.fail("P3", f"{region} acknowledges {change} under the id of another: {entry}")

    def refused(self, transfers: Iterable[tuple[str, int]]) -> None:
        """Register transfers that a call reported as not written; checked at rest."""
        self._refused.update(transfers)

    def never_applied(self, entry: Entry) -> None:
        """Register an entry of which it is said that it never was, and never will be, there."""
        change = _change_of(entry.counter, _said(entry))
        if change is not None and not change[1]:
            self.refused([(entry.counter, change[0])])

    def read_begins(
        self, region: str, book: str, *, staleness: float, before: datetime | None = None
    ) -> PendingBookRead:
        """Register the beginning of a read that may be so many seconds stale."""
        latest = self.now() - staleness
        reached = self._reached.get((region, book), {})
        least = frozenset(
            change
            for change, at in reached.items()
            if at <= latest and (book, change[0]) not in self._twins
        )
        return PendingBookRead(region, book, least, before)

    def read_ended(self, read: PendingBookRead, found: Balances, reader: str) -> None:
        """Check the result of a read."""
        self.reads += 1
        who = f"{reader} reads {read.book} in {read.region} (before {read.before})"
        shown = {
            (asset, account): int(amount)
            for asset, by_account in found.assets.items()
            for account, amount in by_account.items()
        }
        if wrong := [asset for asset in found.assets if found.total(asset)]:
            self.fail("P6", f"{who}: {wrong[0]} does not sum to 0: {shown}")
        if read.book not in BOOKS:
            return
        counted = _digits(shown.get((TAGS, ALL), 0))
        least, most = self._bounds(read)
        for number in range(_NUMBERS):
            there, back = (number, False), (number, True)
            low = (there in least) - (back in most)
            high = (there in most) - (back in least)
            if not low <= counted.get(number, 0) <= high:
                self.fail(
                    "P1", f"{who}: {number} counts {counted.get(number, 0)} times, not {low}-{high}"
                )
                return
        expected = added([_times(moved(read.book, number), n) for number, n in counted.items()])
        if shown != expected:
            self.fail("P1", f"{who} as {shown}: {counted} are {expected}")
            return
        few, many = (
            len({self._made[read.book, change][:_ID] for change in changes})
            for changes in (least, most)
        )
        if not few <= found.transfers <= many:
            self.fail("P1", f"{who}: {found.transfers} items of transfers, not {few}-{many}")

    def history_read(
        self, read: PendingBookRead, entries: Sequence[Entry], reader: str, *, is_whole: bool
    ) -> None:
        """Check a history: each transfer once, as it was made; all of them if it `is_whole`."""
        who = f"{reader} reads the history of {read.book} in {read.region}"
        least, most = self._bounds(read)
        found = [_change_of(read.book, _said(entry)) for entry in entries]
        for entry, change in zip(entries, found, strict=True):
            if change is None or change not in most:
                self.fail("P1", f"{who}: {entry} has not reached it")
            elif self._made[read.book, change] != entry.id:
                self.fail("P1", f"{who}: {entry} is {self._made[read.book, change]}")
            elif not change[1] and (entry.metadata is None) != (len(entry.id) > _ID):
                self.fail("P1", f"{who}: {entry} has lost its metadata, or has another's")
            elif not change[1] and entry.metadata not in (None, {"number": str(change[0])}):
                self.fail("P1", f"{who}: {entry} has other metadata")
        if len({*found}) != len(found) or (is_whole and least - {*found}):
            self.fail("P1", f"{who}: {found}, and {sorted(least)} had reached it")

    def _bounds(self, read: PendingBookRead) -> tuple[AbstractSet[Change], AbstractSet[Change]]:
        """Return what a read must count, and what it may."""
        least, most = read.least, {*self._reached.get((read.region, read.book), {})}
        if read.before is not None:
            early = {
                change
                for change in most
                if _microseconds(self._made[read.book, change])
                < (read.before - _EPOCH) // timedelta(microseconds=1)
            }
            least, most = least & early, most & early
        return least, most

    # At rest.

    def is_small(self, tables: Tables) -> bool:
        """Return whether all is merged in every region that is not lost, or would not fit."""
        return not any(
            self._may_be_merged(items)
            for table in tables.values()
            for partition, items in table.items()
            if (keys.counter_of(partition) or ("",))[0] in BOOKS
        )

    def _may_be_merged(self, items: Mapping[str, Item]) -> bool:
        nets = [sort_key for sort_key, item in items.items() if "merged" in item]
        left = sorted(sort_key for sort_key, item in items.items() if "merged" not in item)
        if len(nets) > 1:
            return True
        if not left or not self.bytes_max:
            return bool(left)
        net = items[nets[0]] if nets else {}
        if any(_packed(sort_key) in net.get("merged", {"B": b""})["B"] for sort_key in left):
            return True
        kept = _unpacked(net["accounts"]["B"]) if "accounts" in net else Amounts()
        waiting = [_legs(items[sort_key]) for sort_key in left[: self.fold_max]]
        opening_none = [legs for legs in waiting if legs.keys() <= kept.keys()]
        first = [*opening_none, *waiting][0]
        return len(_pack(added([kept, first]))) <= self.bytes_max

    def check_rest(self, tables: Tables) -> None:
        """Check what must hold once everything has arrived and been merged."""
        for (region, partition), shown in sorted(self._shown.items()):
            for other in tables:
                there = self._shown.get((other, partition), {})
                if region not in self.lost and there != shown:
                    self.fail("P2", f"{region} and {other} differ in {partition}")
        for (region, book), reached in self._reached.items():
            for number in (n for name, n in self._refused if name == book):
                if (number, False) in reached:
                    self.fail("P3", f"{number} of {book} was refused, and {region} shows it")
        if not self.is_small(tables):
            self.fail("P4", "a transfer that fits is not merged")


def _change_of(book: str, legs: Amounts) -> Change | None:
    """Return which transfer these legs are of, all of them; None if of none."""
    tag = legs.get((TAGS, ALL), 0)
    number = len(str(abs(tag))) - 1
    sign = 1 if tag > 0 else -1
    return (number, sign < 0) if legs == _times(moved(book, number), sign) else None


def _times(amounts: Amounts, factor: int) -> Amounts:
    return {place: amount * factor for place, amount in amounts.items()}


def _digits(value: int) -> dict[int, int]:
    """Return how often each power of ten is counted; less than 0 if it is taken back."""
    found, number = dict[int, int](), 0
    while value:
        digit = (value + 4) % 10 - 4
        if digit:
            found[number] = digit
        value, number = (value - digit) // 10, number + 1
    return found


def _legs(item: Item) -> Amounts:
    return added(_transfers(item))


def _transfers(item: Item) -> list[Amounts]:
    """Return what each transfer of an item moves."""
    legs = item.get("legs", {"M": {}})
    if "B" in legs:
        return [_by_place(one) for one in json.loads(zlib.decompress(legs["B"]))]
    return [
        {
            (asset, account): int(amount["N"])
            for asset, by_account in legs["M"].items()
            for account, amount in by_account["M"].items()
        }
    ]


def _said(entry: Entry) -> Amounts:
    return {(leg.asset, leg.account): int(leg.amount) for leg in entry.legs}


def _unpacked(data: bytes) -> Amounts:
    return _by_place(json.loads(zlib.decompress(data)))


def _by_place(found: Mapping[str, Mapping[str, int]]) -> Amounts:
    return {(asset, name): amount for asset, by in found.items() for name, amount in by.items()}


def _pack(amounts: Amounts) -> bytes:
    """Return balances as they would be kept."""
    by_asset = dict[str, dict[str, int]]()
    for (asset, account), amount in sorted(amounts.items()):
        by_asset.setdefault(asset, {})[account] = amount
    text = json.dumps(by_asset, ensure_ascii=False, separators=(",", ":"))
    return zlib.compress(text.encode(), 6)


def _microseconds(sort_key: str) -> int:
    at = datetime.fromisoformat(f"{sort_key[:26]}+00:00")
    return (at - _EPOCH) // timedelta(microseconds=1)


def _packed(sort_key: str) -> bytes:
    """Return how a net names an id."""
    return _microseconds(sort_key).to_bytes(8, "big") + bytes.fromhex(sort_key[28:])
