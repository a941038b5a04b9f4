"""`ledger watch`: show which watched counters crossed their bound."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import anyio
import typer

from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.watches import WatchState
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid
from ledger.runtime.output import print_json
from ledger.session.ledger import Ledger
from ledger.watches.watcher import read_watch_states

app = new_app()


@app.command()
@spread_options
def watch(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Watches, also those made in code; by default all in the settings."),
    ] = None,
    *,
    common: RegionOptions,
) -> None:
    """Show the watched counters that crossed their bound: where each stands, and how often.

    A counter is listed from its first crossing on: `crossed` until the crossing is delivered, then
    `delivered`, and `armed` once the total came back.
    """
    settings, place = common.chosen()

    async def call() -> list[dict[str, Any]]:
        async with Ledger.open(settings, region=place) as ledger:
            return [
                _fields(name, counter, state)
                for name in names or settings.watches
                async for counter, state in read_watch_states(ledger.store, name)
            ]

    rows = anyio.run(call)
    if common.as_json:
        print_json({**row, "region": place} for row in rows)
    else:
        print_grid(watches_grid(rows, place))


def _fields(name: str, counter: str, state: WatchState) -> dict[str, Any]:
    return {
        "watch": name,
        "counter": counter,
        "phase": state.phase.value,
        "crossings": state.number,
        "value": amounts.to_text(state.value),
        "at": state.at.isoformat(timespec="seconds") if state.at else None,
    }


def watches_grid(rows: Sequence[Mapping[str, Any]], region: str) -> Grid:
    """Return watched counters of a region as a table."""
    columns = (
        Column("watch"), Column("counter"), Column("phase"), number("crossings"), number("value"),
        Column("at"),
    )  # fmt: skip
    cells = [["" if value is None else str(value) for value in row.values()] for row in rows]
    return Grid(columns, cells, title=f"watches in {region}")
