"""The groups of settings that hold for the counters of a pattern: budgets, and sums by period."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ledger.core.budget_rules import BUCKETS, BudgetRule, OnExpiry, OnOutage, WindowName
from ledger.core.periods import PeriodRule, zone_of
from ledger.settings.groups import Group, Seconds, rule

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

    All sums of a counter take at most 5 KB of its net change, and twice that with `effective`: if
    more would be needed, the oldest are combined earlier.
    """

    hours: Annotated[int, Field(ge=0, le=HOURS_MAX)] = 72
    """For how many hours there is a sum of each; older sums become those of days."""
    days: Annotated[int, Field(ge=0, le=DAYS_MAX)] = 62
    """For how many days there is a sum of each; older sums become those of months."""
    months: Annotated[int, Field(ge=0, le=MONTHS_MAX)] = 120
    """For how many months there is a sum of each."""
    zone: str = "UTC"
    """The IANA time zone in which days and months begin, such as Europe/Berlin."""
    effective: bool = False
    """Whether there are sums by the effective date of changes, too."""

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


GRANT_LIFE_MIN = 1.0
GRANT_LIFE_MAX = 86_400.0
LATE_MAX = 31 * 86_400.0
ROLLING_MIN = 60.0 * BUCKETS
ROLLING_MAX = 366 * 86_400.0


class BudgetSettings(Group):
    """How the limits of some counters are kept, see `ledger.budgets`."""

    window: WindowName = "none"
    """Each hour (of UTC), day or month is a budget of its own: the id of a spend says which. With
    none there is one budget for all time."""
    zone: str = "UTC"
    """The IANA time zone in which the days and months of a window begin."""
    late: Seconds = 0.0
    """How long after its end a window may be spent from, at most 31d. A new spend is never older
    than `retry_horizon`."""
    grant_life: Seconds = 60.0
    """How long a process may spend a grant, 1s to 1d. A process that crashed keeps the rest of its
    grant so long, and `signature_lifetime` and `clock_skew` more: 17 minutes with the defaults.
    Then the compactor's next visit frees the rest."""
    on_outage: OnOutage = "refuse"
    """What becomes of a spend while no grant can be had: refuse, or allow, over the limit."""
    on_expiry: OnExpiry = "void"
    """What becomes of a hold that expires: void gives its amount back, settle charges it. Of
    several budgets the first decides."""
    rolling: Seconds = 0.0
    """The limit is that of any span so long: what was spent comes back, in 24 parts. A span is 24
    minutes to 366d, a multiple of 24s; 0s: there is none."""

    credits: bool = False
    """Whether the budget may be credited in any region, by deliveries, top-ups, returns: on or off.
    Not with a window, a rolling limit, or spends that an outage lets through."""

    def rule(self) -> BudgetRule:
        """Return these settings as the contract has them."""
        return BudgetRule(
            self.window,
            self.zone,
            self.late,
            self.grant_life,
            self.on_outage,
            self.on_expiry,
            self.rolling,
            self.credits,
        )

    @field_validator("zone")
    @classmethod
    def _is_zone(cls, zone: str) -> str:
        return checked_zone(zone)

    @field_validator("grant_life")
    @classmethod
    def _is_life(cls, seconds: float) -> float:
        if not GRANT_LIFE_MIN <= seconds <= GRANT_LIFE_MAX:
            raise rule("grant_life must be from a second to a day")
        return seconds

    @field_validator("rolling")
    @classmethod
    def _is_rolling(cls, seconds: float) -> float:
        if seconds and (not ROLLING_MIN <= seconds <= ROLLING_MAX or seconds % BUCKETS):
            raise rule(
                f"rolling must be from {ROLLING_MIN / 60:g} minutes to a year, and {BUCKETS} times"
                " whole seconds"
            )
        return seconds

    @model_validator(mode="after")
    def _fits_window(self) -> Self:
        if self.window == "none" and (self.late or self.zone != "UTC"):
            raise rule("late and zone are those of a window, and there is none")
        if self.window != "none" and self.rolling:
            raise rule(
                "rolling is the limit of any span, window that of hours, days or months: choose one"
            )
        if self.late > LATE_MAX:
            raise rule("late must be 31 days at most")
        return self

    @model_validator(mode="after")
    def _fits_credits(self) -> Self:
        if not self.credits:
            return self
        if self.window != "none" or self.rolling:
            raise rule("credits are of a budget without a window, and without a rolling limit")
        if self.on_outage != "refuse":
            raise rule("credits need on_outage:refuse: what was let through names no grant")
        return self


Budgets = dict[str, Annotated[BudgetSettings, BeforeValidator(or_defaults)]]
"""By pattern; the first one that a counter matches counts."""
