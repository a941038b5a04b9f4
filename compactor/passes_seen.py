"""How merging stands by the recorded passes, as `ledger doctor` judges it.

Of home, or of another region where home cannot be read; nothing waits for the other regions.
"""

from collections.abc import Sequence
from datetime import datetime

from compactor.observe import lease_name
from compactor.pass_record import PassRecord, Recorded, recorded_passes
from compactor.report import CompactorReport
from compactor.status import CompactorStatus
from ledger.administration.diagnosis.observed import PassesSeen
from ledger.core.errors import StoreError
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.opening import open_store


async def passes_seen(settings: Settings, *, clock: Clock) -> PassesSeen:
    """Read the recorded passes, at home if it can be read.

    Raises:
        StoreError: no region can be read; the error of home.
    """
    name = lease_name(settings)
    failures: list[StoreError] = []
    for region in sorted(settings.regions, key=lambda region: region != settings.home):
        try:
            async with open_store(settings, region, clock=clock) as store:
                passes = await recorded_passes(store, name)
        except StoreError as error:
            failures.append(error)
        else:
            return passes_of(passes, settings, name, now=clock.now())
    raise failures[0]


def passes_of(
    passes: Sequence[Recorded], settings: Settings, name: str, *, now: datetime
) -> PassesSeen:
    """Return what records, the newest first, say of merging."""
    status = CompactorStatus(settings.table, name, {}, {}, passes)
    newest = [one.record for one in status.newest if one.record is not None]
    success, search = status.last_success, status.last_search
    damaged = next((one.report for one in newest if one.report.damaged), None)
    last = newest[0].report if newest else None
    return PassesSeen(
        home=settings.home,
        success_age=_age(success, now),
        search_age=_age(search, now),
        search_backlog=0 if search is None else search.report.backlog,
        search_oldest="" if search is None else search.report.oldest,
        late_seconds=max((one.report.late for one in newest), default=0.0),
        damage="" if damaged is None else damaged.damage(),
        waits="" if last is None else _waits(last),
        falls_behind=any(one.drain_seconds is None for one in newest),
        has_passes=bool(passes),
        lag_seconds=status.lag_seconds,
    )


def _waits(report: CompactorReport) -> str:
    """Return what prevented merging in a pass, empty for nothing."""
    unreadable = f"region {report.unreadable} cannot be read" if report.unreadable else ""
    return unreadable or report.waits or next(iter(report.problems), "")


def _age(record: PassRecord | None, now: datetime) -> float | None:
    return None if record is None else max(0.0, (now - record.ended).total_seconds())
