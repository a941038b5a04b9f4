"""Times in the headers of HTTP: dates, and how long `Retry-After` asks to wait.

Sources: a date has one of three forms, the two old ones included, and means UTC (RFC 9110, 5.6.7);
Retry-After is such a date or a number of seconds (RFC 9110, 10.2.3).

Pure: no clock, no randomness, no I/O.
"""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache

DATES_KEPT = 16


@lru_cache(DATES_KEPT)  # all answers of a second share it
def date_of(text: str) -> datetime | None:
    """Return the time of a date in a header, None if it is none."""
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date


def retry_after_seconds(text: str | None, *, now: datetime) -> float:
    """Return how long a `Retry-After` asks to wait from now on; 0 if it cannot be read."""
    if text is None:
        return 0.0
    if text.isascii() and text.isdigit():
        return float(text)
    date = date_of(text)
    return 0.0 if date is None else max(0.0, (date - now).total_seconds())
