"""`ledger total`: show totals, in one region or in all."""

from collections.abc import Iterable
from typing import Annotated, Any

import anyio
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ledger.commands.options import AsJson, Region, print_json
from ledger.core import amounts
from ledger.ledger import Ledger
from ledger.runtime.command_line import Config, new_app
from ledger.settings import Settings
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
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show the current totals of counters."""
    settings = Settings.load(config)
    regions = (
        list(settings.regions) if everywhere else [settings.home if region is None else region]
    )

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
        Console().print(_totals_table(totals))


def _totals_table(totals: Iterable[Total]) -> Table:
    table = Table(box=box.SIMPLE)
    for name in ("counter", "region", "total", "entries", "merged", "as of (UTC)"):
        table.add_column(
            name, justify="right" if name in {"total", "entries", "merged"} else "left"
        )
    for total in totals:
        when = total.as_of.strftime("%H:%M:%S")
        table.add_row(
            escape(total.counter), total.region, amounts.to_text(total.value), f"{total.entries:,}",
            f"{total.merged:,}", when,
        )  # fmt: skip
    return table


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
