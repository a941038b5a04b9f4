"""Correcting a total to a physical count: the difference becomes an entry like any other.

A count has a moment (`at`) and is compared with the total as of that moment: the net, every entry
whose time is not later, and earlier corrections only if their count was earlier. That is known as
long as nothing later was merged, so for at least the age `settle`::

    look     its correction, in any region (`ledger.writes.earlier_calls`); the latest count; net
             and entries of each shard at home
    write    one transaction: { put the record, if it is as read
                                put the latest count, if it is still the one read
                                put the entry of the difference }

The entry itself is what makes a repeat harmless (`ledger.core.once`), so a count that fits leaves
one of 0. The latest count prevents two corrections that are based on the same look.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import count as count_from

from ledger.contract.view import check_home
from ledger.core import amounts, ids, keys, once
from ledger.core.clock_offset import check_offset
from ledger.core.entry import Item, Key, damaged, entry_id, key_of, number_of
from ledger.core.errors import (
    InvalidEntry,
    InvalidInput,
    OutcomeUnknown,
    StateConflict,
)
from ledger.core.fold import Collection, Portions
from ledger.core.reconciliation import Reconciled, corrected, corrected_by
from ledger.core.tokens import time_of_key
from ledger.core.values import Entry
from ledger.reads.archive.access import OpenArchive
from ledger.reads.collection import ReadBounds, read_collection
from ledger.runtime.call_deadlines import NEVER, TIMEOUT, bounded, changing
from ledger.runtime.clock import ElapsedTime
from ledger.runtime.services import Services
from ledger.runtime.tasks import in_portions, run_all
from ledger.runtime.validity import signed_within
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.retrier import Retrier
from ledger.store.writes import Applied, FinalOutcome, Outcome, Put, Unknown
from ledger.writes.book_rules import check_not_book
from ledger.writes.earlier_calls import EarlierCalls, as_read, leads_to
from ledger.writes.entry_plan import Change, PlannedEntry, checked_key
from ledger.writes.planner import Planner

KEYS_MAX = 1_000_000
"""Entries of a shard that one look holds in memory."""
SHARDS_AT_ONCE = 16
LATEST = "latest"
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class PhysicalCount:
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

    @property
    def since(self) -> datetime | None:
        """The earliest time at which the call may have been made; None if that is not known."""
        return self.at if self.is_past or not self.is_named else time_of_key(self.token)

    @property
    def key(self) -> Key:
        """The key of the record of its correction."""
        return once.count_key(self.counter, self.token)


@dataclass(frozen=True, slots=True)
class CountView:
    """What a look found: the total as of a moment, the record, and the latest count before it."""

    total: Decimal
    at: datetime
    latest: str | None
    record: Item | None


@dataclass(frozen=True, slots=True)
class LatestCount:
    """The latest count that was taken into account."""

    at: datetime
    token: str


def latest_of(item: Item) -> LatestCount:
    """Return the latest count that an item holds.

    Raises:
        DamagedItem: an attribute is missing or of another kind.
    """
    try:
        return LatestCount(datetime.fromisoformat(item["at"]["S"]), str(item["token"]["S"]))
    except (KeyError, TypeError, ValueError):
        raise damaged(item, "the latest count must have at and token") from None


class Reconciler:
    """Corrects totals by physical counts, through the home region's store.

    `others` opens the other regions.
    """

    def __init__(
        self,
        store: Store,
        settings: LiveSettings,
        services: Services,
        *,
        archive: OpenArchive,
        others: Callable[[], Awaitable[Mapping[str, Store]]],
        on_entry: Callable[[Entry], None],
    ) -> None:
        self._store = store
        self._on_entry = on_entry
        self._earlier = EarlierCalls(store, settings, services.clock, archive, others)
        self._settings = settings
        self._clock = services.clock
        self._random = services.randomness
        self._planner = Planner(store.region, settings=settings, services=services)
        self._retrier = Retrier.of(store, clock=services.clock, randomness=services.randomness)

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
        check_not_book(keys.checked_counter(counter), settings)
        skew = settings.clock_skew
        check_offset(self._store.clock_offset, skew=skew, region=self._store.region)
        count = self._checked(counter, counted, at, reason, token)
        with signed_within(self._settings.validity, self._clock), changing(None):
            work = self._reconciled(count, settings)
            return await bounded(end, work, partial(_unknown, count, TIMEOUT))

    def _checked(
        self,
        counter: str,
        counted: int | Decimal,
        at: datetime | None,
        reason: str | None,
        token: str | None,
    ) -> PhysicalCount:
        now = self._clock.now()
        is_named = token is not None or at is not None
        moment = now if at is None else entry_id(_aware(at), 0).at
        if moment > now:
            raise InvalidEntry(f"at must not be in the future, got {moment.isoformat()}")
        if token is None:
            made = ids.sort_key(now, self._random.getrandbits(ids.SUFFIX_BITS))
            token = made if at is None else moment.isoformat()
        return PhysicalCount(
            keys.checked_counter(counter),
            amounts.addend(counted),
            moment,
            reason,
            checked_key(token, what="token"),
            is_past=at is not None,
            is_named=is_named,
        )

    async def _reconciled(self, count: PhysicalCount, settings: Settings) -> Reconciled:
        partitions = [
            keys.partition_key(count.counter, shard)
            for shard in range(settings.shards_max(count.counter))
        ]
        deadline = self._clock.monotonic() + settings.write_deadline
        for looks in count_from(1):
            # Read before the records: so the call that made what is latest has its record there.
            latest = await self._latest(count.counter)
            records = await self._items(count.key[0])
            record = next((one for one in records if key_of(one) == count.key), None)
            made = None if record is None else await self._earlier.made_by(record)
            shown = [] if made else await self._earlier.shown(partitions)
            made = made or leads_to(count.key, shown)
            if made is not None:
                return _repeated(count, replace(corrected(made.item), repeated=True))
            await self._check_new(count, record)
            left = [*filter(None, map(once.entry_in, records)), *shown]
            times = [corrected(item).at for item in left if once.TOKEN in item]
            looked = await self._look(count, record, latest, times, partitions, settings)
            done, planned = self._planned(count, looked)
            final = await self._written(done, planned, looked)
            match final.outcome:
                case Applied():
                    self._on_entry(planned.entry)
                    return done
                case Unknown(cause):
                    raise _unknown(count, cause)
            if not await self._retrier.pause_within(looks, deadline=deadline):
                break
        error = StateConflict(
            f"counter {count.counter!r} was corrected by other calls during each of {looks}"
            " attempts: repeat the call"
        )
        error.retryable = True
        raise error

    async def _check_new(self, count: PhysicalCount, record: Item | None) -> None:
        """Raise unless no call with this token can have corrected the total.

        Raises:
            StateConflict: one may have.
        """
        if record is not None:
            await self._earlier.check_never_merged(record)
        if count.is_named:
            what = f"whether counter {count.counter!r} was corrected by {count.token!r}"
            self._earlier.check_arrived(count.since, what=what)

    async def _items(self, partition: str) -> list[Item]:
        query, items = Query(partition), list[Item]()
        while True:
            page = await self._store.query(query)
            items += page.items
            if page.after is None:
                return items
            query = query.next(page)

    async def _look(
        self,
        count: PhysicalCount,
        record: Item | None,
        latest: LatestCount | None,
        times: Sequence[datetime],
        partitions: Sequence[str],
        settings: Settings,
    ) -> CountView:
        """Return the total as of the count; `times` are those of earlier counts, of any region.

        Raises:
            InvalidInput: a later count was taken into account, or later entries were merged.
        """
        at = count.at
        last = max([*times, *([latest.at] if latest else [])], default=None)
        if last is not None and last >= at:
            if count.is_past:
                raise InvalidInput(
                    f"counter {count.counter!r} was corrected by a count of"
                    f" {last.isoformat()}: one of {at.isoformat()} is not later"
                )
            at = last + _MICROSECOND  # made by another clock, which is ahead
        border = str(entry_id(count.at + _MICROSECOND, 0)) if count.is_past else None
        sums = await run_all(
            [partial(self._shard, partition, border, settings) for partition in partitions],
            at_once=SHARDS_AT_ONCE,
        )
        return CountView(amounts.total(sums), at, None if latest is None else latest.token, record)

    async def _latest(self, counter: str) -> LatestCount | None:
        found = await self._items(_latest_key(counter)[0])
        return latest_of(found[0]) if found else None

    async def _shard(self, partition: str, border: str | None, settings: Settings) -> Decimal:
        """Return the sum of a shard's changes that are below the border."""
        # Their counts were earlier than this one, whenever they were taken into account. They are
        # read first: none of them is merged as long as the net below is of before the border.
        later = await self._earlier.shown_in(self._store, partition, border) if border else []
        counted = [number_of(item, "change") for item in later if once.TOKEN in item]
        read = await read_collection(
            self._store,
            partition,
            ElapsedTime(self._clock),
            ReadBounds.of(settings, keys_max=KEYS_MAX),
            consistent=True,
            border=border,
        )
        collection, net = read.collection, read.collection.net
        merged = Decimal(0) if net is None else net.change
        if border is None:
            left = await in_portions(collection.condense(net))
            return amounts.total_wide([merged, left.change, collection.added])
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
        foreign = await in_portions(_foreign(collection))
        return amounts.total_wide([merged, base.below.change, foreign, *counted])

    def _planned(self, count: PhysicalCount, looked: CountView) -> tuple[Reconciled, PlannedEntry]:
        change = amounts.total([count.counted, looked.total.copy_negate()])
        planned = self._planner.plan(
            Change(count.counter, change, note=count.reason),
            is_new=False,
            suffix=once.suffix_of(count.key),
        )
        item = corrected_by(planned.item, count.token, counted=count.counted, at=looked.at)
        return corrected(item), planned._replace(item=item)

    async def _written(
        self, done: Reconciled, planned: PlannedEntry, looked: CountView
    ) -> FinalOutcome:
        """Write record, latest count and entry, all or none, until the outcome is known."""
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
        until = planned.latest
        actions = [
            Put(once.record_of(planned.item), as_read(looked.record), not_after=until),
            Put(latest, same, not_after=until),
            planned.put,
        ]

        async def attempt() -> Outcome:
            return await self._store.transact(actions)

        return await self._retrier.until_answered(attempt)


def _foreign(collection: Collection) -> Portions[Decimal]:
    """Return the sum of the entries whose keys have no time; the collection keeps none."""
    total = Decimal(0)
    for portion in collection.take_unmerged():
        found = [change for key, _, change in portion if ids.parse(key) is None]
        total = amounts.total_wide([total, *found])
        yield
    return total


def _unknown(count: PhysicalCount, cause: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"no answer for counter {count.counter!r}: it may be corrected or not ({cause}); repeat"
        f" the call with token {count.token!r}, which corrects it once",
        entries=[],
        retryable=count.is_named,
    )


def _repeated(count: PhysicalCount, first: Reconciled) -> Reconciled:
    """Return the result of a count's first call.

    Raises:
        InvalidInput: the token stands for another count.
    """
    if first.counted != count.counted:
        stands = f"counter {count.counter!r}: token {count.token!r} stands for"
        error = InvalidInput(f"{stands} a count of {first.counted}, not {count.counted}")
        error.unread = count.counter, f"{stands} another count"
        raise error
    return first


def _latest_key(counter: str) -> tuple[str, str]:
    return f"{keys.RECONCILE_LATEST_PREFIX}{counter}", LATEST


def _aware(at: object) -> datetime:
    if not isinstance(at, datetime):
        raise InvalidEntry(f"at must be an aware datetime, got {at!r}")
    return at
