"""Dates in the headers of HTTP, and the waits that Retry-After asks for."""

from datetime import UTC, datetime

import pytest

from ledger.core.http_times import date_of, retry_after_seconds

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sat, 21 Nov 2026 12:00:00 GMT", NOON),
        ("Saturday, 21-Nov-26 12:00:00 GMT", NOON),
        ("Sat Nov 21 12:00:00 2026", NOON),
        ("Sat, 21 Nov 2026 13:00:00 +0100", NOON),
        ("Sat, 21 Nov 999999 12:00:00 GMT", None),
        ("noon", None),
        ("", None),
    ],
)
def test_a_date_is_read_or_left(text: str, expected: datetime | None) -> None:
    """In each of the three forms; a header that is no date tells nothing."""
    assert date_of(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20", 20.0),
        ("0", 0.0),
        ("Sat, 21 Nov 2026 12:00:20 GMT", 20.0),
        ("Saturday, 21-Nov-26 12:00:20 GMT", 20.0),
        ("Sat Nov 21 12:00:20 2026", 20.0),
        ("Sat, 21 Nov 2026 11:59:00 GMT", 0.0),
        ("9" * 10_000, float("inf")),
        ("-5", 0.0),
        ("2.5", 0.0),
        ("٢٠", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_a_wait_is_a_number_of_seconds_or_a_date(text: str | None, expected: float) -> None:
    """What cannot be read, and what is over, asks for no wait."""
    assert retry_after_seconds(text, now=NOON) == expected
