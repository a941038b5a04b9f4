"""The result of a pass, noted in its report and in the metrics."""

import logging

from compactor.metrics import CompactorMetrics
from compactor.plan_execution import PlanResult
from compactor.report import CompactorReport
from ledger.core.errors import LedgerError, RegionUnreadable
from ledger.runtime.clock import Clock
from ledger.store.wrappers.meter import outcome_name
from ledger.store.writes import Applied

log = logging.getLogger("compactor.merge_pass")


class ReportWriter:
    """The report of one pass, and the metrics of its process."""

    def __init__(self, report: CompactorReport, metrics: CompactorMetrics, *, clock: Clock) -> None:
        self._report = report
        self._metrics = metrics
        self._clock = clock

    def done(self, done: PlanResult, folded: int) -> None:
        """Note what was deleted and folded."""
        self._report.deleted += done.deleted
        self._metrics.deleted(done.deleted)
        if done.fold is None:
            return
        applied = isinstance(done.fold, Applied)
        self._metrics.fold(outcome_name(done.fold), merged=folded if applied else 0)
        if applied:
            self._report.folds += 1
            self._report.merged += folded
        else:
            self._report.lost_races += 1

    def problem(self, error: LedgerError) -> None:
        """Note an error of one collection, which is left unchanged."""
        log.warning("%s", error)
        self._metrics.error(error)
        self._report.problems.append(str(error))

    def archive_waits(self, error: LedgerError) -> None:
        """Note a fold that waits because its entries are not in the archive."""
        self._report.archive_waits += 1
        self.problem(error)

    def unreadable(self, error: RegionUnreadable) -> None:
        """Note that merging waits for a region."""
        log.warning("%s", error)
        self._metrics.unreadable(error.region)
        self._metrics.error(error)
        self._report.unreadable = error.region
        self._report.is_whole = False

    def waits_for(self, reason: str, error: LedgerError) -> None:
        """Note what else merging waits for."""
        log.warning("%s", error)
        self._metrics.waits(reason)
        self._metrics.error(error)
        self._report.waits = str(error)
        self._report.is_whole = False

    def end(self) -> None:
        """Note how the pass ended."""
        report = self._report
        if not report.waits:
            self._metrics.waits(None)
        if not report.unreadable:
            self._metrics.readable()
        self._metrics.quarantined(report.damaged)
        self._metrics.undeleted.set(report.undeleted)
        self._metrics.books_full.set(len(report.books_full))
        self._metrics.passed(
            report.outcome,
            seconds=report.seconds,
            succeeded_at=self._clock.now().timestamp() if report.is_success else None,
        )
