"""The state of merging by the recorded passes, as `ledger doctor` judges it.

Read at home, or in another region if home cannot be read; nothing waits for the other regions.
"""

from collections.abc import Sequence
from datetime import datetime

from compactor.observe import lease_name
from compactor.pass_record import Recorded, recorded_passes
from compactor.status import CompactorStatus
from ledger.administration.diagnosis.observed import PassesSeen
from ledger.core.errors import StoreError
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.connections import open_store


async def passes_seen(settings: Settings, *, clock: Clock) -> PassesSeen:
    """Read the recorded passes, at home if it can be read.

    Raises:
        StoreError: no region can be read; the error of home.
    """
    name = lease_name(settings)
    failures: list[StoreError] = []
    for region in settings.home_first:
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
    """Return what records, newest first, show of merging."""
    status = CompactorStatus(settings.table, name, {}, {}, passes)
    newest = [recorded.record for recorded in status.newest if recorded.record is not None]
    success, search = status.last_success, status.last_search
    damaged = next((record.report for record in newest if record.report.damaged), None)
    undeleted = next((record.report for record in newest if record.report.undeleted), None)
    last = newest[0].report if newest else None
    return PassesSeen(
        home=settings.home,
        success_age=None if success is None else success.age_seconds(now),
        search_age=None if search is None else search.age_seconds(now),
        search_backlog=0 if search is None else search.report.backlog,
        search_oldest="" if search is None else search.report.oldest,
        nets_signed={} if search is None else search.report.nets_signed,
        late_seconds=max((record.report.late for record in newest), default=0.0),
        damage="" if damaged is None else damaged.damage(),
        undeleted="" if undeleted is None else undeleted.deletes_missing(),
        waits="" if last is None else next(iter(last.hindrances), ""),
        falls_behind=any(record.drain_seconds is None for record in newest),
        has_passes=bool(passes),
        lag_seconds=status.lag_seconds,
        ahead_seconds=max((record.ahead_seconds(now) for record in newest), default=0.0),
    )
