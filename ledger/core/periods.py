"""Sums of a counter by hour, day and month: an attribute of its one net change.

They commit, replicate and are lost together with the net, so each period is as exact as the total:
the net's sum of the period + every entry of that period which the net does not name. Sums
kept in separate items would reach a region before or after the net, and be wrong in between.

How finely a time is kept depends on three borders, which only ever move forward::

    opening  |  by month  |   by day   |  by hour ...
             months       days         hours          (local dates of the pattern's zone)

A fold moves what has aged past a border into the coarser sum, in the same write. What precedes all
of them, or was merged before periods were kept (`since`), is in no sum: it is the rest of the
net's change. A reader takes the borders from the net, not from its clock, and assigns unmerged
entries as the net would.

There are two axes: when a change was *made*, by the time in its id, and, if the rule asks for it,
when it is *effective*, by its effective date, or else the date on which it was made. The second has
no hours.

Pure: no clock, no randomness, no I/O.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from ledger.core import amounts, ids

BYTES_MAX = 5 * 1024
"""Bytes of one axis, as text: a net is written twice for its changes, which makes 0.02 write units
a change at folds of 500. Beyond it the oldest sums are combined."""
NEVER = date.max.toordinal() + 1
"""A border that no date reaches: that of hours on an axis without hours."""
MOMENTS_KEPT = 4096
MONTHS = 12
_MINUTE = 16
"""Characters of a sort key up to its minute."""
_QUARTER_SECONDS = 900
"""The world's zones are whole quarters of an hour apart, so a local hour begins at a quarter."""


class Unit(IntEnum):
    """A kind of period, the coarsest last."""

    HOUR = 0
    DAY = 1
    MONTH = 2


Place = tuple[Unit, int]
"""A period: an hour by its first quarter of an hour since 1970, a day by its ordinal, a month by
the number of months since the year 0."""


@dataclass(frozen=True, slots=True)
class PeriodRule:
    """How long sums are kept by hour, by day and by month, at least; and in which zone.

    With 0 there are no sums of that kind. `effective` adds the second axis.
    """

    hours: int
    days: int
    months: int
    zone: str = "UTC"
    effective: bool = False


@dataclass(frozen=True, slots=True)
class Borders:
    """The first day of sums by hour, of sums by day, and of any sums (by month).

    All are ordinals; `days` is the first of a month.
    """

    hours: int = 0
    days: int = 0
    months: int = 0

    @staticmethod
    def of(rule: PeriodRule, now: datetime) -> "Borders":
        """Return the borders of a rule at an aware time.

        For a kind that it does not keep, the border is a day, or a month, ahead: what is folded is
        older, and a rule that keeps the kind later finds the border there.
        """
        zone = zone_of(rule.zone)
        today = now.astimezone(zone).date()
        hours = (now - timedelta(hours=rule.hours)).astimezone(zone).date()
        days = min(today - timedelta(days=rule.days), hours if rule.hours else today)
        days_from = days.replace(day=1).toordinal()
        months = min(month_of(today) - rule.months, month_of(days))
        return Borders(
            hours=hours.toordinal() if rule.hours else today.toordinal() + 1,
            days=days_from if rule.hours or rule.days else _first_after(month_of(today)),
            months=months,
        )

    def later(self, other: "Borders") -> "Borders":
        """Return the later of each border: a period that one combines cannot be divided again."""
        return Borders(
            max(self.hours, other.hours),
            max(self.days, other.days),
            max(self.months, other.months),
        )

    def place(self, day: int, hour: int | None) -> Place | None:
        """Return the period of a local day, and of an hour in it; None before all borders."""
        if hour is not None and day >= self.hours:
            return Unit.HOUR, hour
        if day >= self.days:
            return Unit.DAY, day
        month = month_of(date.fromordinal(day))
        return (Unit.MONTH, month) if month >= self.months else None

    def first(self, unit: Unit) -> int:
        """Return the first day from which sums of a kind are complete, as an ordinal."""
        if unit is Unit.HOUR:
            return self.hours
        if unit is Unit.DAY:
            return self.days
        return first_day(self.months).toordinal() if self.months > 0 else 0


@dataclass(frozen=True, slots=True)
class Axis:
    """The sums of the periods behind each border; those of 0 are left out."""

    borders: Borders = Borders()
    sums: Mapping[Place, Decimal] = field(default_factory=dict)

    def added(self, changes: Iterable[tuple[Place | None, Decimal]]) -> "Axis":
        """Return these sums with changes added; those without a period are in none."""
        found: dict[Place, list[Decimal]] = {}
        for place, change in changes:
            if place is not None:
                found.setdefault(place, [self.sums.get(place, Decimal(0))]).append(change)
        sums = {place: amounts.total_wide(each) for place, each in found.items()}
        return replace(self, sums=_without_zeros({**self.sums, **sums}))

    def behind(self, borders: Borders, zone: str) -> "Axis":
        """Return these sums under later borders, combined where they have aged past one."""
        later = self.borders.later(borders)
        if later == self.borders:
            return self
        moved = ((later.place(*_day_of(place, zone)), each) for place, each in self.sums.items())
        return Axis(later).added(moved)

    def fitted(self, zone: str, bytes_max: int = BYTES_MAX) -> "Axis":
        """Return these sums in at most `bytes_max` bytes: the oldest are combined first."""
        axis = self
        while axis.sums and len(_axis_text(axis)) > bytes_max:
            axis = axis.behind(_coarser(axis, zone), zone)
        return axis


@dataclass(frozen=True, slots=True)
class Periods:
    """The sums of a net by period. What was merged up to the id `since` may be in none of them."""

    zone: str
    since: str = ""
    made: Axis = Axis()
    effective: Axis | None = None

    def axis(self, *, effective: bool) -> Axis | None:
        """Return one axis; None if its sums are not kept."""
        return self.effective if effective else self.made

    def folded(
        self,
        changes: Sequence[tuple[str, str | None, Decimal]],
        rule: PeriodRule,
        now: datetime,
    ) -> "Periods":
        """Return the sums with changes added, as (sort key, effective date, change)."""
        borders = Borders.of(rule, now)
        made = self.made.behind(borders, self.zone)
        made = made.added((place_made(made.borders, key, self.zone), by) for key, _, by in changes)
        effective = self.effective
        if effective is not None:
            axis = effective.behind(replace(borders, hours=NEVER), self.zone)
            effective = axis.added(
                (place_effective(axis.borders, key, given, self.zone), change)
                for key, given, change in changes
            ).fitted(self.zone)
        return replace(self, made=made.fitted(self.zone), effective=effective)


def rule_of(rules: Mapping[str, PeriodRule], counter: str) -> PeriodRule | None:
    """Return the rule of the first pattern that a counter matches; None if it matches none."""
    return next((rule for each, rule in rules.items() if fnmatchcase(counter, each)), None)


def begun(rule: PeriodRule, periods: Periods | None, *, count: int, until: str) -> Periods:
    """Return the sums of a net to continue with under a rule.

    They begin again, after what is merged up to the id `until`, if there are none, or if the zone
    or the axes differ. `count` is how many entries are merged.
    """
    is_same = periods is not None and periods.zone == rule.zone
    if periods is not None and is_same and (periods.effective is not None) == rule.effective:
        return periods
    return Periods(rule.zone, until if count else "", Axis(), Axis() if rule.effective else None)


def place_made(borders: Borders, sort_key: str, zone: str) -> Place | None:
    """Return the period in which a change was made; None for a foreign sort key."""
    if ids.parse(sort_key) is None:
        return None
    return borders.place(*_moment(sort_key[:_MINUTE], zone))


def place_effective(
    borders: Borders, sort_key: str, effective: str | None, zone: str
) -> Place | None:
    """Return the period in which a change is effective: by default that in which it was made."""
    day = effective_day(effective)
    if day is None:
        if ids.parse(sort_key) is None:
            return None
        day = _moment(sort_key[:_MINUTE], zone)[0]
    return borders.place(day, None)


def effective_day(text: str | None) -> int | None:
    """Return the ordinal of a date; None without one, or if another writer's is not a date."""
    try:
        return None if text is None else date.fromisoformat(text).toordinal()
    except ValueError:
        return None


def month_of(day: date) -> int:
    """Return the number of a date's month."""
    return day.year * MONTHS + day.month - 1


def first_day(month: int) -> date:
    """Return the first day of a month by its number."""
    return date(month // MONTHS, month % MONTHS + 1, 1)


def _first_after(month: int) -> int:
    """Return the first day after a month, as an ordinal."""
    return NEVER if month == month_of(date.max) else first_day(month + 1).toordinal()


def hour_of(at: datetime, zone: str) -> int:
    """Return the number of the local hour of an aware time."""
    start = at.astimezone(zone_of(zone)).replace(minute=0, second=0, microsecond=0)
    return int(start.timestamp()) // _QUARTER_SECONDS


def start_of(place: Place, zone: str) -> datetime:
    """Return when a period begins, in its zone."""
    unit, number = place
    if unit is Unit.HOUR:
        return datetime.fromtimestamp(number * _QUARTER_SECONDS, zone_of(zone))
    day = date.fromordinal(number) if unit is Unit.DAY else first_day(number)
    return datetime(day.year, day.month, day.day, tzinfo=zone_of(zone))


@lru_cache
def zone_of(name: str) -> tzinfo:
    """Return a time zone of the IANA database.

    Raises:
        ValueError, KeyError, OSError: there is no zone of this name.
    """
    return UTC if name == "UTC" else ZoneInfo(name)


# Entries of one collection share minutes, and a zone's rules take a microsecond and more.
@lru_cache(MOMENTS_KEPT)
def _moment(minute: str, zone: str) -> tuple[int, int]:
    """Return the local day and the local hour of a UTC minute."""
    at = datetime.fromisoformat(minute).replace(tzinfo=UTC)
    if at.year == date.max.year:  # its last day may exceed the local dates
        zone = "UTC"
    return at.astimezone(zone_of(zone)).date().toordinal(), hour_of(at, zone)


def _day_of(place: Place, zone: str) -> tuple[int, int | None]:
    """Return the first day of a period, and the hour if it is one."""
    unit, number = place
    if unit is Unit.HOUR:
        return start_of(place, zone).date().toordinal(), number
    return (number if unit is Unit.DAY else first_day(number).toordinal()), None


def _coarser(axis: Axis, zone: str) -> Borders:
    """Return the borders under which the oldest day of hours, or month of days, is combined.

    The kind that has more; if there are only months, the oldest leaves the sums.
    """
    counts = Counter[Unit](unit for unit, _ in axis.sums if unit is not Unit.MONTH)
    unit = counts.most_common(1)[0][0] if counts else Unit.MONTH
    number = min(number for kind, number in axis.sums if kind is unit)
    borders = axis.borders
    if unit is Unit.HOUR:
        return replace(borders, hours=_day_of((unit, number), zone)[0] + 1)
    if unit is Unit.DAY:
        following = _first_after(month_of(date.fromordinal(number)))
        return replace(borders, days=following, hours=max(borders.hours, following))
    return replace(borders, months=number + 1)


def _without_zeros(sums: Mapping[Place, Decimal]) -> dict[Place, Decimal]:
    return {place: each for place, each in sums.items() if each}


def to_text(periods: Periods) -> str:
    """Return sums as the text that a net keeps: numbers of periods as steps from one to the next.

    `{"zone":"UTC","since":"","made":[HOURS,DAYS,MONTHS,[hours],[days],[months]]}`
    """
    parts = [f'"zone":{json.dumps(periods.zone)}', f'"since":{json.dumps(periods.since)}']
    parts.append(f'"made":{_axis_text(periods.made)}')
    if periods.effective is not None:
        parts.append(f'"effective":{_axis_text(periods.effective)}')
    return "{" + ",".join(parts) + "}"


def of_text(text: str) -> Periods:
    """Return the sums that `to_text` made a text of.

    Raises:
        ValueError: it is not in that form.
    """
    try:
        values = json.loads(text, parse_float=Decimal)
        effective = values.get("effective")
        return Periods(
            str(values["zone"]),
            str(values["since"]),
            _axis_of(values["made"]),
            None if effective is None else _axis_of(effective),
        )
    except (KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"the sums by period cannot be read: {error!r}") from None


def _axis_text(axis: Axis) -> str:
    parts = [str(border) for border in (axis.borders.hours, axis.borders.days, axis.borders.months)]
    for unit in Unit:
        before, steps = 0, []
        for number in sorted(each for kind, each in axis.sums if kind is unit):
            steps.append(f"{number - before},{amounts.to_text(axis.sums[unit, number])}")
            before = number
        parts.append(f"[{','.join(steps)}]")
    return f"[{','.join(parts)}]"


def _axis_of(values: Sequence[Any]) -> Axis:
    hours, days, months, *kinds = values
    sums: dict[Place, Decimal] = {}
    for unit, steps in zip(Unit, kinds, strict=True):
        number = 0
        for step, amount in zip(steps[::2], steps[1::2], strict=True):
            number += int(step)
            sums[unit, number] = amounts.of_text(amount)
    return Axis(Borders(int(hours), int(days), int(months)), sums)
