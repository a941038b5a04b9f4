"""How far this machine's clock is from a region's, by the `Date` of the region's answers.

`Date` has whole seconds, truncated, and was set at some moment between the sending of the request
and its answer. So an answer gives two bounds, never a number::

    this machine     sent ─────────────────────────── answered
    the region              Date <= its time < Date + 1
    ahead by         sent - (Date + 1)  <  offset  <=  answered - Date

The bounds of several answers intersect, down to the shortest round trip and less. Answers that no
single offset explains mean that a clock was set between them: then only the newest counts.

Source: Date is the time at which the message was originated, in whole seconds (RFC 9110, 6.6.1).

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, floor

from ledger.core.durations import spoken
from ledger.core.errors import ClockOff

WINDOW_SECONDS = 60.0
"""How long answers are combined: quartz drifts by a few milliseconds in that time."""
DATE_SECONDS = 1.0
"""Resolution of a `Date`."""


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The least and the most by which this machine is ahead, in seconds; below 0 it is behind."""

    least: float
    most: float

    @property
    def middle(self) -> float:
        """The middle of the possible offsets."""
        return (self.least + self.most) / 2

    def is_beyond(self, skew: float) -> bool:
        """Return whether the clock is off by more than `skew` seconds for certain."""
        return self.least > skew or self.most < -skew

    def __str__(self) -> str:
        where = "ahead of" if self.middle >= 0 else "behind"
        return f"{spoken(abs(self.middle))} {where}"


@dataclass(frozen=True, slots=True)
class MeasuredOffset:
    """What is known about the offset, and since when answers have been combined."""

    offset: ClockOffset
    since: datetime


def measured(
    known: MeasuredOffset | None, *, sent: datetime, answered: datetime, date: datetime
) -> MeasuredOffset | None:
    """Return what is known after one more answer; `known` itself if the answer adds nothing.

    An answer during which the clock was set back is ignored.
    """
    if answered < sent:
        return known
    least = (sent - date).total_seconds() - DATE_SECONDS
    most = (answered - date).total_seconds()
    if known is not None and 0 <= (answered - known.since).total_seconds() < WINDOW_SECONDS:
        before = known.offset
        if least <= before.least and before.most <= most:  # as nearly always
            return known
        both = ClockOffset(max(least, before.least), min(most, before.most))
        if both.least <= both.most:
            return MeasuredOffset(both, known.since)
    return MeasuredOffset(ClockOffset(least, most), answered)


@dataclass(frozen=True, slots=True)
class Quiet:
    """The answers with one `Date` that add nothing to what is known: nearly all of a second's."""

    text: str
    sent_max: datetime
    answered_min: datetime
    answered_max: datetime

    @classmethod
    def of(cls, known: MeasuredOffset, text: str, date: datetime) -> "Quiet":
        """Return the range of answers with this header that `measured` would ignore."""
        least, most = known.offset.least, known.offset.most
        return cls(
            text,
            sent_max=date + timedelta(seconds=DATE_SECONDS + least),
            answered_min=max(known.since, date + timedelta(seconds=most)),
            answered_max=known.since + timedelta(seconds=WINDOW_SECONDS),
        )

    def covers(self, text: str, sent: datetime, answered: datetime) -> bool:
        """Return whether an answer is in the range."""
        return (
            text == self.text
            and sent <= self.sent_max
            and self.answered_min <= answered < self.answered_max
            and sent <= answered
        )


@dataclass(frozen=True, slots=True)
class RegionTime:
    """The least and the most that a region's clock may show now, in seconds since 1970.

    What must not be too early goes by the least, and what must not be dated too early by the most.
    """

    least: float
    most: float

    @staticmethod
    def of(now: datetime, offset: ClockOffset | None, *, skew: float) -> "RegionTime":
        """Return it by this machine's clock and its measured offset, else by the skew allowed."""
        known = ClockOffset(-skew, skew) if offset is None else offset
        seconds = now.timestamp()
        return RegionTime(seconds - known.most, seconds - known.least)

    @property
    def earliest(self) -> int:
        """The least, in whole seconds."""
        return floor(self.least)

    @property
    def latest(self) -> int:
        """The most, in whole seconds."""
        return ceil(self.most)


def check_offset(offset: ClockOffset | None, *, skew: float, region: str) -> None:
    """Refuse to act on a clock that is certainly off by more than `skew` seconds.

    Raises:
        ClockOff: with the offset in its message.
    """
    if offset is None or not offset.is_beyond(skew):
        return
    raise ClockOff(
        f"this machine's clock is {offset} that of {region}, more than clock_skew ({spoken(skew)}):"
        " nothing is written or merged until it is set right",
        region=region,
        offset_seconds=offset.middle,
    )
