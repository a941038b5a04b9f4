"""`ledger total`: show totals, in one region or in all."""

from collections.abc import Iterable
from typing import Annotated, Any

import anyio
import typer

from ledger.commands.options import AsJson, Region, iso_bound
from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.ledger import Ledger
from ledger.runtime.command_line import Config, new_app
from ledger.runtime.printing import print_json, say
from ledger.runtime.tables import Column, Grid, number, print_grid, prose
from ledger.settings import Settings
from ledger.totals.periods import By, PeriodTotals
from ledger.totals.reader import Total

app = new_app()


@app.command()
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
            "--steady", help="Read until two looks agree: totals of one moment, in each region."
        ),
    ] = False,
    by: Annotated[By | None, typer.Option(help="Show sums by period, too.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="With --by: from this date or time.", show_default="all that is kept"),
    ] = None,
    until: Annotated[str | None, typer.Option(help="With --by: before this date or time.")] = None,
    effective: Annotated[
        bool, typer.Option("--effective", help="With --by: when changes are effective.")
    ] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show the current totals of counters, or their sums by hour, day or month."""
    settings = Settings.load(config)
    regions = (
        list(settings.regions) if everywhere else [settings.home if region is None else region]
    )
    if by is not None:
        if steady:
            raise InvalidInput("--steady is of totals: sums by period have no such reading")
        bounds = iso_bound("--since", since), iso_bound("--until", until)

        async def read_periods() -> list[PeriodTotals]:
            found: list[PeriodTotals] = []
            for place in regions:
                async with Ledger.open(settings, region=place) as ledger:
                    read = await ledger.periods_many(
                        counters, by=by, since=bounds[0], until=bounds[1], effective=effective
                    )
                    found += [read[counter] for counter in counters]
            return found

        _show_periods(anyio.run(read_periods), as_json=as_json)
        return
    if since is not None or until is not None or effective:
        raise InvalidInput("--since, --until and --effective need --by hour, day or month")

    async def call() -> list[Total]:
        totals: list[Total] = []
        for place in regions:
            async with Ledger.open(settings, region=place) as ledger:
                found = await ledger.totals(counters, max_age=0, steady=steady)
                totals += [found[counter] for counter in counters]
        return totals

    totals = anyio.run(call)
    if as_json:
        print_json(map(_total_fields, totals))
    else:
        print_grid(totals_grid(totals))


def totals_grid(totals: Iterable[Total]) -> Grid:
    """Return totals as a table."""
    columns = (
        Column("counter"), Column("region"), number("total"), number("entries"), number("merged"),
        Column("as of (UTC)"),
    )  # fmt: skip
    rows = [
        (
            total.counter, total.region, amounts.to_text(total.value), f"{total.entries:,}",
            f"{total.merged:,}", total.as_of.strftime("%H:%M:%S"),
        )
        for total in totals
    ]  # fmt: skip
    return Grid(columns, rows)


def _show_periods(found: Iterable[PeriodTotals], *, as_json: bool) -> None:
    if as_json:
        print_json(map(_period_fields, found))
        return
    for one in found:
        say(f"{one.counter} in {one.region} by {one.by} ({one.zone})")
        print_grid(periods_grid(one))


def periods_grid(found: PeriodTotals) -> Grid:
    """Return a counter's sums by period as a table."""
    form = (
        "%Y-%m-%d %H:%M" if found.by == "hour" else "%Y-%m" if found.by == "month" else "%Y-%m-%d"
    )
    rows = [("before", amounts.to_text(found.opening), "")]
    for each in found.periods:
        note = "" if each.is_whole else "not all: some of it was merged before"
        rows.append((each.start.strftime(form), amounts.to_text(each.value), note))
    rows.append(("in all", amounts.to_text(found.closing), ""))
    return Grid((Column(str(found.by)), number("sum"), prose("")), rows)


def _period_fields(found: PeriodTotals) -> dict[str, Any]:
    return {
        "counter": found.counter,
        "region": found.region,
        "as_of": found.as_of.isoformat(),
        "by": found.by,
        "zone": found.zone,
        "effective": found.effective,
        "opening": amounts.to_text(found.opening),
        "closing": amounts.to_text(found.closing),
        "total": amounts.to_text(found.total),
        "periods": [
            {
                "start": each.start.isoformat(),
                "end": each.end.isoformat(),
                "value": amounts.to_text(each.value),
                "whole": each.is_whole,
            }
            for each in found.periods
        ],
    }


def _total_fields(total: Total) -> dict[str, Any]:
    return {
        "counter": total.counter,
        "value": amounts.to_text(total.value),
        "region": total.region,
        "as_of": total.as_of.isoformat(),
        "ended": total.ended.isoformat(),
        "steady": total.steady,
        "entries": total.entries,
        "merged": total.merged,
        "additions": total.additions,
    }
