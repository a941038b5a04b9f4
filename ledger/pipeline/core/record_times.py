"""A record's own time: read exactly from its field, and as its hour, day or month.

A time is text of ISO 8601 with its offset from UTC, or a number of seconds since 1970 in UTC, whole
or not. It is exact to the microsecond; what lies beyond is cut off.

Pure: no clock, no randomness, no I/O.
"""

from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal

from ledger.core import amounts
from ledger.core.times import time_of as written_time
from ledger.settings.templates import TIME_FORMS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = -62_135_596_800
"""Seconds of year 1."""
_AFTER_LAST = 253_402_300_800
"""Seconds of year 10,000."""
_MICROSECOND = Decimal("0.000001")


def time_of(value: object) -> datetime:
    """Return the time that the value of a field stands for, in UTC.

    Raises:
        ValueError: it is not a time; one line with the rule.
    """
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _of_seconds(Decimal(value))
    if isinstance(value, str):
        return _of_text(value)
    raise ValueError("a time is ISO 8601 text or a number of seconds since 1970")


def seconds_of(time: datetime) -> Decimal:
    """Return a time in seconds since 1970, exactly."""
    return amounts.scaled(Decimal((time - _EPOCH) // timedelta(microseconds=1)), -6)


def at_seconds(seconds: int) -> datetime:
    """Return the time of a whole number of seconds since 1970."""
    return _EPOCH + timedelta(seconds=seconds)


def period_of(time: datetime, form: str) -> str:
    """Return the hour, day or month of a time in UTC, such as 2026-11-22T21."""
    return time.isoformat()[: TIME_FORMS[form]]


def _of_seconds(seconds: Decimal) -> datetime:
    if not seconds.is_finite() or not _FIRST <= seconds < _AFTER_LAST:
        raise ValueError("a time in numbers is in seconds since 1970, of the years 1 to 9999")
    cut = seconds.quantize(_MICROSECOND, ROUND_FLOOR, amounts.PROPORTION)
    return _EPOCH + timedelta(microseconds=int(amounts.scaled(cut, 6)))


def _of_text(text: str) -> datetime:
    try:
        found = written_time(text)
    except ValueError:
        raise ValueError("a time as text is ISO 8601, such as 2026-11-22T21:30:00Z") from None
    if found.tzinfo is None:
        raise ValueError("a time as text needs its offset from UTC, such as Z or +01:00")
    try:
        return found.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time in UTC is of the years 1 to 9999") from None
