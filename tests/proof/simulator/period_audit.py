"""What must hold of sums by period: each change in the one where it was made, or is effective.

It decodes the sums itself, without the production code, and knows the id and the date of every
change from the items that arrived. As for totals, digit n of a sum shows how often change n counts.

- A net's sum of a period has changes of that period alone, each once; what is in none lies before
  all borders. With P1, which the net's whole change is checked for, each is in one place.
- A read of sums by period shows each change in its period, and in the opening sum only what was
  before the first.
"""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from ledger.core import amounts
from ledger.core.entry import Item
from ledger.core.periods import PeriodRule, rule_of
from ledger.demo.harness.digit_tags import digits
from ledger.reads.period_totals import By, PeriodTotals
from ledger.settings import Settings
from proof.simulator.clocks import START

_QUARTER = timedelta(minutes=15)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = 12
DATED_DAYS = 20
"""How many days before the first day the earliest date is that a change is effective from."""
_Place = tuple[str, int] | None


def effective_of(rule: PeriodRule | None, number: int) -> date | None:
    """Return the date from which a change is effective: of every fourth another than today."""
    if rule is None or not rule.effective or number % 4:
        return None
    return START.date() + timedelta(days=number - DATED_DAYS)


def kinds_of(rule: PeriodRule) -> list[tuple[By, bool]]:
    """Return the kinds of sums that a rule keeps, and whether by effective date."""
    kinds: list[tuple[By, bool]] = [("month", False)]
    if rule.hours:
        kinds.append(("hour", False))
    if rule.days:
        kinds.append(("day", False))
    if rule.effective:
        kinds.append(("day" if rule.days else "month", True))
    return kinds


class PeriodAudit:
    """The times of one world's changes, and checks of sums by period against them."""

    def __init__(self, settings: Settings) -> None:
        self._rules = settings.terms.periods
        self._changes: dict[tuple[str, int], tuple[datetime | None, date | None]] = {}
        self._checked: set[tuple[str, str]] = set()

    def rule(self, counter: str) -> PeriodRule | None:
        """Return the rule of a counter's sums, None if none are kept."""
        return rule_of(self._rules, counter)

    def arrived(self, counter: str, numbers: list[int], item: Item, *, is_ours: bool) -> None:
        """Note when changes were made, and from when on they are effective."""
        made = datetime.fromisoformat(item["sk"]["S"][:26]).replace(tzinfo=UTC) if is_ours else None
        text = item.get("effective", {}).get("S")
        effective = None if text is None else date.fromisoformat(text)
        for number in numbers:
            self._changes.setdefault((counter, number), (made, effective))

    def wrong_net(self, counter: str, net: Item) -> str:
        """Return what is wrong with the sums of a net; empty if nothing is."""
        rule, version = self.rule(counter), net["version"]["S"]
        place = (net["pk"]["S"], version)
        if rule is None or place in self._checked:
            return ""
        self._checked.add(place)
        if "periods" not in net:
            return f"the net {version} of {counter} has no sums by period"
        kept = json.loads(net["periods"]["S"])
        if ("effective" in kept) != rule.effective or kept["since"]:
            return f"the sums of net {version} of {counter} are of another rule: {kept}"
        for axis in ("made", "effective") if rule.effective else ("made",):
            said = self._wrong_axis(counter, int(net["change"]["N"]), kept[axis], axis, rule.zone)
            if said:
                return f"net {version}, {axis}: {said}"
        return ""

    def _wrong_axis(self, counter: str, rest: int, kept: list[Any], axis: str, zone: str) -> str:
        hours, days, months, *units = kept
        borders = (int(hours), int(days), int(months))
        for unit, steps in zip(("hour", "day", "month"), units, strict=True):
            number = 0
            for step, amount in zip(steps[::2], steps[1::2], strict=True):
                number += step
                rest -= int(amount)
                if said := self._wrong_sum(
                    counter, int(amount), axis, zone, borders, (unit, number)
                ):
                    return said
        return self._wrong_sum(counter, rest, axis, zone, borders, None)

    def _wrong_sum(
        self,
        counter: str,
        amount: int,
        axis: str,
        zone: str,
        borders: tuple[int, int, int],
        place: _Place,
    ) -> str:
        for number, often in digits(amount).items():
            if (counter, number) not in self._changes:
                return f"{amount} in {place} is the sum of no changes of {counter}"
            right = self._place(counter, number, axis, zone, borders)
            if often != 1 or right != place:
                return f"change {number} of {counter} counts {often} times in {place}, not {right}"
        return ""

    def _place(
        self, counter: str, number: int, axis: str, zone: str, borders: tuple[int, int, int]
    ) -> _Place:
        made, effective = self._changes.get((counter, number), (None, None))
        local = None if made is None else made.astimezone(ZoneInfo(zone))
        day = effective if axis == "effective" and effective is not None else None
        if day is None:
            if local is None:
                return None
            day = local.date()
        if axis == "made" and local is not None and day.toordinal() >= borders[0]:
            start = local.replace(minute=0, second=0, microsecond=0)
            return "hour", (start.astimezone(UTC) - _EPOCH) // _QUARTER
        if day.toordinal() >= borders[1]:
            return "day", day.toordinal()
        month = day.year * _MONTHS + day.month - 1
        return ("month", month) if month >= borders[2] else None

    def wrong_read(self, found: PeriodTotals) -> str:
        """Return what is wrong with a read of sums by period; empty if nothing is."""
        for period in found.periods:
            for number, often in digits(period.value).items():
                at = self._time(found, number)
                if often != 1 or at is None or not period.start <= at < period.end:
                    return (
                        f"change {number} of {found.counter}, of {at}, counts {often} times from"
                        f" {period.start} to {period.end}"
                    )
        first = found.periods[0].start if found.periods else None
        for number in digits(found.opening):
            at = self._time(found, number)
            if (found.counter, number) not in self._changes:
                return f"{found.opening} before {first} is the sum of no changes of {found.counter}"
            if at is not None and first is not None and at >= first:
                return f"change {number} of {found.counter}, of {at}, counts before {first}"
        return self._wrong_rest(found)

    def _wrong_rest(self, found: PeriodTotals) -> str:
        """Return what is wrong with what no period shows: it comes later than the last."""
        last = found.periods[-1].end if found.periods else None
        rest = amounts.total_wide([found.total, found.closing.copy_negate()])
        for number, often in digits(rest).items():
            at = self._time(found, number)
            if often != 1 or at is None or (last is not None and at < last):
                what = f"change {number} of {found.counter}, of {at}"
                return f"{what}, counts {often} times after {last}"
        return ""

    def _time(self, found: PeriodTotals, number: int) -> datetime | None:
        made, effective = self._changes.get((found.counter, number), (None, None))
        if found.effective and effective is not None:
            return datetime(
                effective.year, effective.month, effective.day, tzinfo=ZoneInfo(found.zone)
            )
        if found.effective and made is not None:
            day = made.astimezone(ZoneInfo(found.zone)).date()
            return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(found.zone))
        return made
