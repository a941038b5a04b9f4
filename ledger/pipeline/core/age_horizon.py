"""Which records are too old to be counted, and what their states keep of their time.

Once a record's state is forgotten, a correction, or a repeat, cannot be distinguished from a new
record. So records before the moment up to which states were forgotten are refused, whatever the
settings say now; that moment is in every lane's item, and never goes back.

That a record is too old is a matter of that moment alone, not of a worker's clock or settings: one
worker of a lane could refuse a record, and commit its position, while the state that another has
written for it is still on its way. For the same reason nothing is refused before what other workers
judged without the moment has landed, `margin_of` after the lane's item got it.

And the time of a record never changes once its state keeps it: with another time it would count as
new, once its state is forgotten.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger.core.errors import FormConflict
from ledger.pipeline.core.lane_state import LaneState
from ledger.pipeline.core.record_times import at_seconds
from ledger.pipeline.core.records import Poison, Record, RecordForm
from ledger.pipeline.core.transitions import State
from ledger.settings import Settings


@dataclass(frozen=True, slots=True)
class AgeHorizon:
    """Records before `forgotten`, seconds since 1970, are refused, from `settled` on; 0 for none.

    With `keeps` new states keep the time of their records.
    """

    forgotten: int = 0
    settled: datetime | None = None
    field: str = ""
    keeps: bool = False

    def is_over(self, record: Record | Poison) -> bool:
        """Return whether a record is too old."""
        if not self.forgotten or isinstance(record, Poison) or record.at is None:
            return False
        return record.at < at_seconds(self.forgotten)

    def judged(self, record: Record | Poison) -> Record | Poison:
        """Return a record, or why it is too old."""
        if isinstance(record, Poison) or record.at is None or not self.is_over(record):
            return record
        return Poison(
            f"{self.field} is {record.at.isoformat()}, before"
            f" {at_seconds(self.forgotten).isoformat()}: by pipeline.keep_states the states of such"
            " records are forgotten, so it is unknown whether this one was counted. If it has"
            " to be, record what it changes with `ledger record`",
            record.id,
            frozenset({record.home}),
        )

    def kept(self, record: Record, state: State | None) -> datetime | None:
        """Return the time that the next state of a record keeps."""
        if state is not None and state.at is not None:
            return state.at
        return record.at if self.keeps or self.forgotten else None


def horizon(lane: LaneState, form: RecordForm, settings: Settings) -> AgeHorizon:
    """Return the horizon of a lane, from its item.

    Raises:
        FormConflict: something was forgotten, and records have no time of their own.
    """
    keeps = settings.pipeline.keep_states is not None
    if not lane.forgotten:
        return AgeHorizon(field=form.time_field, keeps=keeps)
    if not form.time_field:
        raise FormConflict(
            f"states of records before {at_seconds(lane.forgotten).isoformat()} are forgotten:"
            " pipeline.fields.time is needed, so that late versions of them are refused"
        )
    settled = at_seconds(lane.forgotten_at) + timedelta(seconds=margin_of(settings))
    return AgeHorizon(lane.forgotten, settled, form.time_field, keeps)


def margin_of(settings: Settings) -> float:
    """Return how long, in seconds, a write judged by an earlier lane item may still land.

    It is signed within `contract_life` of when that was seen, and lands within the life of the
    signature; the clocks of who wrote the item, of who signs, and of who waits may each be off.
    """
    terms = settings.terms
    life = terms.longest("contract_life") + terms.signature_lifetime
    return life + 3 * terms.longest("clock_skew")


def has_moved(record: Record, state: State) -> bool:
    """Return whether a record has another time than its state keeps."""
    return state.at is not None and record.at is not None and record.at != state.at
