"""`ledger total`: show totals, in one region or in all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Annotated, Any

import anyio
import typer

from ledger.commands.entries import about_book
from ledger.commands.options import iso_bound
from ledger.commands.regions import Answers, Region, ask_each, region_of
from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.http.wire.schemas import PeriodsModel, RegionTotalModel
from ledger.reads.period_totals import By, PeriodTotals
from ledger.reads.total import Total
from ledger.runtime.command_line import FAILED, AsJson, Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger
from ledger.settings import Settings

UNKNOWN = "unknown"
"""Shown for a counter of which the region has nothing: no change, no net."""

app = new_app()


@dataclass(frozen=True, slots=True)
class PeriodOptions:
    """The periods whose sums are shown."""

    by: Annotated[By | None, typer.Option(help="Show sums by period, too.")] = None
    since: Annotated[
        str | None,
        typer.Option(help="With --by: from this date or time.", show_default="all that is kept"),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(
            help="With --by: before this date or time.", show_default="the period of now included"
        ),
    ] = None
    effective: Annotated[
        bool, typer.Option("--effective", help="With --by: when changes are effective.")
    ] = False

    def bounds(self) -> tuple[datetime | date | None, datetime | date | None]:
        """Return the times between which the periods lie.

        Raises:
            InvalidEntry: one is neither an ISO date nor an ISO time with a zone.
        """
        return iso_bound("--since", self.since), iso_bound("--until", self.until)


@app.command()
@spread_options
def total(
    counters: Annotated[list[str], typer.Argument(help="Counter ids.")],
    *,
    region: Region = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Show the totals of every region.")
    ] = False,
    steady: Annotated[
        bool,
        typer.Option(
            "--steady", help="Read until two reads agree: totals of one moment, in each region."
        ),
    ] = False,
    periods: PeriodOptions,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show the current totals of counters, or their sums by hour, day or month.

    A counter of which the region has nothing is shown as unknown, not as 0. With --everywhere the
    regions that answer are shown; the others are named on standard error, and it exits with 1.
    """
    settings = Settings.load(config)
    if everywhere and region is not None:
        raise InvalidInput("--everywhere means all regions, --region one: give one of them")
    regions = list(settings.regions) if everywhere else [region_of(settings, region)]
    if periods.by is not None:
        if steady:
            raise InvalidInput("--steady applies to totals, not to sums by period")
        read_sums = partial(
            _read_periods,
            settings,
            counters,
            periods.by,
            periods.bounds(),
            effective=periods.effective,
        )
        sums = anyio.run(ask_each, regions, read_sums)
        _show_periods(sums.found, as_json=as_json)
        _conclude(sums, counters, as_json=as_json)
        return
    if periods != PeriodOptions():
        raise InvalidInput("--since, --until and --effective need --by hour, day or month")
    totals = anyio.run(ask_each, regions, partial(_read_totals, settings, counters, steady=steady))
    if as_json:
        print_json(map(RegionTotalModel.fields_of, totals.found))
    elif totals.found:
        print_grid(totals_grid(totals.found))
        for book in dict.fromkeys(one.counter for one in totals.found if one.accounts is not None):
            say(about_book(book))
    _conclude(totals, counters, as_json=as_json)


async def _read_totals(
    settings: Settings, counters: Sequence[str], region: str, *, steady: bool
) -> list[Total]:
    async with Ledger.open(settings, region=region) as ledger:
        found = await ledger.totals(counters, max_age=0, steady=steady)
        return [found[counter] for counter in counters]


async def _read_periods(
    settings: Settings,
    counters: Sequence[str],
    by: By,
    bounds: tuple[datetime | date | None, datetime | date | None],
    region: str,
    *,
    effective: bool,
) -> list[PeriodTotals]:
    since, until = bounds
    async with Ledger.open(settings, region=region) as ledger:
        found = await ledger.periods_many(
            counters, by=by, since=since, until=until, effective=effective
        )
        return [found[counter] for counter in counters]


def _conclude(answers: Answers[Any], counters: Sequence[str], *, as_json: bool) -> None:
    """Name the regions that did not answer, and end with 1 if there are any."""
    if as_json:
        print_json(
            {"counter": counter, "value": None, "region": region, "error": str(error)}
            for region, error in answers.errors.items()
            for counter in counters
        )
    answers.say_missing()
    if answers.errors:
        raise typer.Exit(FAILED)


def totals_grid(totals: Iterable[Total]) -> Grid:
    """Return totals as a table."""
    columns = (
        Column("counter"), Column("region"), number("total"), number("entries"), number("merged"),
        Column("as of (UTC)"),
    )  # fmt: skip
    rows = [
        (
            total.counter,
            total.region,
            amounts.to_text(total.value) if total.is_known else UNKNOWN,
            f"{total.entries:,}",
            f"{total.merged:,}",
            total.as_of.strftime("%H:%M:%S"),
        )
        for total in totals
    ]
    return Grid(columns, rows)


def _show_periods(found: Iterable[PeriodTotals], *, as_json: bool) -> None:
    if as_json:
        print_json(map(PeriodsModel.fields_of, found))
        return
    for totals in found:
        say(f"{totals.counter} in {totals.region} by {totals.by} ({totals.zone})")
        print_grid(periods_grid(totals))


def periods_grid(found: PeriodTotals) -> Grid:
    """Return a counter's sums by period as a table."""
    form = (
        "%Y-%m-%d %H:%M" if found.by == "hour" else "%Y-%m" if found.by == "month" else "%Y-%m-%d"
    )
    rows = [("before", amounts.to_text(found.opening), "")]
    for period in found.periods:
        note = "" if period.is_whole else "incomplete: some of it was merged before"
        rows.append((period.start.strftime(form), amounts.to_text(period.value), note))
    rows.append(("in all", amounts.to_text(found.closing), ""))
    return Grid((Column(str(found.by)), number("sum"), prose("")), rows)
