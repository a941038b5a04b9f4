"""Problems of a collection, from what all regions show of it.

Entries older than `settle` must be everywhere and identical, except those that a net names, which
may be deleted region by region. The sums that regions count of them must be equal. Sums of
pipelines may be behind in a region, but one version of a sum has one value.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from decimal import Decimal

from ledger.core import amounts, books, ids, keys
from ledger.core.entry import Item, damaged, entry_of, legs_of, net_of, number_of
from ledger.core.errors import AmountOverflow, DamagedItem
from ledger.core.fold import named_by, stamp_of
from ledger.core.parts import checked_item
from ledger.core.sums import SUM_PREFIX, sum_of
from ledger.core.values import Entry, NetChange


@dataclass(frozen=True, slots=True)
class CollectionFinding:
    """A finding of a verification: what, and where.

    `kind` is "damaged" (an item that cannot be counted), "missing" (an entry that some regions do
    not show), "differs" (an entry that differs between regions), "total" (regions with different
    sums), "accounts" (regions with different balances of a book), "home" (a net that names no
    region of the table), "generation" (a net that no home of the table wrote); or, harmless by
    itself, "foreign", "ignored" or "busy" (it changed while it was read, so it is not compared).
    """

    kind: str
    partition: str
    regions: tuple[str, ...]
    text: str
    sort_key: str | None = None

    @property
    def is_damage(self) -> bool:
        """Whether totals are, or may become, wrong or unreadable."""
        return self.kind not in {"foreign", "ignored", "busy"}

    @property
    def counter(self) -> str:
        """The counter that the collection is a shard of."""
        place = keys.counter_of(self.partition)
        return place[0] if place else self.partition


@dataclass(slots=True)
class RegionComparison:
    """One collection, compared item by item in the order of sort keys.

    `nets` has each region's net, None if missing, as it was read before the items; `settled` is the
    sort key up to which entries are old enough to be everywhere. If an item cannot be read, sums
    are not compared, and without its net no entry is known to be missing.
    """

    partition: str
    nets: Mapping[str, NetChange | None]
    settled: str
    has_every_net: bool = True
    foreign: int = 0
    ignored: int = 0
    items: int = 0
    _is_damaged: bool = False
    _named: frozenset[str] = field(init=False)
    _by_region: dict[str, frozenset[str]] = field(init=False)
    _sums: dict[str, Decimal] = field(init=False)
    _balances: dict[str, books.AccountSums] = field(init=False)

    def __post_init__(self) -> None:
        self._by_region = {region: frozenset(named_by(net)) for region, net in self.nets.items()}
        self._named = frozenset[str]().union(*self._by_region.values())
        self._sums = {
            region: net.change if net else Decimal(0) for region, net in self.nets.items()
        }
        self._balances = {region: books.AccountSums() for region in self.nets}
        for region, net in self.nets.items():
            with suppress(DamagedItem):  # reported with the net
                self._balances[region].add(books.accounts_of(net))

    def take(self, sort_key: str, shown: Mapping[str, Item | None]) -> list[CollectionFinding]:
        """Record what each region shows under a sort key, and return what is wrong there."""
        self.items += 1
        if not any(shown.values()):
            return []  # deleted everywhere meanwhile
        if sort_key.startswith(keys.NET_PREFIX):
            return self._damaged(sort_key, shown)
        if sort_key.startswith(SUM_PREFIX):
            return self._damaged(sort_key, shown) or self._unlike_sums(sort_key, shown)
        if ids.parse(sort_key) is None:
            return self._take_foreign(sort_key, shown)
        found = self._damaged(sort_key, shown) or self._unlike(sort_key, shown)
        self._add(sort_key, shown)
        return found

    def end(self, regions: Iterable[str], generation: int) -> list[CollectionFinding]:
        """Return what is wrong with the collection as a whole, by the contract's generation."""
        known = set(regions)
        found = [
            CollectionFinding("home", self.partition, (region,), f"names {net.home} as the home")
            for region, net in self.nets.items()
            if net is not None and net.home not in known
        ]
        found += [
            CollectionFinding(
                "generation",
                self.partition,
                (region,),
                f"has a net of generation {net.generation}, which alone counts, but the table's"
                f" contract is of {generation}: none of its homes wrote it",
                keys.net_sort_key(net.generation),
            )
            for region, net in self.nets.items()
            if net is not None and net.generation > generation
        ]
        if self.has_every_net and not self._is_damaged and len(set(self._sums.values())) > 1:
            sums = ", ".join(f"{name} {one}" for name, one in self._sums.items())
            text = f"the regions count different sums of settled entries: {sums}"
            found.append(CollectionFinding("total", self.partition, tuple(self._sums), text))
        if self.has_every_net and not self._is_damaged:
            found += self._unlike_accounts()
        for kind, number, text in (
            ("foreign", self.foreign, "items of another form are counted, and never merged"),
            ("ignored", self.ignored, "items without a change are not part of the total"),
        ):
            if number:
                everywhere = tuple(self.nets)
                found.append(
                    CollectionFinding(kind, self.partition, everywhere, f"{number:,} {text}")
                )
        return found

    def _unlike_accounts(self) -> list[CollectionFinding]:
        """Compare the balances that regions come to by the settled transfers of a book."""
        regions = tuple(self._balances)
        try:
            shown = {region: one.accounts() for region, one in self._balances.items()}
        except AmountOverflow as error:
            return [CollectionFinding("damaged", self.partition, regions, str(error))]
        if not (unlike := books.unlike(shown)):
            return []
        text = f"the regions come to different balances by settled transfers: {unlike}"
        return [CollectionFinding("accounts", self.partition, regions, text)]

    def _add(self, sort_key: str, shown: Mapping[str, Item | None]) -> None:
        if sort_key > self.settled and sort_key not in self._named:
            return
        for region, item in shown.items():
            if item is not None and sort_key not in self._by_region[region]:
                try:
                    change, legs = number_of(item, "change"), legs_of(item)
                except DamagedItem:
                    continue  # already reported
                self._sums[region] = amounts.total_wide([self._sums[region], change])
                self._balances[region].move(legs)

    def _take_foreign(
        self, sort_key: str, shown: Mapping[str, Item | None]
    ) -> list[CollectionFinding]:
        if not any("change" in item for item in shown.values() if item is not None):
            self.ignored += 1
            return []
        self.foreign += 1
        return self._damaged(sort_key, shown)

    def _damaged(self, sort_key: str, shown: Mapping[str, Item | None]) -> list[CollectionFinding]:
        found = []
        for region, item in shown.items():
            try:
                _check(sort_key, item)
            except DamagedItem as error:
                self._is_damaged = True
                found.append(
                    CollectionFinding("damaged", self.partition, (region,), str(error), sort_key)
                )
        return found

    def _unlike_sums(
        self, sort_key: str, shown: Mapping[str, Item | None]
    ) -> list[CollectionFinding]:
        """Compare a sum: versions may differ while replicating, but one version has one value."""
        sums = {name: sum_of(item)[2] for name, item in shown.items() if item is not None}
        if len(set(sums.values())) == len({each.version for each in sums.values()}):
            return []
        values = ", ".join(
            f"{name} {amounts.to_text(each.value)} at version {each.version}"
            for name, each in sums.items()
        )
        text = f"one version of a sum has different values, as if two regions wrote it: {values}"
        return [CollectionFinding("differs", self.partition, tuple(sums), text, sort_key)]

    def _unlike(self, sort_key: str, shown: Mapping[str, Item | None]) -> list[CollectionFinding]:
        if sort_key > self.settled or sort_key in self._named:
            return []
        if not self.has_every_net:
            return []
        missing = tuple(region for region, item in shown.items() if item is None)
        if missing:
            text = "older than settle, and not shown there: replication is behind, or it was lost"
            return [CollectionFinding("missing", self.partition, missing, text, sort_key)]
        entries = {region: entry_of(item) for region, item in shown.items() if item is not None}
        if differing := "; ".join(_differing(entries)):
            text = f"older than settle, and different: {differing}"
            return [CollectionFinding("differs", self.partition, tuple(entries), text, sort_key)]
        return []


def have_changed(
    before: Mapping[str, NetChange | None], after: Mapping[str, NetChange | None]
) -> bool:
    """Return whether any region shows another net than before."""
    return any(stamp_of(before[region]) != stamp_of(after[region]) for region in before)


def _differing(entries: Mapping[str, Entry]) -> Iterator[str]:
    """Yield each attribute in which entries differ, with what each region shows."""
    compared = [attribute.name for attribute in fields(Entry) if attribute.compare]
    for name in (*compared, "parts"):
        values = {region: getattr(entry, name) for region, entry in entries.items()}
        first, *others = values.values()
        if any(value != first for value in others):
            shown = ", ".join(f"{region} {_text(value)}" for region, value in values.items())
            yield f"{name}: {shown}"


def _text(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, Decimal):
        return amounts.to_text(value)
    return repr(value) if isinstance(value, str) else str(value)


def _check(sort_key: str, item: Item | None) -> None:
    """Check that an item can be read.

    Raises:
        DamagedItem: it cannot.
    """
    if item is None:
        return
    if sort_key.startswith(keys.NET_PREFIX):
        if said := books.unbalanced(books.accounts_of(net_of(item))):
            raise damaged(item, f"the balances of each asset must sum to 0, got {said}")
    elif sort_key.startswith(SUM_PREFIX):
        sum_of(item)
    elif ids.parse(sort_key) is not None:
        checked_item(entry_of(item))
    elif "change" in item:
        number_of(item, "change")
