"""The costs and needs of a workload: units, dollars, shards, processes, and the first limit.

A change is written, named by a fold, and deleted; each write is charged in every region. The size
of folds follows from how often a counter changes: the compactor visits a counter once the span of
its hint is over (`settle` / 3), and folds what has settled then, if at least `fold_min` entries, or
after `fold_age` any number. The popularity of counters follows Zipf's law, with exponent `skew`.

The work of one core is measured (`lab bench`, the page beside it), on two shared cores; the
limits of DynamoDB are documented ones. Storage, backups, transfer between regions, writers' and
readers' machines and AWS's free tier are not in the dollars.

Sources: Amazon DynamoDB Developer Guide, "Best practices for designing and using partition keys
effectively" (1,000 write and 3,000 read units a second of one partition), "Quotas in Amazon
DynamoDB" (40,000 units of each kind a second of one table until more is asked for), "DynamoDB
read and write operations" (units); prices: see `Prices`.

The costs of other ways stand beside: with other choices here, and without a ledger. Dollars are at
the same prices: writes and uncached totals in all regions,
and the compactors, if there are any.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import ceil

from ledger.administration.warm_throughput import NEW_TABLE_WRITES
from ledger.core.books import ACCOUNTS_BYTES_A_FOLD, ACCOUNTS_BYTES_OPEN, LEGS_MAX
from ledger.core.errors import InvalidInput
from ledger.core.hints import SPANS_PER_SETTLE
from ledger.core.parts import PARTS_MAX
from ledger.settings import Settings
from ledger.settings.groups import SHARDS_MAX, SLICES_MAX

PARTITION_WRITES = 1_000
"""Units a second of one partition, and so of one shard of a counter."""
TABLE_WRITES = 40_000
"""Units a second of one table in one region, until the quota is raised."""
SHARD_SHARE = 0.7
"""Usable share of a partition: bursts and retries need the rest."""
WRITE_SECONDS = 1 / 75_955
"""Core seconds of a change by `record` over `lean`."""
ENTRY_SECONDS, FOLD_SECONDS = 23.9e-6, 0.95e-3
"""Core seconds to merge an entry in three regions, and per fold: from folds of 500 and of 20."""
MEASURED_REGIONS = 3
READ_SHARE = 0.3
"""The part of `ENTRY_SECONDS` for reading; it is spent in every region, the rest at home."""
PERIOD_BYTES = 5_000
"""Bytes of a net that keeps sums by period: 72 hours, 62 days and 120 months of one axis."""
ENTRY_BYTES = 110
PART_BYTES = 6
"""Bytes of a change in an entry of several: an amount of four or five digits and a space."""
TRANSFER_BYTES, LEG_BYTES, SHARED_LEG_BYTES = 92, 19, 6
"""Bytes of a transfer without its legs, and of a leg whose account has some ten characters; packed
with those of others of its item."""
ACCOUNT_BYTES = 7.6
"""Bytes of an account in a net, packed, with names such as `customer/000123`; random ones: 27."""
TRANSFER_SECONDS, ACCOUNT_SECONDS = 8.1e-6, 5.6e-6
"""Core seconds to add up a transfer, and to unpack and pack an account at a fold."""
NET_BYTES, ID_BYTES = 250, 16
UNIT_BYTES, READ_UNIT_BYTES = 1_024, 4_096
BUSY_SHARE = 0.7
"""Usable share of a core for a compactor: slices are not all alike, and loads have peaks."""
PASS_SECONDS = 25.0
"""Seconds of one visit of a collection: the hold, and the replication of a fold."""
MONTH_HOURS = 730
DAY_SECONDS = 86_400.0
_MOST = 1e15
"""Above it floats are no longer exact."""
_RANKS, _STEP = 1_000, 1.02
"""Counters computed one by one, and the growth factor of the groups that follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Dollars in us-east-1, on demand; the price of a replicated write is that of a write.

    Sources: aws.amazon.com/dynamodb/pricing/on-demand, as given in July 2025 by
    airbyte.com/data-engineering-resources/dynamodb-pricing; replicated writes
    docs.aws.amazon.com/amazondynamodb/latest/developerguide/global-tables-billing.html; a core of
    Fargate aws.amazon.com/fargate/pricing, in March 2026 by wring.co/blog/
    aws-fargate-pricing-guide.
    """

    write_million: float = 0.625
    read_million: float = 0.125
    core_hour: float = 0.04048


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Changes and uncached totals a second in all regions together, and the counters that change.

    An entry holds `combined` changes on average (`combine`); with `periods` every net keeps sums by
    hour, day and month. With `legs` the changes are transfers of so many, and the counters are
    books, each with `accounts` that have a balance.
    """

    changes: float
    counters: int
    regions: int
    skew: float = 1.0
    totals: float = 0.0
    combined: float = 1.0
    periods: bool = False
    legs: int = 0
    accounts: int = 0

    @property
    def entries(self) -> float:
        """Entries a second, in all regions together."""
        return self.changes / self.combined

    @property
    def entry_bytes(self) -> float:
        """Bytes of an entry: the only change of one is its sum."""
        if self.legs:
            leg_bytes = SHARED_LEG_BYTES * self.combined if self.combined > 1 else LEG_BYTES
            return TRANSFER_BYTES + leg_bytes * self.legs
        return ENTRY_BYTES + (PART_BYTES * self.combined if self.combined > 1 else 0.0)

    @property
    def entry_units(self) -> float:
        """Write units of an entry and of its delete."""
        return 2.0 * ceil(self.entry_bytes / UNIT_BYTES) if self.legs else 2.0

    @property
    def accounts_bytes(self) -> float:
        """Bytes of the accounts in a net; 0 without books."""
        return ACCOUNT_BYTES * self.accounts

    @property
    def net_bytes(self) -> float:
        """Bytes of a net without the ids that it names."""
        return NET_BYTES + (PERIOD_BYTES if self.periods else 0) + self.accounts_bytes

    def check(self) -> None:
        """Raise `InvalidInput` if a number is out of its range."""
        for name, value, least, most in (
            ("changes a second", self.changes, 0.0, _MOST),
            ("totals a second", self.totals, 0.0, _MOST),
            ("skew", self.skew, 0.0, _MOST),
            ("changes of an entry", self.combined, 1.0, PARTS_MAX),
            ("counters", self.counters, 1, _MOST),
            ("regions", self.regions, 1, _MOST),
            ("legs of a transfer", self.legs, 2 if self.legs or self.accounts else 0, LEGS_MAX),
            ("accounts of a book", self.accounts, 2 if self.legs else 0, _MOST),
        ):
            if not least <= value <= most:
                raise InvalidInput(f"{name} must be from {least:g} to {most:g}, got {value:g}")
        if self.legs and self.periods:
            raise InvalidInput("books have no sums by period")
        if self.legs and self.entry_bytes > max(UNIT_BYTES, TRANSFER_BYTES + LEG_BYTES * self.legs):
            raise InvalidInput(
                f"{self.combined:g} transfers of {self.legs} legs share no item: one takes a write"
                f" unit, some {UNIT_BYTES // SHARED_LEG_BYTES // self.legs} of them"
            )

    def groups(self) -> Iterator[tuple[int, float]]:
        """Yield how many counters get which rate of entries a second each, the hottest first."""
        ranks = list(_groups(self.counters))
        weights = [count * middle**-self.skew for count, middle in ranks]
        whole = sum(weights)
        for (count, _), weight in zip(ranks, weights, strict=True):
            yield count, self.entries * weight / whole / count


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit: how much of it is needed, and what helps."""

    name: str
    used: float
    limit: float
    advice: str

    @property
    def share(self) -> float:
        """How much of it is used; above 1 the workload does not fit."""
        return self.used / self.limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a workload needs; units and bytes are those of one region, dollars of all."""

    units_per_change: float
    write_units: float
    read_units: float
    entries_per_fold: float
    hottest: float
    """Entries a second of the hottest counter."""
    shards: int
    """Of the hottest counter."""
    sharded: int
    """Counters that need more than one."""
    partitions: int
    waiting_entries: float
    waiting_bytes: float
    total_read_units: float
    """Of one uncached total of the hottest counter."""
    writer_cores: float
    compactor_cores: float
    processes: int
    write_dollars: float
    read_dollars: float
    compactor_dollars: float
    limits: tuple[Limit, ...]

    @property
    def month_dollars(self) -> float:
        """Of all regions and the compactors."""
        return self.write_dollars + self.read_dollars + self.compactor_dollars


def estimate(workload: Workload, settings: Settings, prices: Prices | None = None) -> Estimate:
    """Return what a workload costs and needs under these settings.

    Raises:
        InvalidInput: a number of the workload is out of its range.
    """
    workload.check()
    prices = prices or Prices()
    groups = list(workload.groups())
    net_bytes, accounts_bytes = workload.net_bytes, workload.accounts_bytes
    of_rate = partial(_fold_of, settings=settings, accounts_bytes=accounts_bytes)
    folds = sum(count * rate / of_rate(rate) for count, rate in groups if rate)
    fold_units = sum(
        count * rate / of_rate(rate) * _fold_units(of_rate(rate), net_bytes)
        for count, rate in groups
        if rate
    )
    changes, entries, entry_bytes = workload.changes, workload.entries, workload.entry_bytes
    hint_every = settings.compactor.hint_every
    hints = 2 * min(entries / hint_every, 100.0) if hint_every else 0.0
    write_units = workload.entry_units * entries + fold_units + hints
    hottest = groups[0][1]
    a_change = workload.entry_units + _fold_units(of_rate(hottest), net_bytes) / of_rate(hottest)
    a_shard = SHARD_SHARE * PARTITION_WRITES / a_change
    a_merge = settings.compactor.fold_max / PASS_SECONDS
    rate_of_shard = min(a_shard, a_merge)
    shards = max(1, ceil(hottest / rate_of_shard))
    waits = settings.settle * (1 + 1 / SPANS_PER_SETTLE)
    waiting = entries * waits
    read_bytes = hottest / shards * waits * entry_bytes + accounts_bytes
    total_units = shards * max(1.0, ceil(read_bytes / READ_UNIT_BYTES))
    mean_total = sum(
        count
        * rate
        / entries
        * max(1.0, (rate * waits * entry_bytes + accounts_bytes) / READ_UNIT_BYTES)
        for count, rate in groups
        if entries
    )
    net_units = 1 + ceil(accounts_bytes / READ_UNIT_BYTES)
    merging_reads = entries * entry_bytes / READ_UNIT_BYTES + folds * 2 * net_units
    read_units = merging_reads + workload.totals / workload.regions * mean_total
    reading = READ_SHARE * ENTRY_SECONDS / MEASURED_REGIONS * workload.regions
    entry_seconds = (1 - READ_SHARE) * ENTRY_SECONDS + reading
    transfers = workload.combined if workload.legs else 0.0
    entry_seconds += TRANSFER_SECONDS * workload.regions * transfers
    fold_seconds = FOLD_SECONDS + ACCOUNT_SECONDS * workload.accounts
    cores = entries * entry_seconds + folds * fold_seconds
    processes = max(1, ceil(cores / BUSY_SHARE))
    month = MONTH_HOURS * 3_600 * workload.regions / 1e6
    return Estimate(
        units_per_change=write_units / changes if changes else 0.0,
        write_units=write_units,
        read_units=read_units,
        entries_per_fold=entries / folds if folds else 0.0,
        hottest=hottest,
        shards=shards,
        sharded=sum(count for count, rate in groups if rate > rate_of_shard),
        partitions=max(1, ceil(write_units / (SHARD_SHARE * PARTITION_WRITES))),
        waiting_entries=waiting,
        waiting_bytes=waiting * entry_bytes,
        total_read_units=total_units,
        writer_cores=changes * WRITE_SECONDS,
        compactor_cores=cores,
        processes=processes,
        write_dollars=write_units * month * prices.write_million,
        read_dollars=read_units * month * prices.read_million,
        compactor_dollars=processes * MONTH_HOURS * prices.core_hour,
        limits=_limits(write_units, shards, processes, accounts_bytes),
    )


def _limits(
    write_units: float, shards: int, processes: int, accounts_bytes: float
) -> tuple[Limit, ...]:
    """Return the limits, the nearest first."""
    of_book = Limit(
        name="bytes of the accounts of a book",
        used=accounts_bytes,
        limit=ACCOUNTS_BYTES_OPEN,
        advice="divide the book, by tenant or month of opening, with clearing accounts between",
    )
    found = (
        Limit(
            name="write units a second of a new table",
            used=write_units,
            limit=NEW_TABLE_WRITES,
            advice=f"`ledger table create --warm {max(ceil(write_units), NEW_TABLE_WRITES)}`, or"
            " grow over hours",
        ),
        Limit(
            name="write units a second of a table, by default",
            used=write_units,
            limit=TABLE_WRITES,
            advice="ask AWS to raise the table's quota in every region",
        ),
        Limit(
            name="shards of the hottest counter",
            used=shards,
            limit=SHARDS_MAX,
            advice="combine its changes (`ledger table set combine`), or split the counter itself",
        ),
        Limit(
            name="compactor processes, 0.7 of a core each",
            used=processes,
            limit=SLICES_MAX,
            advice="combine changes (`ledger table set combine`), or divide the counters between"
            " tables",
        ),
    )
    limits = [*found, of_book] if accounts_bytes else found
    return tuple(sorted(limits, key=lambda one: -one.share))


def _fold_of(rate: float, settings: Settings, accounts_bytes: float = 0.0) -> float:
    """Return how many entries a fold of a counter takes at this rate of changes."""
    compactor = settings.compactor
    of_size = min(accounts_bytes // ACCOUNTS_BYTES_A_FOLD, compactor.fold_max)
    least = max(compactor.fold_min, of_size)
    in_time = rate * max(compactor.fold_age, settings.settle)
    if in_time < least:
        return max(1.0, in_time)
    span = rate * settings.settle / SPANS_PER_SETTLE
    return min(max(span, least), compactor.fold_max)


def _fold_units(entries: float, net_bytes: float) -> float:
    """Return the write units of a fold, and of the one that forgets its ids."""
    forgetting = ceil(net_bytes / UNIT_BYTES)
    return ceil((net_bytes + ID_BYTES * entries) / UNIT_BYTES) + float(forgetting)


def _groups(counters: int) -> Iterator[tuple[int, float]]:
    """Yield counts of counters and the middle of their ranks, the first ones singly."""
    first = 1
    while first <= counters:
        last = first if first <= _RANKS else int(first * _STEP)
        last = min(last, counters)
        yield last - first + 1, (first * last) ** 0.5
        first = last + 1


COMBINED = 10.0
"""Changes per entry in the alternative that combines."""
TRANSACTION_UNITS = 3.03
"""Write units of a change whose entry the merging transaction deletes (`bench --cases life`)."""
TOGETHER_UNITS = 3.02
"""Write units of a change by `record_together`: two to put it, one to delete it, and its part of
large folds."""
KEPT_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way: write units of a change in each region, dollars a month, and what it means."""

    name: str
    units_per_change: float
    month_dollars: float
    means: str


def estimate_alternatives(
    workload: Workload, settings: Settings, prices: Prices | None = None
) -> tuple[Alternative, ...]:
    """Return other choices of the ledger that the workload has not made, then other ways to count.

    Raises:
        InvalidInput: a number of the workload is out of its range.
    """
    prices = prices or Prices()
    workload.check()
    if not workload.changes:
        return ()
    if workload.legs:
        return (_of_counters(workload, prices),)
    return (*_choices(workload, settings, prices), *_others(workload, prices))


def _of_counters(workload: Workload, prices: Prices) -> Alternative:
    """Return transfers as changes of a counter for each account, in a transaction."""
    units = TOGETHER_UNITS * workload.legs
    return Alternative(
        name="a counter for each account, `record_together`",
        units_per_change=units,
        month_dollars=_dollars(workload, prices, units=units, reads=1.0),
        means="other regions show half of a transfer while it replicates",
    )


def _choices(workload: Workload, settings: Settings, prices: Prices) -> tuple[Alternative, ...]:
    found = []
    if workload.combined == 1:
        found.append(
            (
                replace(workload, combined=COMBINED),
                f"combined, {COMBINED:g} changes an entry",
                "`ledger table set combine`: changes that wait together share an item",
            )
        )
    found.append(
        (
            replace(workload, periods=not workload.periods),
            "without sums by period" if workload.periods else "with sums by period",
            "no sums by hour, day and month" if workload.periods else "`periods` in the contract",
        )
    )
    made = []
    for other, name, means in found:
        shown = estimate(other, settings, prices)
        made.append(
            Alternative(
                name=name,
                units_per_change=shown.units_per_change,
                month_dollars=shown.month_dollars,
                means=means,
            )
        )
    return tuple(made)


def _others(workload: Workload, prices: Prices) -> tuple[Alternative, ...]:
    hottest = next(iter(replace(workload, combined=1.0).groups()))[1]
    kept = _read_after_days(hottest)
    groups = replace(workload, combined=1.0).groups()
    mean = sum(count * rate / workload.changes * _read_after_days(rate) for count, rate in groups)
    ways = (
        ("one item, `ADD`", 1.0, 1.0, "loses changes that two regions make at once"),
        (
            "one item for each region, `ADD`",
            1.0,
            float(workload.regions),
            "a repeated change counts twice; 1,000 changes a second of a counter at most",
        ),
        (
            "entries that are never merged",
            1.0,
            mean,
            f"a total of the hottest counter reads {kept:,.0f} units after {KEPT_DAYS} days",
        ),
        (
            "entries merged and deleted in one transaction",
            TRANSACTION_UNITS,
            1.0,
            "other regions show wrong totals while a merge replicates",
        ),
    )
    return tuple(
        Alternative(
            name=name,
            units_per_change=units,
            month_dollars=_dollars(workload, prices, units=units, reads=reads),
            means=means,
        )
        for name, units, reads, means in ways
    )


def _read_after_days(rate: float) -> float:
    """Return the read units of a total over all entries of `KEPT_DAYS`, at a rate per second."""
    return max(1.0, rate * KEPT_DAYS * DAY_SECONDS * ENTRY_BYTES / READ_UNIT_BYTES)


def _dollars(workload: Workload, prices: Prices, *, units: float, reads: float) -> float:
    """Return the dollars a month, from units per change and read units per total."""
    seconds = MONTH_HOURS * 3_600
    writes = workload.changes * units * workload.regions * prices.write_million
    totals = workload.totals * reads * prices.read_million
    return (writes + totals) * seconds / 1e6
