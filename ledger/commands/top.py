"""`ledger top`: show the counters of a prefix with the largest values."""

from typing import Annotated

import anyio
import typer

from ledger.commands.counters import listed_grid, print_listed
from ledger.commands.regions import RegionOptions
from ledger.core.index import TOP_MAX, Listed
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import print_grid
from ledger.session.ledger import Ledger

app = new_app()


@app.command()
@spread_options
def top(
    prefix: Annotated[str, typer.Argument(help="Prefix of their ids; '' for all.")],
    *,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=TOP_MAX, help="How many are shown.")
    ] = 10,
    smallest: Annotated[
        bool, typer.Option("--smallest", help="Those with the smallest values.")
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Rank by totals: reads those of all, 1,000 at most.",
        ),
    ] = False,
    common: RegionOptions,
) -> None:
    """Show the counters of a prefix that came to most, by merged changes only unless --exact."""
    settings, place = common.chosen()

    async def call() -> list[Listed]:
        async with Ledger.open(settings, region=place) as ledger:
            return await ledger.top(prefix, count, smallest=smallest, exact=exact)

    found = anyio.run(call)
    if common.as_json:
        print_listed(found, place)
    else:
        print_grid(listed_grid(found, place))
