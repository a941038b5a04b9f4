"""Correcting a total to a physical count: the difference becomes an entry like any other.

A count has a moment (`at`) and is compared with the total as of that moment: the net, every entry
whose time is not later, and earlier corrections only if their count was earlier. That is known as
long as nothing later was merged, so for at least the age `settle`::

    look     net and entries of each shard at home, every record of this counter, the latest count
    write    one transaction: { put the record, if absent
                                put the latest count, if it is still the one read
                                put the entry of the difference }

The record (`~reconcile~<counter>`, under the count's token) makes every later repeat harmless: it
returns the first correction. It commits with the entry, so a crash between look and write, or a
write without an answer, corrects once or not at all. The latest count prevents two corrections
that are based on the same look.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from random import Random

from ledger.contract.home import check_home
from ledger.core import amounts, ids, keys
from ledger.core.clock_offset import check_offset
from ledger.core.entry import Item, damaged, entry_id, number_of
from ledger.core.errors import (
    InvalidEntry,
    InvalidInput,
    OutcomeUnknown,
)
from ledger.core.reconciled import Reconciled, reconciled_of, record_item
from ledger.core.values import Entry
from ledger.runtime.clock import Clock
from ledger.runtime.deadline import NEVER, TIMEOUT, bounded
from ledger.runtime.tasks import run_all
from ledger.runtime.validity import signed_within
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, FinalOutcome, Outcome, Put, Unknown
from ledger.totals.collection import read_collection
from ledger.writing.plan import Change, Planned, checked_key
from ledger.writing.planner import Planner

LOOKS_MAX = 5
"""Attempts of one call, each of which lost to another correction."""
KEYS_MAX = 1_000_000
"""Entries of a shard that one look holds in memory."""
SHARDS_AT_ONCE = 16
LATEST = "latest"
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Count:
    """What a physical count found: `at` is its moment, `token` names it."""

    counter: str
    counted: Decimal
    at: datetime
    reason: str | None
    token: str
    is_past: bool
    """Whether entries later than `at` are left out."""
    is_named: bool
    """Whether a repeat of the call has the same token."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found: the total as of a moment, and the latest count before it."""

    total: Decimal
    at: datetime
    latest: str | None


@dataclass(frozen=True, slots=True)
class Latest:
    """The latest count that was taken into account."""

    at: datetime
    token: str


def latest_of(item: Item) -> Latest:
    """Return the latest count that an item holds.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    try:
        return Latest(datetime.fromisoformat(item["at"]["S"]), str(item["token"]["S"]))
    except (KeyError, TypeError, ValueError):
        raise damaged(item, "the latest count must have at and token") from None


class Reconciler:
    """Corrects totals by physical counts, through the home region's store."""

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        clock: Clock,
        randomness: Random,
        *,
        on_entry: Callable[[Entry], None],
    ) -> None:
        self._store = store
        self._on_entry = on_entry
        self._settings = settings
        self._clock = clock
        self._random = randomness
        self._planner = Planner(store.region, settings=settings, clock=clock, randomness=randomness)
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness)

    async def reconcile(
        self,
        counter: str,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        reason: str | None = None,
        token: str | None = None,
        end: float = NEVER,
    ) -> Reconciled:
        """Correct a total by a physical count; see `Ledger.reconcile`.

        `end` is the event loop's time at which the outcome is reported as unknown.
        """
        settings = self._settings.current
        check_home(self._store, settings, what="a total is reconciled")
        skew = settings.clock_skew
        check_offset(self._store.clock_offset, skew=skew, region=self._store.region)
        count = self._checked(counter, counted, at, reason, token)
        with signed_within(self._settings.validity, self._clock):
            work = self._reconciled(count, settings)
            return await bounded(end, work, partial(_unknown, count, TIMEOUT))

    def _checked(
        self,
        counter: str,
        counted: int | Decimal,
        at: datetime | None,
        reason: str | None,
        token: str | None,
    ) -> Count:
        now = self._clock.now()
        is_named = token is not None or at is not None
        moment = now if at is None else entry_id(_aware(at), 0).at
        if moment > now:
            raise InvalidEntry(f"at must not be in the future, got {moment.isoformat()}")
        if token is None:
            made = ids.sort_key(now, self._random.getrandbits(ids.SUFFIX_BITS))
            token = made if at is None else moment.isoformat()
        return Count(
            keys.checked_counter(counter),
            amounts.addend(counted),
            moment,
            reason,
            checked_key(token, what="token"),
            is_past=at is not None,
            is_named=is_named,
        )

    async def _reconciled(self, count: Count, settings: Settings) -> Reconciled:
        for _ in range(LOOKS_MAX):
            records = await self._records(count.counter)
            if count.token in records:
                return _repeated(count, reconciled_of(records[count.token], keys.RECONCILE_PREFIX))
            looked = await self._look(count, list(records.values()), settings)
            done, planned = self._planned(count, looked)
            final = await self._written(done, planned, looked)
            match final.outcome:
                case Applied():
                    if planned is not None:
                        self._on_entry(planned.entry)
                    return done
                case Unknown(cause):
                    raise _unknown(count, cause)
        raise InvalidInput(
            f"counter {count.counter!r} was corrected by other calls during each of {LOOKS_MAX}"
            " attempts: repeat the call"
        )

    async def _records(self, counter: str) -> dict[str, Item]:
        """Return the records of a counter by their tokens."""
        items = await self._items(f"{keys.RECONCILE_PREFIX}{counter}")
        return {item["sk"]["S"]: item for item in items}

    async def _items(self, partition: str) -> list[Item]:
        query, items = Query(partition), list[Item]()
        while True:
            page = await self._store.query(query)
            items += page.items
            if page.after is None:
                return items
            query = query.next(page)

    async def _look(self, count: Count, records: Sequence[Item], settings: Settings) -> Looked:
        """Return the total as of the count.

        Raises:
            InvalidInput: a later count was taken into account, or later entries were merged.
        """
        latest, at = await self._latest(count.counter), count.at
        if latest is not None and latest.at >= at:
            if count.is_past:
                raise InvalidInput(
                    f"counter {count.counter!r} was corrected by a count of"
                    f" {latest.at.isoformat()}: one of {at.isoformat()} is not later"
                )
            at = latest.at + _MICROSECOND  # made by another clock, which is ahead
        border = str(entry_id(count.at + _MICROSECOND, 0)) if count.is_past else None
        partitions = [
            keys.partition_key(count.counter, shard)
            for shard in range(settings.shards_max(count.counter))
        ]
        sums = await run_all(
            [partial(self._shard, partition, border, settings) for partition in partitions],
            at_once=SHARDS_AT_ONCE,
        )
        # Their counts were earlier than this one, whenever they were taken into account.
        corrected = [
            number_of(record, "change")
            for record in records
            if border is not None and record.get("entry", {}).get("S", "") >= border
        ]
        total = amounts.total([*sums, *corrected])
        return Looked(total, at, None if latest is None else latest.token)

    async def _latest(self, counter: str) -> Latest | None:
        found = await self._items(_latest_key(counter)[0])
        return latest_of(found[0]) if found else None

    async def _shard(self, partition: str, border: str | None, settings: Settings) -> Decimal:
        """Return the sum of a shard's changes that are below the border."""
        read = await read_collection(
            self._store,
            partition,
            clock=self._clock,
            read_deadline=settings.read_deadline,
            consistent=True,
            keys_max=KEYS_MAX,
            border=border,
            terms=settings.terms,
        )
        collection, net = read.collection, read.collection.net
        merged = Decimal(0) if net is None else net.change
        if border is None:
            return amounts.total_wide([merged, collection.unmerged().change, collection.added])
        if collection.sums:
            raise InvalidInput(
                f"at is not possible for {partition!r}: pipelines add to it, and their sums have no"
                " times; count again without it, or with `pipeline.totals: entries` from the start"
            )
        if net is not None and net.until >= border:
            raise InvalidInput(
                f"at is too far back: {partition!r} is merged up to {net.until}, so single entries"
                f" do not show its total before {border} any more; count again"
            )
        base = read.base
        if base is None or collection.below is not base.below:
            raise InvalidInput(
                f"{partition!r} has over {KEYS_MAX:,} entries: count again once merged"
            )
        foreign = [change for key, change in collection.entries.items() if ids.parse(key) is None]
        return amounts.total_wide([merged, base.below.change, *foreign])

    def _planned(self, count: Count, looked: Looked) -> tuple[Reconciled, Planned | None]:
        change = amounts.total([count.counted, looked.total.copy_negate()])
        planned = self._planner.plan(Change(count.counter, change, note=count.reason), is_new=False)
        done = Reconciled(
            counter=count.counter,
            change=change,
            counted=count.counted,
            total=looked.total,
            at=looked.at,
            reason=count.reason,
            token=count.token,
            entry=planned.entry.id if change else None,
            region=self._store.region,
        )
        return done, planned if change else None

    async def _written(
        self, done: Reconciled, planned: Planned | None, looked: Looked
    ) -> FinalOutcome:
        """Write record, latest count and entry, all or none, until the outcome is known."""
        validity = self._settings.validity
        until = None if validity is None else validity.until
        partition, sort_key = _latest_key(done.counter)
        latest = {
            "pk": {"S": partition},
            "sk": {"S": sort_key},
            "at": {"S": done.at.isoformat()},
            "token": {"S": done.token},
        }
        same: Condition = Absent()
        if looked.latest is not None:
            same = Equals("token", {"S": looked.latest})
        actions = [
            Put(record_item(done, keys.RECONCILE_PREFIX), Absent(), not_after=until),
            Put(latest, same, not_after=until),
            *([planned.put] if planned is not None else []),
        ]

        async def attempt() -> Outcome:
            return await self._store.transact(actions)

        return await self._retrier.until_answered(attempt)


def _unknown(count: Count, cause: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"no answer for counter {count.counter!r}: it may be corrected or not ({cause}); repeat"
        f" the call with token {count.token!r}, which corrects it once",
        entries=[],
        retryable=count.is_named,
    )


def _repeated(count: Count, first: Reconciled) -> Reconciled:
    """Return the result of a count's first call.

    Raises:
        InvalidInput: the token stands for another count.
    """
    if first.counted != count.counted:
        raise InvalidInput(
            f"counter {count.counter!r}: token {count.token!r} stands for a count of"
            f" {first.counted}, not {count.counted}"
        )
    return first


def _latest_key(counter: str) -> tuple[str, str]:
    return f"{keys.RECONCILE_LATEST_PREFIX}{counter}", LATEST


def _aware(at: object) -> datetime:
    if not isinstance(at, datetime):
        raise InvalidEntry(f"at must be an aware datetime, got {at!r}")
    return at
