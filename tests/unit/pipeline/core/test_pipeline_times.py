"""A record's own time, from every form of it that sources write, and the periods it lies in."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from support.decimals import strictly

from ledger.pipeline.core.record_times import period_of, seconds_of, time_of


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Decimal("1616413258.8997078"), datetime(2021, 3, 22, 11, 40, 58, 899707, UTC)),
        (1616413258, datetime(2021, 3, 22, 11, 40, 58, tzinfo=UTC)),
        (0, datetime(1970, 1, 1, tzinfo=UTC)),
        (Decimal("-0.0000001"), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (Decimal("9." + "9" * 600), datetime(1970, 1, 1, 0, 0, 9, 999999, UTC)),
        (-62_135_596_800, datetime(1, 1, 1, tzinfo=UTC)),
        (Decimal("253402300799.999999"), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
        ("2021-03-22T11:40:58.899707Z", datetime(2021, 3, 22, 11, 40, 58, 899707, UTC)),
        ("2021-03-22T00:40:58+01:00", datetime(2021, 3, 21, 23, 40, 58, tzinfo=UTC)),
        ("20210322T114058Z", datetime(2021, 3, 22, 11, 40, 58, tzinfo=UTC)),
    ],
)
def test_times_are_exact(value: object, expected: datetime) -> None:
    """Digits below a microsecond are cut off; nothing passes through a float."""
    assert time_of(value) == expected


def test_no_context_of_the_caller_changes_a_time() -> None:
    """Neither in, nor out to the state, where the correction is compared with it."""
    time = datetime(2026, 11, 28, 10, 15, 37, 123456, UTC)
    with strictly():
        assert seconds_of(time) == Decimal("1795860937.123456")
        assert time_of(seconds_of(time)) == time


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (1616413258899, "in seconds"),
        (Decimal("1e400"), "in seconds"),
        (-62_135_596_801, "in seconds"),
        (253_402_300_800, "in seconds"),
        (Decimal("NaN"), "in seconds"),
        (True, "ISO 8601 text or a number"),
        (None, "ISO 8601 text or a number"),
        ([1], "ISO 8601 text or a number"),
        ("", "such as"),
        ("yesterday", "such as"),
        ("2021-02-30T00:00:00Z", "such as"),
        ("2021-03-22T11:40:58", "offset"),
        ("2021-03-22", "offset"),
        ("0001-01-01T00:00:00+01:00", "1 to 9999"),
    ],
)
def test_what_is_no_time_is_refused(value: object, rule: str) -> None:
    """Milliseconds taken for seconds, a date without its offset, and what is no time at all."""
    with pytest.raises(ValueError, match=rule):
        time_of(value)


def test_periods_are_those_of_utc() -> None:
    """An hour, a day and a month, whose order as text is that of time, in any year."""
    late, early = datetime(2026, 11, 22, 21, 59, tzinfo=UTC), datetime(33, 4, 3, 15, tzinfo=UTC)
    assert [period_of(late, form) for form in ("hour", "day", "month")] == [
        "2026-11-22T21",
        "2026-11-22",
        "2026-11",
    ]
    assert period_of(early, "hour") == "0033-04-03T15"
