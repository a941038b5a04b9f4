"""The sums of a counter in each hour, day or month, from collections as a region shows them.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Literal, NamedTuple, TypeVar

from ledger.core import amounts, ids, periods
from ledger.core.errors import InvalidInput
from ledger.core.fold import Collection, Portions, in_parts
from ledger.core.periods import NEVER, Axis, Borders, PeriodRule, Place, Unit

By = Literal["hour", "day", "month"]
"""The kinds of periods."""
UNITS: Mapping[str, Unit] = {"hour": Unit.HOUR, "day": Unit.DAY, "month": Unit.MONTH}
PERIODS_MAX = 1_000
"""The most periods that one call returns, 41 days of hours: each takes some 10 microseconds."""
QUARTERS = 4
"""Quarters of an hour; hours are numbered by their first quarter."""
Slot = TypeVar("Slot", Place, int)
_INSTANT = timedelta(microseconds=1)
_YEARS = (2, 9998)
"""The years of bounds: each of their times exists in every zone."""


@dataclass(frozen=True, slots=True)
class Period:
    """The sum of a counter's changes from `start` to `end`, excluded; both are aware.

    `is_whole` is False if changes of this time may have been merged before periods were kept: those
    are in `opening`.
    """

    start: datetime
    end: datetime
    value: Decimal
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class PeriodTotals:
    """A counter's sums by period, contiguous, including those of 0.

    `opening` is the sum of everything before the first, `total` that of everything, also of what is
    effective later than the last: as with a `Total`, each change that had reached `region` is
    counted once in them. All are exact; those of periods may have more than 38 digits where the
    total does not.
    """

    counter: str
    by: By
    zone: str
    periods: tuple[Period, ...]
    opening: Decimal
    total: Decimal
    region: str
    as_of: datetime
    effective: bool = False

    @property
    def closing(self) -> Decimal:
        """The sum of everything up to the end of the last period."""
        return amounts.total_wide([self.opening, *(period.value for period in self.periods)])


@dataclass(frozen=True, slots=True)
class PeriodQuery:
    """The sums asked for, of any counter; `now` bounds those without an `until`."""

    by: By
    _: KW_ONLY
    since: datetime | date | None
    until: datetime | date | None
    effective: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class CheckedPeriodQuery:
    """The sums asked for of one counter, by its rule."""

    counter: str
    rule: PeriodRule
    by: By
    since: datetime | None
    until: datetime | None
    effective: bool
    now: datetime


def asked_of(counter: str, rule: PeriodRule | None, asking: PeriodQuery) -> CheckedPeriodQuery:
    """Return the sums asked for of a counter, checked.

    Raises:
        InvalidInput: no such sums are kept of the counter, or a bound is not an aware time or a
            date, or `since` is after `until`.
    """
    by, effective = asking.by, asking.effective
    if not isinstance(by, str) or by not in UNITS:
        raise InvalidInput(f"by must be one of {', '.join(UNITS)}, got {by!r}")
    if rule is None:
        raise InvalidInput(
            f"no sums by period are kept of counter {counter!r}: `ledger table set periods"
            " PATTERN=hours:72,days:62,months:120` keeps them for later changes"
        )
    if effective and not rule.effective:
        raise InvalidInput(
            f"no sums by effective date are kept of counter {counter!r}: its rule of periods has no"
            " `effective`"
        )
    if effective and by == "hour":
        raise InvalidInput("changes are effective from a date: they have no sums by hour")
    if not {"hour": rule.hours, "day": rule.hours or rule.days}.get(by, 1):
        raise InvalidInput(f"no sums by {by} are kept of counter {counter!r}")
    since = _bound("since", asking.since, rule.zone)
    until = _bound("until", asking.until, rule.zone)
    if since is not None and until is not None and since > until:
        raise InvalidInput(f"since must not be after until, got {asking.since} and {asking.until}")
    return CheckedPeriodQuery(counter, rule, by, since, until, effective, asking.now)


def _bound(name: str, bound: object, zone: str) -> datetime | None:
    """Return a bound as a time in UTC; a date means its beginning in the zone of the periods.

    In UTC because Python compares times of one zone by local clock time.
    """
    if bound is None:
        return None
    if not isinstance(bound, date) or (isinstance(bound, datetime) and bound.tzinfo is None):
        raise InvalidInput(f"{name} must be a date or an aware datetime, got {bound!r}")
    if not _YEARS[0] <= bound.year <= _YEARS[1]:
        raise InvalidInput(f"{name} must be within the years 2 to 9998, got {bound}")
    if not isinstance(bound, datetime):
        bound = datetime(bound.year, bound.month, bound.day, tzinfo=periods.zone_of(zone))
    return bound.astimezone(UTC)


def period_totals(
    asked: CheckedPeriodQuery, collections: Sequence[Collection], *, region: str, as_of: datetime
) -> Portions[PeriodTotals]:
    """Return the sums by period of a counter's shards, whose entries are given up.

    Raises:
        InvalidInput: sums of this kind are not kept so far back, or too many are asked for; or a
            pipeline adds to the counter.
        DamagedItem, AmountOverflow: as for a total.
    """
    if any(collection.sums for collection in collections):
        raise InvalidInput(
            f"a pipeline adds to counter {asked.counter!r}: what it adds has no times, so there are"
            " no sums by period"
        )
    added = yield from _added_up(asked, collections)
    total = amounts.within_range(added.total)
    unit = UNITS[asked.by]
    found = yield from _by_unit(added.sums, unit, asked.rule.zone)
    first = _first(asked, added.borders, unit, found)
    shown = tuple(_shown(asked, unit, first, found, added.whole_from))
    opening = total
    for portion in in_parts(found.items()):
        later = [value for number, value in portion if first is None or number >= first]
        opening = amounts.EXACT.subtract(opening, amounts.total_wide(later))
        yield
    return PeriodTotals(
        asked.counter,
        asked.by,
        asked.rule.zone,
        shown,
        opening,
        total,
        region,
        as_of,
        asked.effective,
    )


class _Added(NamedTuple):
    """The sums of all shards behind the latest borders, and of all; `whole_from` is from when on.

    None if they are whole from the beginning.
    """

    borders: Borders
    sums: dict[Place, Decimal]
    total: Decimal
    whole_from: datetime | None


def _added_up(asked: CheckedPeriodQuery, collections: Sequence[Collection]) -> Portions[_Added]:
    zone, lowest = asked.rule.zone, Borders(hours=NEVER if asked.effective else 0)
    kept: list[Axis] = []
    since = ""
    for collection in collections:
        net = collection.net
        before = None if net is None or net.periods is None else periods.of_text(net.periods)
        count, until = (net.count, net.until) if net else (0, "")
        found = periods.begun(asked.rule, before, count=count, until=until)
        since = max(since, found.since)
        kept.append(found.axis(effective=asked.effective) or Axis())
        lowest = lowest.later(kept[-1].borders)
    # One dictionary for all: each entry may have a period of its own.
    sums, total = dict[Place, Decimal](), Decimal(0)
    for collection, axis in zip(collections, kept, strict=True):
        if collection.net is not None:
            total = amounts.EXACT.add(total, collection.net.change)
        _add(sums, axis.behind(lowest, zone).sums.items())
        for portion in collection.take_unmerged():
            total = amounts.total_wide([total, *(change for _, _, change in portion)])
            _add(sums, _placed(asked, portion, lowest))
            yield
    return _Added(lowest, sums, total, ids.moment_of(since) if since else None)


def _placed(
    asked: CheckedPeriodQuery, entries: Sequence[tuple[str, str | None, Decimal]], borders: Borders
) -> Iterator[tuple[Place, Decimal]]:
    """Yield period and change of each of some entries that have one."""
    zone = asked.rule.zone
    for key, effective, change in entries:
        if asked.effective:
            place = periods.place_effective(borders, key, effective, zone)
        else:
            place = periods.place_made(borders, key, zone)
        if place is not None:
            yield place, change


def _add(sums: dict[Slot, Decimal], changes: Iterable[tuple[Slot, Decimal]]) -> None:
    for slot, change in changes:
        sums[slot] = amounts.EXACT.add(sums.get(slot, Decimal(0)), change)


def _by_unit(sums: Mapping[Place, Decimal], unit: Unit, zone: str) -> Portions[dict[int, Decimal]]:
    """Return the sums of one kind of periods; coarser ones lie before all of them."""
    found: dict[int, Decimal] = {}
    for portion in in_parts(sums.items()):
        fine = ((place, value) for place, value in portion if value and place[0] <= unit)
        _add(found, ((_number(place, unit, zone), value) for place, value in fine))
        yield
    return found


def _number(place: Place, unit: Unit, zone: str) -> int:
    """Return the number of the period of a kind in which a finer one begins."""
    return place[1] if place[0] is unit else _number_at(periods.start_of(place, zone), unit, zone)


def _number_at(at: datetime, unit: Unit, zone: str) -> int:
    """Return the number of the period of a kind at an aware time."""
    if unit is Unit.HOUR:
        return periods.hour_of(at, zone)
    day = at.astimezone(periods.zone_of(zone)).date()
    return day.toordinal() if unit is Unit.DAY else periods.month_of(day)


def _first(
    asked: CheckedPeriodQuery, borders: Borders, unit: Unit, found: Mapping[int, Decimal]
) -> int | None:
    """Return the number of the first period to show; None if there is nothing to show.

    Without bounds no further back than the most periods of one call reach.

    Raises:
        InvalidInput: sums of this kind are not kept so far back.
    """
    zone, day = asked.rule.zone, borders.first(unit)
    border = _number_at(_midnight(day, zone), unit, zone) if day else None
    if asked.since is None:
        first = min(found, default=None) if border is None else border
        if first is None or asked.until is not None:
            return first
        return max(first, _furthest(_last(asked, unit), unit, zone))
    wanted = _number_at(asked.since, unit, zone)
    if border is not None and wanted < border:
        raise InvalidInput(
            f"sums by {asked.by} of counter {asked.counter!r} are kept from"
            f" {_midnight(day, zone):%Y-%m-%d} on: since must not be before it, got"
            f" {asked.since.astimezone(periods.zone_of(zone)):%Y-%m-%d %H:%M}"
        )
    return wanted


def _midnight(day: int, zone: str) -> datetime:
    return periods.start_of((Unit.DAY, day), zone)


def _shown(
    asked: CheckedPeriodQuery,
    unit: Unit,
    first: int | None,
    found: Mapping[int, Decimal],
    whole_from: datetime | None,
) -> Iterator[Period]:
    """Yield the periods from the first on to the last."""
    zone, last = asked.rule.zone, _last(asked, unit)
    since, until = asked.since, asked.until
    is_empty = since is not None and until is not None and until <= since
    if first is None or first > last or is_empty:
        return
    if (last - first) // _step(unit) >= PERIODS_MAX:
        raise InvalidInput(
            f"at most {PERIODS_MAX:,} periods are returned by one call: ask for fewer by since"
            " and until, or for longer ones"
        )
    number, start = first, periods.start_of((unit, first), zone)
    while number <= last:
        following = _after(unit, number, zone)
        end = periods.start_of((unit, following), zone)
        # An entry merged earlier could be effective from any date.
        is_whole = whole_from is None or (not asked.effective and start > whole_from)
        yield Period(start, end, found.get(number, Decimal(0)), is_whole)
        number, start = following, end


def _last(asked: CheckedPeriodQuery, unit: Unit) -> int:
    """Return the number of the last period to show: that before `until`, or that of now.

    Not that of the latest change: one far effective date would ask for more than are returned.
    """
    at = asked.now if asked.until is None else asked.until - _INSTANT
    return _number_at(at, unit, asked.rule.zone)


def _furthest(last: int, unit: Unit, zone: str) -> int:
    """Return the number of the first of the most periods of one call that end with the last."""
    number = last - _step(unit) * (PERIODS_MAX - 1)
    if unit is not Unit.HOUR:
        return number
    # Where clocks were set by half an hour, no hour may begin there.
    return _number_at(periods.start_of((unit, number), zone), unit, zone)


def _step(unit: Unit) -> int:
    """Return by how much the numbers of two periods differ: hours are numbered by quarters."""
    return QUARTERS if unit is Unit.HOUR else 1


def _after(unit: Unit, number: int, zone: str) -> int:
    """Return the number of the period after one."""
    if unit is not Unit.HOUR:
        return number + 1
    following = periods.start_of((unit, number), zone).astimezone(UTC) + timedelta(hours=1)
    # Where a clock is set forward by half an hour, an hour has one and a half.
    found = periods.hour_of(following, zone)
    return found if found > number else periods.hour_of(following + timedelta(hours=1), zone)
