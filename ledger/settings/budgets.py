"""The settings of budgets: which counters have a limit, and by which rule."""

from typing import Annotated, Self

from pydantic import BeforeValidator, field_validator, model_validator

from ledger.core.budgets import BUCKETS, BudgetRule, OnExpiry, OnOutage, WindowName
from ledger.settings.groups import Group, Seconds, rule
from ledger.settings.periods import checked_zone, or_defaults

GRANT_LIFE_MIN = 1.0
GRANT_LIFE_MAX = 86_400.0
LATE_MAX = 31 * 86_400.0
ROLLING_MIN = 60.0 * BUCKETS
ROLLING_MAX = 366 * 86_400.0


class BudgetSettings(Group):
    """How the limits of some counters are kept, see `ledger.limits`.

    With a `window` each hour, day or month of `zone`, an IANA time zone, is a budget of its own,
    which may be spent from for `late` after its end. With `rolling` the limit is that of any span
    so long: what was spent comes back, in 24 parts (`ledger.limits.rolling`). `grant_life` is for
    how long a process may spend what it was granted: with the signature's lifetime it is how long a
    crash keeps that away.
    """

    window: WindowName = "none"
    zone: str = "UTC"
    late: Seconds = 0.0
    grant_life: Seconds = 60.0
    on_outage: OnOutage = "refuse"
    on_expiry: OnExpiry = "void"
    rolling: Seconds = 0.0

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


Budgets = dict[str, Annotated[BudgetSettings, BeforeValidator(or_defaults)]]
"""By pattern; the first one that a counter matches counts."""
