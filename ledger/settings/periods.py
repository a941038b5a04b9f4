"""The settings of sums by period: which counters have them, for how long, in which zone."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ledger.core.periods import PeriodRule, zone_of
from ledger.settings.groups import Group, rule

HOURS_MAX = 31 * 24
DAYS_MAX = 400
MONTHS_MAX = 1_200
NO_ZONES = frozenset({"localtime", "posixrules", "Factory"})
"""Names that mean another zone on each machine, or no zone."""
NO_FOLDERS = ("right/", "posix/")
"""Directories of zones, with leap seconds or without, that only some machines have."""


def or_defaults(value: object) -> object:
    """Return what a pattern was given: alone, as `usage/*:`, all defaults."""
    return {} if value is None else value


def checked_zone(zone: str) -> str:
    """Return the name of a time zone that is the same on every machine.

    Raises:
        ValueError: it is not one.
    """
    unknown = rule(f"{zone!r} is not a time zone of the IANA database, such as Europe/Berlin")
    if zone in NO_ZONES or zone.startswith(NO_FOLDERS):
        raise unknown
    try:
        zone_of(zone)
    except (ValueError, KeyError, OSError):
        raise unknown from None
    return zone


class PeriodSettings(Group):
    """How long sums are kept by hour, by day and by month, at least; 0 for none of a kind.

    Older ones are combined into those of the next kind. All sums of a counter take at most 5 KB of
    its net change, and twice that with `effective`: if more would be needed, the oldest are
    combined earlier. `zone` is the IANA time zone in which days and months begin.
    """

    hours: Annotated[int, Field(ge=0, le=HOURS_MAX)] = 72
    days: Annotated[int, Field(ge=0, le=DAYS_MAX)] = 62
    months: Annotated[int, Field(ge=0, le=MONTHS_MAX)] = 120
    zone: str = "UTC"
    effective: bool = False

    def rule(self) -> PeriodRule:
        """Return these settings in the form of the contract."""
        return PeriodRule(self.hours, self.days, self.months, self.zone, self.effective)

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, zone: str) -> str:
        return checked_zone(zone)

    @model_validator(mode="after")
    def _keeps_some(self) -> Self:
        if not (self.hours or self.days or self.months):
            raise rule("hours, days and months are all 0: no sum would be kept")
        return self


Periods = dict[str, Annotated[PeriodSettings, BeforeValidator(or_defaults)]]
"""Rules by pattern; the first pattern that a counter matches counts."""
