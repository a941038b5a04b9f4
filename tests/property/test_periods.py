"""Sums by period against a count by hand: however changes are folded, whatever ages meanwhile."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.entry import entry_id
from ledger.core.periods import Borders, PeriodRule, Unit, begun, of_text, to_text

ZONES = ("UTC", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "America/St_Johns")
BEGIN = datetime(2026, 2, 20, tzinfo=UTC)
SECONDS = 80 * 86_400

rules = st.builds(
    PeriodRule,
    st.integers(0, 200),
    st.integers(0, 60),
    st.integers(1, 4),
    st.sampled_from(ZONES),
    st.booleans(),
)
times = st.integers(0, SECONDS).map(lambda seconds: BEGIN + timedelta(seconds=seconds))
days = st.none() | st.integers(-60, 120).map(lambda far: BEGIN.date() + timedelta(days=far))
changes = st.tuples(times, days, st.integers(-(10**20), 10**20))
folds = st.lists(st.tuples(times, st.lists(changes, max_size=6)), min_size=1, max_size=6)


def counted(
    borders: Borders, at: datetime, effective: date | None, zone: str, *, by_date: bool
) -> tuple[str, str] | None:
    """Return a name of the period of a change, told from its local time alone."""
    local = at.astimezone(ZoneInfo(zone))
    day = effective if by_date and effective is not None else local.date()
    if not by_date and day.toordinal() >= borders.hours:
        return "hour", local.replace(minute=0, second=0).astimezone(UTC).isoformat()
    if day.toordinal() >= borders.days:
        return "day", day.isoformat()
    return ("month", f"{day:%Y-%m}") if 12 * day.year + day.month - 1 >= borders.months else None


def named(place: tuple[Unit, int]) -> tuple[str, str]:
    """Return the same name of a place."""
    unit, number = place
    if unit is Unit.HOUR:
        return "hour", datetime.fromtimestamp(900 * number, UTC).isoformat()
    if unit is Unit.DAY:
        return "day", date.fromordinal(number).isoformat()
    return "month", f"{number // 12:04d}-{number % 12 + 1:02d}"


@given(rules, folds)
def test_folded_in_any_order_each_change_is_in_its_period(
    rule: PeriodRule,
    folding: list[tuple[datetime, list[tuple[datetime, date | None, int]]]],
) -> None:
    """The borders are the latest that any fold had; what is in no period is before them."""
    kept = begun(rule, None, count=0, until="")
    for number, (now, made) in enumerate(folding):
        given_changes = [
            (
                str(entry_id(at, number)),
                None if day is None else day.isoformat(),
                Decimal(change),
            )
            for at, day, change in made
        ]
        kept = of_text(to_text(kept.folded(given_changes, rule, now)))
    for axis, by_date in ((kept.made, False), (kept.effective, True)):
        if axis is None:
            assert not rule.effective
            continue
        right: defaultdict[tuple[str, str], int] = defaultdict(int)
        for _, made in folding:
            for at, day, change in made:
                name = counted(axis.borders, at, day, rule.zone, by_date=by_date)
                if name is not None:
                    right[name] += change
        shown = {named(place): int(value) for place, value in axis.sums.items()}
        assert shown == {name: value for name, value in right.items() if value}
        latest = Borders()
        for now, _ in folding:
            latest = latest.later(Borders.of(rule, now))
        assert (axis.borders.days, axis.borders.months) == (latest.days, latest.months)
