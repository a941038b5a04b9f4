"""How much is left to merge, as the newest passes say it together."""

from datetime import UTC, datetime, timedelta

from compactor.pass_history import PassRecord
from compactor.report import CompactorReport
from ledger.http.service.fleet.observer import BacklogSample, sample_of

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)


def record(owner: str, *, backlog: int, late: float, minutes: int) -> PassRecord:
    """Return a pass that ended so many minutes after noon."""
    report = CompactorReport(backlog=backlog, late=late)
    return PassRecord(owner, NOON + timedelta(minutes=minutes), report)


def test_processes_that_share_the_work_are_added_up() -> None:
    """Each has the backlog of its own slices; the latest counts."""
    found = sample_of(
        [
            record("a", backlog=10, late=2.0, minutes=1),
            record("b", backlog=5, late=30.0, minutes=0),
        ]
    )
    assert found == BacklogSample(NOON + timedelta(minutes=1), 15, 30.0)


def test_without_a_pass_nothing_is_known() -> None:
    """A table that no compactor has visited has no backlog of 0."""
    assert sample_of([]) is None
