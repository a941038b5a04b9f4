"""`ledger estimate`: costs and needs of a workload, by a model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from ledger.administration.estimate import (
    DAY_SECONDS,
    Alternative,
    Estimate,
    Limit,
    Workload,
    estimate,
    estimate_alternatives,
)
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import print_json, say
from ledger.settings import Settings

app = new_app()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """The workload that is estimated."""

    changes: Annotated[float, typer.Argument(help="Changes a second, in all regions together.")]
    counters: Annotated[int, typer.Option(help="Counters that change.")] = 10_000
    skew: Annotated[
        float, typer.Option(help="Exponent of Zipf's law: 0 for a uniform load, 1 as usual.")
    ] = 1.0
    totals: Annotated[
        float, typer.Option(help="Totals read past the cache a second, in all regions.")
    ] = 0.0
    combined: Annotated[
        float,
        typer.Option(help="Average number of changes in an entry, by `ledger table set combine`."),
    ] = 1.0
    periods: Annotated[
        bool, typer.Option("--periods", help="Every counter has sums by hour, day and month.")
    ] = False
    legs: Annotated[
        int,
        typer.Option(help="Legs of a transfer: the counters are books then.", show_default="none"),
    ] = 0
    accounts: Annotated[
        int,
        typer.Option(help="With --legs: accounts with a balance in a book.", show_default="none"),
    ] = 0
    regions: Annotated[int | None, typer.Option(help="Regions.", show_default="settings")] = None

    def workload(self, settings: Settings) -> Workload:
        """Return it, in the regions of the settings unless it names a number."""
        regions = len(settings.regions) if self.regions is None else self.regions
        return Workload(**{**asdict(self), "regions": regions})


@app.command("estimate")
@spread_options
def estimate_command(
    load: WorkloadOptions, *, config: Config = None, as_json: AsJson = False
) -> None:
    """Estimate units, dollars, shards and processes of a workload, and what gives out first.

    Alternatives, and other ways to count, are listed with their consequences.

    A model, from measured speeds, documented limits and list prices of us-east-1, on demand.
    Storage, backups, transfer between regions and your own machines are not in it.
    """
    settings = Settings.load(config)
    workload = load.workload(settings)
    found, others = estimate(workload, settings), estimate_alternatives(workload, settings)
    if as_json:
        print_json([asdict(found) | {"alternatives": [asdict(other) for other in others]}])
        return
    print_grid(_figures(workload, found))
    print_grid(_alternatives(others))
    print_grid(_limits(found))
    first = found.limits[0]
    if first.share > 1:
        say(f"gives out first: {first.name}: {first.advice}")


def _figures(workload: Workload, found: Estimate) -> Grid:
    a_day = workload.changes * DAY_SECONDS
    million = found.month_dollars / (a_day * 365 / 12 / 1e6) if a_day else 0.0
    rows = (
        ("write units of a change, in each region", f"{found.units_per_change:.2f}"),
        ("write units a second, in each region", f"{found.write_units:,.0f}"),
        ("read units a second, in each region", f"{found.read_units:,.0f}"),
        ("dollars a month, all regions", f"{found.month_dollars:,.0f}"),
        ("  of them writes", f"{found.write_dollars:,.0f}"),
        ("dollars for a million changes", f"{million:.2f}"),
        ("entries of a fold, on average", f"{found.entries_per_fold:,.0f}"),
        ("hottest counter, entries a second", f"{found.hottest:,.1f}"),
        ("its shards", f"{found.shards:,}"),
        ("counters that need shards", f"{found.sharded:,}"),
        ("read units of its total, uncached", f"{found.total_read_units:,.0f}"),
        ("partitions of the table, at least", f"{found.partitions:,}"),
        ("entries that wait to be merged", f"{found.waiting_entries:,.0f}"),
        ("  their size, in each region", f"{found.waiting_bytes / 1e6:,.0f} MB"),
        ("cores of writers", f"{found.writer_cores:,.1f}"),
        ("compactor processes, 0.7 of a core each", f"{found.processes:,}"),
    )
    return Grid((Column("figure"), Column("value")), rows, is_headed=False)


def _alternatives(found: Sequence[Alternative]) -> Grid:
    columns = (
        prose("otherwise"), number("units a change"), number("dollars a month"), prose("means")
    )  # fmt: skip
    rows = [
        (
            alternative.name,
            f"{alternative.units_per_change:.2f}",
            f"{alternative.month_dollars:,.0f}",
            alternative.means,
        )
        for alternative in found
    ]
    return Grid(columns, rows)


def _limits(found: Estimate) -> Grid:
    columns = (
        prose("limit"), number("needed"), number("of"), number("share"), prose("if it gives out")
    )  # fmt: skip
    rows = [
        (limit.name, f"{limit.used:,.0f}", f"{limit.limit:,.0f}", _share(limit), limit.advice)
        for limit in found.limits
    ]
    return Grid(columns, rows)


def _share(one: Limit) -> str:
    return f"{one.share:.0%}" if one.share <= 1 else f"{one.share:,.1f} times"
