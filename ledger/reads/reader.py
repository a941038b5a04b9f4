"""Reading totals: the sum over every shard of a counter, each a collection of its own."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from ledger.core import amounts, books, keys
from ledger.core.entry import entry_id
from ledger.core.errors import AmountOverflow, ReadTooSlow
from ledger.core.fold import Collection, Portions
from ledger.core.periods import rule_of
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.collection import Base, CollectionRead, ReadBounds, read_collection, read_net
from ledger.reads.past_totals import moment_of, read_part_before
from ledger.reads.period_totals import (
    CheckedPeriodQuery,
    PeriodQuery,
    PeriodTotals,
    asked_of,
    period_totals,
)
from ledger.reads.seen_nets import SeenNets
from ledger.reads.total import Total
from ledger.runtime.call_deadlines import bounded, deadline_of
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.services import Services
from ledger.runtime.tasks import in_portions, run_all
from ledger.runtime.validity import signed_within
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store

SHARDS_AT_ONCE = 16
COUNTERS_AT_ONCE = 16
"""Counters of one look that are read concurrently."""
READ_SECONDS_MIN = 15.0
"""How long a read of a total may take, unless `read_deadline`, the time for one try, is longer."""
LOOKS_MAX = 1_000
"""Looks of one steady read, however short they are."""
COUNTERS_NAMED_MAX = 3
PERIOD_KEYS_MAX = 1_000_000
"""The most unmerged entries of a shard whose sums by period are read: about 200 MB."""


def read_seconds(settings: Settings) -> float:
    """Return within how many seconds a read of a total ends, answered or not."""
    return max(READ_SECONDS_MIN, settings.read_deadline)


class Reader:
    """Reads totals in one region."""

    def __init__(self, store: Store, *, settings: LiveSettings, services: Services) -> None:
        self._store = store
        self._settings = settings
        self._clock = services.clock
        self._metrics = services.metrics
        self._bases = Bases(settings.current.cache.counters_max)
        self._seen = SeenNets()

    async def steady_totals(self, counters: Sequence[str]) -> dict[str, Total]:
        """Return totals that were true at one moment: two looks in a row showed the same.

        Each look reads all counters, strongly consistent. A change that is counted stays counted,
        so looks that count equally many count the same ones; the second look saw nothing that came
        after the first one ended. Merging in the meantime changes neither.

        Raises:
            ReadTooSlow: no two looks in a row agreed within `read_deadline`.
            And as `total`.
        """
        if not counters:
            return {}
        started = self._clock.monotonic()
        before: dict[str, Total] = {}
        reads = [partial(self.total, counter, consistent=True) for counter in counters]
        looks = 0
        while looks < LOOKS_MAX and self._clock.monotonic() - started <= self._deadline:
            found = dict(zip(counters, await run_all(reads, at_once=COUNTERS_AT_ONCE), strict=True))
            looks += 1
            if before and all(_agree(before[name], found[name]) for name in counters):
                begun = max(total.ended for total in before.values())
                ended = min(total.as_of for total in found.values())
                return {
                    name: replace(one, as_of=begun, ended=ended, steady=True)
                    for name, one in found.items()
                }
            before = found
        raise ReadTooSlow(
            f"no two of {looks} looks at {_listed(counters)} in {self._store.region} agreed within"
            f" read_deadline ({self._deadline:g} s): too much is written for a steady total"
        )

    async def total_in_time(self, counter: str) -> Total:
        """Return a counter's total, however many requests, and repeats of them, that takes.

        Raises:
            ReadTooSlow: it took longer than `read_seconds`.
            And as `total`.
        """
        seconds = read_seconds(self._settings.current)
        late = partial(ReadTooSlow, f"{counter!r} was not read within {seconds:g} s")
        return await bounded(deadline_of(seconds), self.total(counter), late)

    async def total(self, counter: str, *, consistent: bool | None = None) -> Total:
        """Return a counter's total, read now from every shard.

        `consistent` is by default as in the settings.

        Raises:
            ContractStale: the process was suspended so long that its settings may be outdated.
            ReadTooSlow: no read of a shard finished within `read_deadline`.
            DamagedItem: an item cannot be counted, or a net does not belong to this table.
            NetVanished: a net that was read before is gone, or counts less.
            AmountOverflow: the sum does not fit in 38 digits.
        """
        elapsed = ElapsedTime(self._clock)
        as_of, started = elapsed.at, elapsed.last
        settings = self._settings.current
        is_consistent = settings.consistent_reads if consistent is None else consistent
        with signed_within(self._settings.validity, self._clock):
            if settings.shards_max(counter) == 1:
                one = self._shard(counter, settings, consistent=is_consistent, elapsed=elapsed)
                reads = [await one]  # which read the clock after its last page
            else:
                reads = await self._shards(counter, settings, consistent=is_consistent)
                elapsed.seconds()
        sums = _Sums()
        for read in reads:
            await in_portions(sums.add(read))
        self._metrics.read(
            self._store.region,
            pages=sums.pages,
            restarts=sums.restarts,
            seconds=elapsed.last - started,
        )
        return Total(
            counter=counter,
            value=_value(counter, sums.changes),
            as_of=as_of,
            region=self._store.region,
            entries=sums.entries,
            merged=sums.merged,
            versions=tuple(sums.versions),
            ended=elapsed.at,
            additions=sums.additions,
            accounts=_accounts(counter, sums.accounts),
        )

    async def periods(
        self, counters: Sequence[str], asking: PeriodQuery
    ) -> dict[str, PeriodTotals]:
        """Return sums by period of counters, read now.

        Raises:
            InvalidInput: they are not kept, or not so far back, or too many are asked for.
            And as `_periods_of`.
        """
        rules = self._settings.current.terms.periods
        asked = [
            asked_of(counter, rule_of(rules, counter), asking)
            for counter in dict.fromkeys(counters)
        ]
        reads = [partial(self._periods_of, wanted) for wanted in asked]
        found = await run_all(reads, at_once=COUNTERS_AT_ONCE)
        return {totals.counter: totals for totals in found}

    async def _periods_of(self, asked: CheckedPeriodQuery) -> PeriodTotals:
        """Return sums by period, read now from every shard.

        Raises:
            InvalidInput: they are not kept so far back, or too many are asked for.
            And as `_timed`.
        """
        as_of, collections = await self._timed(asked.counter, self._settings.current)
        sums = period_totals(asked, collections, region=self._store.region, as_of=as_of)
        return await in_portions(sums)

    async def _timed(self, counter: str, settings: Settings) -> tuple[datetime, list[Collection]]:
        """Return a counter's collections with the times of their entries, and when they were read.

        Raises:
            ReadTooSlow: over `PERIOD_KEYS_MAX` entries of a shard are not merged.
            And as `total`.
        """
        as_of = self._clock.now()
        with signed_within(self._settings.validity, self._clock):
            reads = await self._shards(
                counter, settings, consistent=settings.consistent_reads, with_times=True
            )
        collections = [read.collection for read in reads]
        if any(collection.below is not None for collection in collections):
            raise ReadTooSlow(
                f"a collection of {counter!r} in {self._store.region} has over"
                f" {PERIOD_KEYS_MAX:,} entries that are not merged: its sums by period, and totals"
                " at a moment, can be read once it is (`compactor run`)"
            )
        return as_of, collections

    async def total_before(
        self, counter: str, at: object, *, effective: bool, archive: ArchiveReader | None
    ) -> Total:
        """Return a counter's total of what was made, or is effective, before a moment.

        Raises:
            InvalidInput: `at` is not a moment; or the entries merged since cannot be distinguished.
            ArchiveError: the archive cannot be read.
            And as `_timed`.
        """
        settings = self._settings.current
        rule = rule_of(settings.terms.periods, counter)
        moment = moment_of(at, effective=effective, zone=rule.zone if rule else "UTC")
        as_of, collections = await self._timed(counter, settings)
        parts = [
            await read_part_before(moment, keys.partition_key(counter, shard), collection, archive)
            for shard, collection in enumerate(collections)
        ]
        return Total(
            counter=counter,
            value=_value(counter, (part.change for part in parts)),
            as_of=as_of,
            region=self._store.region,
            entries=sum(part.entries for part in parts),
            merged=sum(part.merged for part in parts),
            ended=self._clock.now(),
            at=moment.at,
            accounts=_accounts(
                counter,
                _of_shards([part.accounts for part in parts if part.accounts is not None]),
            ),
        )

    @property
    def _deadline(self) -> float:
        return self._settings.current.read_deadline

    async def _shards(
        self, counter: str, settings: Settings, *, consistent: bool, with_times: bool = False
    ) -> list[CollectionRead]:
        shards = settings.shards_max(counter)
        partitions = [keys.partition_key(counter, shard) for shard in range(shards)]
        return await run_all(
            [
                partial(
                    self._shard, partition, settings, consistent=consistent, with_times=with_times
                )
                for partition in partitions
            ],
            at_once=SHARDS_AT_ONCE,
        )

    async def _shard(
        self,
        partition: str,
        settings: Settings,
        *,
        consistent: bool,
        with_times: bool = False,
        elapsed: ElapsedTime | None = None,
    ) -> CollectionRead:
        """Read a shard, and compare its net with what was seen of it earlier.

        `with_times` keeps the sort key, and so the time, of each entry, and its date.

        Raises:
            NetVanished: the net is gone, or counts less.
        """
        before = self._seen.of(self._store.region, partition)
        continues = not with_times and settings.cache.incremental and self._is_clock_right(settings)
        found = await read_collection(
            self._store,
            partition,
            ElapsedTime(self._clock) if elapsed is None else elapsed,
            ReadBounds.of(settings, keys_max=PERIOD_KEYS_MAX if with_times else None),
            consistent=consistent,
            base=self._bases.get(partition) if continues else None,
            border=self._border(settings) if continues else None,
            with_dates=with_times,
        )
        if continues:
            self._bases.keep(partition, found.base)
        net = found.collection.net
        if not consistent and not self._seen.is_whole(net, before):
            # A replica that is behind cannot judge.
            net = await read_net(self._store, partition, terms=settings.terms)
        self._seen.look(self._store.region, partition, net, before)
        return found

    def _is_clock_right(self, settings: Settings) -> bool:
        """Return whether the clock is not known to be off; if it is, nothing counts as settled."""
        offset = self._store.clock_offset
        return offset is None or not offset.is_beyond(settings.clock_skew)

    def _border(self, settings: Settings) -> str:
        """Return the sort key below which no new entry can appear in this region."""
        settled = self._clock.now() - timedelta(seconds=settings.settle)
        return str(entry_id(settled, 0))


class _Sums:
    """The sums of one counter's reads, added up shard by shard."""

    __slots__ = (
        *("accounts", "additions", "changes", "entries", "merged"),
        *("pages", "restarts", "versions"),
    )

    def __init__(self) -> None:
        self.accounts: books.AccountSums | None = None
        self.changes: list[Decimal] = []
        self.versions: list[str] = []
        self.entries = self.merged = self.additions = self.pages = self.restarts = 0

    def add(self, read: CollectionRead) -> Portions[None]:
        """Add a shard, whose entries are given up."""
        collection = read.collection
        self.pages += read.pages
        self.restarts += read.restarts
        net = collection.net
        left = yield from collection.condense(net)
        self.entries += left.entries
        self.changes.append(left.change)
        if collection.legs is not None:
            self.accounts = self.accounts or books.AccountSums()
            self.accounts.add(left.accounts or {})
            yield  # of a large book each step takes some 20 ms
            of_net = books.accounts_of(net)
            yield
            self.accounts.add(of_net)
            yield
        if net is not None:
            self.merged += net.count
            self.changes.append(net.change)
            self.versions.append(net.version)
        if collection.sums:
            self.additions += collection.additions
            self.changes.append(collection.added)


def _of_shards(shown: Sequence[books.Accounts]) -> books.AccountSums | None:
    """Return what balances of shards come to; None if there are none."""
    if not shown:
        return None
    balances = books.AccountSums()
    for one in shown:
        balances.add(one)
    return balances


def _accounts(book: str, balances: books.AccountSums | None) -> books.Accounts | None:
    """Return the balances of a book; None of another counter.

    Raises:
        AmountOverflow: one does not fit in 38 digits; the message names book, asset and account.
    """
    try:
        return None if balances is None else balances.accounts()
    except AmountOverflow as error:
        raise AmountOverflow(f"book {book!r}: {error}") from None


def _agree(one: Total, other: Total) -> bool:
    return (one.value, one.changes) == (other.value, other.changes)


def _listed(counters: Sequence[str]) -> str:
    more = len(counters) - COUNTERS_NAMED_MAX
    named = ", ".join(map(repr, counters[:COUNTERS_NAMED_MAX]))
    return f"{named} and {more} more" if more > 0 else named


def _value(counter: str, changes: Iterable[Decimal]) -> Decimal:
    try:
        return amounts.total(changes)
    except AmountOverflow as error:
        raise AmountOverflow(
            f"total of {counter!r}: {error}; its history shows the change that is wrong: reverse it"
        ) from None


class Bases:
    """Where later reads can continue, by partition; the least recently used are evicted first."""

    def __init__(self, partitions_max: int) -> None:
        self._partitions_max = partitions_max
        self._bases: OrderedDict[str, Base] = OrderedDict()

    def get(self, partition: str) -> Base | None:
        """Return the base of a collection; None if there is none."""
        return self._bases.get(partition)

    def keep(self, partition: str, base: Base | None) -> None:
        """Replace the base of a collection by that of the latest read."""
        if base is None:
            self._bases.pop(partition, None)
            return
        self._bases[partition] = base
        self._bases.move_to_end(partition)
        while len(self._bases) > self._partitions_max:
            self._bases.popitem(last=False)
