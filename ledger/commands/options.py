"""Options that commands share, and the values of their texts."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated

import typer

from ledger.core import amounts
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidEntry
from ledger.core.times import time_of
from ledger.runtime.command_line import AsJson, Config
from ledger.settings import Settings

PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline", help="Name of the pipeline.", show_default="pipeline, or the only one"
    ),
]


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The options that commands of one pipeline have in common."""

    pipeline: PipelineName = None
    config: Config = None
    as_json: AsJson = False

    def settings(self) -> Settings:
        """Return the settings of the pipeline."""
        return Settings.load(self.config).of_pipeline(self.pipeline)


def iso_time(option: str, text: str | None) -> datetime | None:
    """Return an option's time in UTC; None if it was not given.

    Raises:
        InvalidEntry: the text is not an ISO time with a zone, or out of the calendar in UTC.
    """
    if text is None:
        return None
    try:
        moment = time_of(text)
    except ValueError:
        raise InvalidEntry(
            f"{option} must be an ISO time such as 2026-11-21T06:50Z, got {text!r}"
        ) from None
    if moment.tzinfo is None:
        raise InvalidEntry(f"{option} must end with a zone, such as Z or +01:00, got {text!r}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidEntry(f"{option} is out of the calendar in UTC, got {text!r}") from None


def iso_bound(option: str, text: str | None) -> datetime | date | None:
    """Return an option's date or aware time; None if it was not given.

    Raises:
        InvalidEntry: the text is neither an ISO date nor an ISO time with a zone.
    """
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        return iso_time(option, text)


def iso_date(text: str | None) -> date | None:
    """Return the date of `--effective`.

    Raises:
        InvalidEntry: the text is not an ISO date.
    """
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise InvalidEntry(
            f"--effective must be an ISO date such as 2026-11-21, got {text!r}"
        ) from None


def amount_of(text: str) -> Decimal:
    """Return the amount of an argument, which a counter can take.

    Raises:
        InvalidAmount: it is not an amount, or beyond 38 digits.
    """
    try:
        return amounts.addend(amounts.parse(text))
    except AmountOverflow as error:  # of an argument, not of a sum
        raise InvalidAmount(str(error)) from None
