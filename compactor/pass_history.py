"""Records of passes in the table, so that any process can report how merging stands.

The process of a scheduled pass ends with it, and so do its metrics. So each pass is recorded in
small items in the home region, by the member that did it: the last that succeeded, the last that
did not, and the last that searched the whole table, the only one that knows how much is left to
merge. One put takes one write unit; a member that does pass after pass records one a minute.

Records are informational: no decision depends on them, and failing to write one fails no pass.
"""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pydantic import TypeAdapter, ValidationError

from compactor.metrics import CompactorMetrics
from compactor.report import CompactorReport
from compactor.slices import HEAD, bounds
from ledger.core import keys
from ledger.core.entry import AttributeValue, Item
from ledger.core.errors import LedgerError
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.writes import Put

SUCCEEDED, FAILED, SEARCHED = "succeeded", "failed", "searched"
RECORD_SECONDS = 60.0
"""How often a member records passes with the same result."""
MEMBER_KEPT = timedelta(days=1)
"""How long records of a member that is not the head are kept: its name is never reused."""
AHEAD_SECONDS = 1.0
"""How far in the future a record may be dated before a clock is reported as off."""
NAMED_MAX = 3
TEXT_MAX = 500
"""Damaged collections and problems that a record names, and the characters of each reason."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """A pass of one process: when it ended (aware), its report, and how far behind regions were.

    `drain_seconds` is the time until merging has caught up, None while it falls behind;
    `lag_seconds` has the replication lag of each region, as far as it was measured.
    """

    owner: str
    ended: datetime
    report: CompactorReport
    drain_seconds: float | None = 0.0
    lag_seconds: Mapping[str, float] = field(default_factory=dict)

    def age_seconds(self, now: datetime) -> float:
        """Return how long ago it ended; 0 if a clock ahead of ours dated it."""
        return max(0.0, (now - self.ended).total_seconds())

    def ahead_seconds(self, now: datetime) -> float:
        """Return how far in the future it is dated, by a clock that is ahead of ours; else 0."""
        ahead = (self.ended - now).total_seconds()
        return ahead if ahead >= AHEAD_SECONDS else 0.0


@dataclass(frozen=True, slots=True)
class PassHistory:
    """A record as the table shows it: its member, which of its passes, and the content.

    `record` is None where the item cannot be read: another release may have written it.
    """

    member: str
    kind: str
    record: PassRecord | None


_FORM = TypeAdapter(PassRecord)


class Recorder:
    """Records the passes of one process under the name of the compactor's lease."""

    def __init__(
        self, store: Store, lease: str, *, owner: str, clock: Clock, metrics: CompactorMetrics
    ) -> None:
        self._store = store
        self._lease = lease
        self._owner = owner
        self._clock = clock
        self._metrics = metrics
        self._last = ("", "")
        self._last_at = -math.inf
        self._has_failed = False

    async def record(
        self,
        member: str,
        report: CompactorReport,
        *,
        drain_seconds: float,
        lag_seconds: Mapping[str, float],
    ) -> None:
        """Record a pass that has ended, unless one that ended alike was recorded a minute ago."""
        kind = SUCCEEDED if report.is_success else FAILED
        now = self._clock.monotonic()
        if self._last == (member, kind) and now - self._last_at < RECORD_SECONDS:
            return
        self._last, self._last_at = (member, kind), now
        made = PassRecord(
            owner=self._owner,
            ended=self._clock.now(),
            report=shortened(report),
            drain_seconds=None if drain_seconds == math.inf else drain_seconds,
            lag_seconds=dict(lag_seconds),
        )
        kinds = [kind, SEARCHED] if report.searched and report.is_success else [kind]
        for each in kinds:
            await self._put(member, each, made)

    async def _put(self, member: str, kind: str, made: PassRecord) -> None:
        item: dict[str, AttributeValue] = {
            "pk": {"S": keys.PASS_PARTITION},
            "sk": {"S": f"{self._lease}/{member}/{kind}"},
            "record": {"S": _FORM.dump_json(made).decode()},
        }
        if member != HEAD:
            item[keys.EXPIRES] = {"N": str(int((made.ended + MEMBER_KEPT).timestamp()))}
        try:
            await self._store.write(Put(item))
        except LedgerError as error:
            self._metrics.error(error)
            # Once: a role without this permission would log it in every pass.
            log.log(
                logging.DEBUG if self._has_failed else logging.WARNING,
                "the pass cannot be recorded for `compactor status`: %s",
                error,
            )
            self._has_failed = True


def shortened(report: CompactorReport) -> CompactorReport:
    """Return a report that names a few of the damaged collections and problems."""
    named = list(report.quarantined.items())[:NAMED_MAX]
    undeleted = list(report.undeleted_in.items())[:NAMED_MAX]
    return replace(
        report,
        quarantined={name: why[:TEXT_MAX] for name, why in named},
        undeleted_in={name: shown[:TEXT_MAX] for name, shown in undeleted},
        books_full=report.books_full[:NAMED_MAX],
        problems=[why[:TEXT_MAX] for why in report.problems[:NAMED_MAX]],
        waits=report.waits[:TEXT_MAX],
        alarms=[alarm[:TEXT_MAX] for alarm in report.alarms[:NAMED_MAX]],
    )


async def recorded_passes(store: Store, lease: str) -> Sequence[PassHistory]:
    """Return the records under a lease's name, the newest first.

    Raises:
        StoreError: the region cannot be read.
    """
    first, last = bounds(lease)
    query = Query(keys.PASS_PARTITION, first=first, last=last)
    found: list[PassHistory] = []
    while True:
        page = await store.query(query)
        found += [_recorded(item, lease) for item in page.items]
        if page.after is None:
            return sorted(found, key=_ended, reverse=True)
        query = query.next(page)


def _recorded(item: Item, lease: str) -> PassHistory:
    member, _, kind = item["sk"]["S"].removeprefix(f"{lease}/").rpartition("/")
    try:
        record = _FORM.validate_json(item["record"]["S"])
    except (KeyError, ValidationError):
        return PassHistory(member, kind, None)
    return PassHistory(member, kind, record if record.ended.tzinfo else None)


def _ended(found: PassHistory) -> float:
    return found.record.ended.timestamp() if found.record else -math.inf
