"""How much is left to merge, from pass to pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from compactor.pass_record import PassRecord


@dataclass(frozen=True, slots=True)
class Sample:
    """The backlog in entries when the newest pass began, and by how many seconds it was late."""

    at: datetime
    backlog: int
    late_seconds: float


def sample_of(records: Sequence[PassRecord]) -> Sample | None:
    """Return what the newest pass of each process says together; None without any."""
    if not records:
        return None
    return Sample(
        at=max(record.ended for record in records),
        backlog=sum(record.report.backlog for record in records),
        late_seconds=max(record.report.late for record in records),
    )
