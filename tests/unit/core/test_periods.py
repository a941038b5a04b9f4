"""Sums by period: each change in one place, borders that only move on, and a text that holds it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from ledger.core.amounts import EXACT, total_wide
from ledger.core.entry import entry_id
from ledger.core.periods import (
    BYTES_MAX,
    NEVER,
    Axis,
    Borders,
    PeriodRule,
    Periods,
    Place,
    Unit,
    begun,
    first_day,
    hour_of,
    month_of,
    of_text,
    place_effective,
    place_made,
    rule_of,
    start_of,
    to_text,
)
from ledger.settings.pattern_groups import PeriodSettings

NOW = datetime(2026, 3, 29, 12, 30, tzinfo=UTC)
RULE = PeriodRule(hours=24, days=20, months=3)
BERLIN = "Europe/Berlin"


def key(at: datetime) -> str:
    """Return the sort key of an entry made then."""
    return str(entry_id(at, 7))


def ordinal(text: str) -> int:
    """Return the ordinal of a date."""
    return date.fromisoformat(text).toordinal()


def test_borders_of_a_rule() -> None:
    """Hours are kept by whole days, days by whole months; what is kept is the least that is asked.

    Berlin's clocks were set on an hour on that day.
    """
    assert Borders.of(RULE, NOW) == Borders(
        ordinal("2026-03-28"), ordinal("2026-03-01"), month_of(date(2025, 12, 1))
    )
    assert Borders.of(PeriodRule(700, 5, 0), NOW) == Borders(
        ordinal("2026-02-28"), ordinal("2026-02-01"), month_of(date(2026, 2, 1))
    )
    east = datetime(2026, 3, 31, 18, 30, tzinfo=UTC)  # in Kathmandu April, since a quarter
    assert Borders.of(PeriodRule(1, 0, 0, "Asia/Kathmandu"), east) == Borders(
        ordinal("2026-03-31"), ordinal("2026-03-01"), month_of(date(2026, 3, 1))
    )
    assert Borders.of(PeriodRule(0, 0, 1, "Asia/Kathmandu"), east) == Borders(
        ordinal("2026-04-02"), ordinal("2026-05-01"), month_of(date(2026, 3, 1))
    )
    assert Borders.of(PeriodRule(0, 0, 1), NOW).first(Unit.MONTH) == ordinal("2026-02-01")
    assert Borders().first(Unit.MONTH) == 0
    late = NOW.replace(hour=22, minute=30)  # in Berlin it is the 30th, since half an hour
    assert Borders.of(replace(RULE, hours=1, zone=BERLIN), late).hours == ordinal("2026-03-29")
    assert Borders.of(PeriodRule(0, 0, 1), NOW) == Borders(
        ordinal("2026-03-30"), ordinal("2026-04-01"), month_of(date(2026, 2, 1))
    )
    assert Borders.of(PeriodRule(1, 0, 0), NOW) == Borders(
        ordinal("2026-03-29"), ordinal("2026-03-01"), month_of(date(2026, 3, 1))
    )


@pytest.mark.parametrize(
    ("made", "place"),
    [
        ("2026-03-29T12:59:59.999999", (Unit.HOUR, hour_of(NOW, "UTC"))),
        ("2026-03-28T00:00:00", (Unit.HOUR, hour_of(NOW.replace(day=28, hour=0), "UTC"))),
        ("2026-03-27T23:59:59.999999", (Unit.DAY, ordinal("2026-03-27"))),
        ("2026-03-01T00:00:00", (Unit.DAY, ordinal("2026-03-01"))),
        ("2026-02-28T23:59:59", (Unit.MONTH, month_of(date(2026, 2, 1)))),
        ("2025-12-01T00:00:00", (Unit.MONTH, month_of(date(2025, 12, 1)))),
        ("2025-11-30T23:59:59", None),
        ("2031-01-01T00:00:00", (Unit.HOUR, hour_of(datetime(2031, 1, 1, tzinfo=UTC), "UTC"))),
    ],
)
def test_where_a_change_is_made(made: str, place: Place | None) -> None:
    """Its time and the borders alone say it."""
    at = datetime.fromisoformat(made).replace(tzinfo=UTC)
    assert place_made(Borders.of(RULE, NOW), key(at), "UTC") == place


def test_a_foreign_key_has_no_time() -> None:
    """It counts in no period, unless it says from when on it is effective."""
    borders = Borders.of(RULE, NOW)
    assert place_made(borders, "2026-03-29", "UTC") is None
    assert place_effective(borders, "x", None, "UTC") is None
    day = replace(borders, hours=NEVER)
    assert place_effective(day, "x", "2026-03-29", "UTC") == (Unit.DAY, ordinal("2026-03-29"))
    made = place_effective(day, key(NOW), "no date", "UTC")
    assert made == (Unit.DAY, ordinal("2026-03-29"))


@pytest.mark.parametrize(
    ("zone", "at", "start"),
    [
        ("Asia/Kathmandu", "2026-03-29T12:20+00:00", "2026-03-29T18:00+05:45"),
        ("Asia/Kathmandu", "2026-03-29T12:14+00:00", "2026-03-29T17:00+05:45"),
        (BERLIN, "2026-10-25T00:30+00:00", "2026-10-25T02:00+02:00"),
        (BERLIN, "2026-10-25T01:30+00:00", "2026-10-25T02:00+01:00"),
        ("America/Denver", "2026-11-21T06:59:59+00:00", "2026-11-20T23:00-07:00"),
    ],
)
def test_hours_are_local(zone: str, at: str, start: str) -> None:
    """Of the two hours called 2 when clocks are set back each has a sum of its own."""
    number = hour_of(datetime.fromisoformat(at), zone)
    assert start_of((Unit.HOUR, number), zone).isoformat(timespec="minutes") == start


def test_months_have_numbers() -> None:
    """In order, and back."""
    assert first_day(month_of(date(2026, 12, 31))) == date(2026, 12, 1)
    assert month_of(date(2027, 1, 1)) == month_of(date(2026, 12, 1)) + 1
    assert start_of((Unit.MONTH, month_of(date(2026, 7, 9))), BERLIN).isoformat() == (
        "2026-07-01T00:00:00+02:00"
    )


def folded(
    periods: Periods, *changes: tuple[datetime, int], rule: PeriodRule = RULE, now: datetime = NOW
) -> Periods:
    """Return sums with changes made at some times folded."""
    given = [(key(at), None, Decimal(change)) for at, change in changes]
    return periods.folded(given, rule, now)


def test_what_ages_is_put_together() -> None:
    """Hours become their day, days their month, and months leave the sums; nothing is lost."""
    start = NOW.replace(hour=3, minute=0)
    first = folded(Periods("UTC"), (start, 1), (start + timedelta(hours=2), 20), (NOW, 300))
    assert sorted(first.made.sums.values()) == [1, 20, 300]
    assert {unit for unit, _ in first.made.sums} == {Unit.HOUR}
    days = folded(first, now=NOW + timedelta(days=2))
    assert days.made.sums == {(Unit.DAY, ordinal("2026-03-29")): 321}
    late = folded(days, (start, 4000), now=NOW + timedelta(days=2))
    assert late.made.sums == {(Unit.DAY, ordinal("2026-03-29")): 4321}
    months = folded(late, now=NOW + timedelta(days=60))
    assert months.made.sums == {(Unit.MONTH, month_of(date(2026, 3, 1))): 4321}
    assert folded(months, now=NOW + timedelta(days=150)).made.sums == {}


def test_borders_never_move_back() -> None:
    """By a clock that is set back, or a rule that keeps more, nothing comes apart again."""
    first = folded(Periods("UTC"), (NOW, 5))
    later = folded(first, now=NOW + timedelta(days=3))
    again = folded(later, (NOW, 2), now=NOW, rule=PeriodRule(700, 400, 1000))
    assert again.made.borders == later.made.borders
    assert again.made.sums == {(Unit.DAY, ordinal("2026-03-29")): 7}


def test_a_rule_that_keeps_more_finds_its_border_near() -> None:
    """What was not kept by hour until now is from the next day on."""
    months = PeriodRule(0, 0, 3)
    first = folded(Periods("UTC"), (NOW, 5), rule=months)
    assert first.made.sums == {(Unit.MONTH, month_of(NOW.date())): 5}
    later = NOW + timedelta(days=5)
    again = folded(first, (later, 7), rule=PeriodRule(24, 20, 3), now=later)
    assert again.made.sums == {**first.made.sums, (Unit.HOUR, hour_of(later, "UTC")): 7}


def test_a_sum_of_nothing_takes_no_room() -> None:
    """Changes that cancel each other leave no sum."""
    assert folded(Periods("UTC"), (NOW, 5), (NOW, -5)).made.sums == {}


def test_both_axes() -> None:
    """A change that is effective on another date counts there, on the second axis alone."""
    rule = replace(RULE, effective=True)
    begin = begun(rule, None, count=0, until="")
    changes = [(key(NOW), None, Decimal(1)), (key(NOW), "2026-02-03", Decimal(20))]
    kept = begin.folded(changes, rule, NOW)
    assert kept.made.sums == {(Unit.HOUR, hour_of(NOW, "UTC")): 21}
    assert kept.effective is not None
    assert kept.effective.sums == {
        (Unit.DAY, ordinal("2026-03-29")): 1,
        (Unit.MONTH, month_of(date(2026, 2, 1))): 20,
    }
    assert kept.effective.borders.hours == NEVER


def test_sums_begin_again_where_they_cannot_go_on() -> None:
    """In another zone, or with another axis; and after what was merged without them."""
    kept = folded(Periods("UTC", "since"), (NOW, 5))
    assert begun(RULE, kept, count=9, until="until") is kept
    assert begun(RULE, None, count=0, until="") == Periods("UTC")
    assert begun(RULE, None, count=0, until="until") == Periods("UTC")
    assert begun(RULE, None, count=9, until="until") == Periods("UTC", "until")
    berlin = begun(replace(RULE, zone=BERLIN), kept, count=9, until="until")
    assert berlin == Periods(BERLIN, "until")
    both = begun(replace(RULE, effective=True), kept, count=9, until="until")
    assert both == Periods("UTC", "until", Axis(), Axis())
    assert begun(RULE, both, count=9, until="later") == Periods("UTC", "later")


@pytest.mark.parametrize(
    "value", ["1", "-0.5", "12345678901234567890123456789012345678", "1E+100", "-1.5E-120"]
)
def test_text_and_back(value: str) -> None:
    """Every amount comes back exactly, in every kind of period, on both axes."""
    sums: dict[Place, Decimal] = {
        (Unit.HOUR, 1_972_801): Decimal(value),
        (Unit.HOUR, 1_972_805): Decimal(-3),
        (Unit.DAY, 739_000): Decimal(value),
        (Unit.MONTH, 24_310): Decimal(value),
    }
    axis = Axis(Borders(739_001, 738_990, 24_200), sums)
    for kept in (Periods(BERLIN, "x", axis), Periods("UTC", "", axis, Axis(axis.borders))):
        assert of_text(to_text(kept)) == kept


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"zone":"UTC","since":"","made":[1,2]}'])
def test_another_text_is_refused(text: str) -> None:
    """What `to_text` did not make is a ValueError, whatever it is."""
    with pytest.raises(ValueError):  # noqa: PT011 (its text is of json, or ours)
        of_text(text)


def test_they_stay_within_their_room() -> None:
    """The oldest are put together first, and the sum of all stays what it is."""
    rule = PeriodRule(700, 400, 1200)
    times = [NOW - timedelta(hours=hours) for hours in range(0, 9000, 7)]
    value = Decimal("123456789.123456789")
    given = [(key(at), None, value) for at in times]
    kept = Periods("UTC").folded(given, rule, NOW).made
    assert total_wide(kept.sums.values()) == EXACT.multiply(value, len(times))
    assert len(to_text(Periods("UTC", "", kept))) < 5_300
    assert (Unit.HOUR, hour_of(NOW, "UTC")) in kept.sums
    free = Axis(Borders.of(rule, NOW)).added(
        (place_made(Borders.of(rule, NOW), name, "UTC"), change) for name, _, change in given
    )
    for most in (2000, 300, 40):
        fitted = free.fitted("UTC", most)
        assert len(to_text(Periods("UTC", "", fitted))) < most + 50
        for name, _, _ in given:
            place = place_made(fitted.borders, name, "UTC")
            assert place is None or place in fitted.sums
    assert fitted.sums == {}


def test_what_is_put_together_is_the_oldest_and_no_more() -> None:
    """A day of hours by its zone, a month of days, and of months alone the oldest."""
    kathmandu, one = "Asia/Kathmandu", Decimal(1)
    start = datetime(2026, 3, 28, 18, 15, tzinfo=UTC)  # midnight there
    hours = [((Unit.HOUR, hour_of(start + timedelta(hours=h), kathmandu)), one) for h in range(30)]
    kept = Axis().added(hours)
    assert kept.fitted(kathmandu, len(text_of(kept))) is kept
    fitted = kept.fitted(kathmandu, len(text_of(kept)) - 1)
    assert fitted.borders == Borders(hours=ordinal("2026-03-30"))
    assert fitted.sums[Unit.DAY, ordinal("2026-03-29")] == 24
    days = Axis(Borders(hours=ordinal("2026-02-10"))).added(
        ((Unit.DAY, ordinal("2026-02-01") + n), one) for n in range(40)
    )
    months = days.fitted("UTC", len(text_of(days)) - 1)
    assert months.borders == Borders(ordinal("2026-03-01"), ordinal("2026-03-01"))
    assert months.sums[Unit.MONTH, 24_313] == 28
    left = Axis(Borders(740_000, 740_000, 24_200)).added(
        ((Unit.MONTH, 24_300 + n), one) for n in range(9)
    )
    assert left.fitted("UTC", len(text_of(left)) - 1).borders.months == 24_301


def text_of(axis: Axis) -> str:
    """Return the text of an axis alone."""
    return to_text(Periods("UTC", "", axis))[len('{"zone":"UTC","since":"","made":') : -1]


def test_the_second_axis_stays_within_its_room_too() -> None:
    """Of changes that are effective on hundreds of days the oldest are put together."""
    rule = PeriodRule(24, 62, 120, effective=True)
    given = [
        (key(NOW), (NOW.date() + timedelta(days=n)).isoformat(), Decimal(10**9)) for n in range(900)
    ]
    kept = begun(rule, None, count=0, until="").folded(given, rule, NOW).effective
    assert kept is not None
    assert total_wide(kept.sums.values()) == 900 * 10**9
    assert len(text_of(kept)) <= BYTES_MAX


def test_what_the_default_rule_takes() -> None:
    """The documents say it: at most 290 sums, of seven digits in about 3 KB."""
    hours = (*range(120), *range(120, 24 * 366 * 11, 24))
    given = [(key(NOW - timedelta(hours=hour)), None, Decimal(4711)) for hour in hours]
    kept = Periods("UTC").folded(given, PeriodSettings().rule(), NOW)
    assert 250 < len(kept.made.sums) < 290
    whole = {place: Decimal(1234567) for place in kept.made.sums}
    assert 2800 < len(to_text(replace(kept, made=replace(kept.made, sums=whole)))) < 3400


def test_the_first_pattern_counts() -> None:
    """As for shards."""
    rules = {"usage/a*": RULE, "usage/*": PeriodRule(0, 0, 1)}
    names: Sequence[str] = ("usage/ab", "usage/b", "other")
    assert [rule_of(rules, name) for name in names] == [RULE, PeriodRule(0, 0, 1), None]


def test_the_last_day_there_is() -> None:
    """An id of the year 9999 has a period, though its zone may have no date for it."""
    at = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)
    place = place_made(Borders(), key(at), "Asia/Kathmandu")
    assert place == (Unit.HOUR, hour_of(at, "UTC"))
    kept = Axis(Borders()).added([((Unit.DAY, at.toordinal()), Decimal(1))])
    assert kept.fitted("UTC", 20).sums == {}
