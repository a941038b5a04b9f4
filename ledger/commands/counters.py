"""`ledger counters`: list the counters of a prefix, with their values."""

from typing import Annotated

import anyio
import typer

from ledger.commands.listed import listed_grid
from ledger.commands.regions import Region, region_of
from ledger.core.index import Listed
from ledger.ledger import Ledger
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.printing import print_json, say
from ledger.runtime.tables import print_grid
from ledger.settings import Settings
from ledger.wire.values import listed_fields

app = new_app()


@app.command()
def counters(
    prefix: Annotated[str, typer.Argument(help="Prefix of their ids.")] = "",
    *,
    after: Annotated[
        str | None, typer.Option(help="Only counters after this one, in the order of ids.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of counters shown.")] = 1000,
    exact: Annotated[
        bool, typer.Option("--exact", help="Read each total from the table, as `ledger total`.")
    ] = False,
    described: Annotated[
        bool, typer.Option("--described", help="Show their descriptions, too.")
    ] = False,
    region: Region = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List counters by prefix with their merged changes only, from the table's index.

    The index covers the patterns of the contract's `index` (`ledger table set index`).
    """
    settings = Settings.load(config)
    place = region_of(settings, region)

    async def call() -> tuple[list[Listed], bool]:
        async with Ledger.open(settings, region=place) as ledger:
            listing = ledger.counters(
                prefix, after=after, limit=limit + 1, exact=exact, described=described
            )
            found = [listed async for listed in listing]
            return found[:limit], len(found) > limit

    found, more = anyio.run(call)
    if as_json:
        print_json({**listed_fields(listed), "region": place} for listed in found)
        return
    print_grid(listed_grid(found, place))
    if more:
        say(f"more counters follow: continue with --after '{found[-1].counter}'")
