"""`ledger counters`: list the counters of a prefix, with their values."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import anyio
import typer

from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.descriptions import Value
from ledger.core.index import Listed
from ledger.http.wire.schemas import ListedModel
from ledger.http.wire.values import shown, text_of
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger

app = new_app()


@app.command()
@spread_options
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
    common: RegionOptions,
) -> None:
    """List counters by prefix with their merged changes only, from the table's index.

    The index covers the patterns of the contract's `index` (`ledger table set index`).
    """
    settings, place = common.chosen()

    async def call() -> tuple[list[Listed], bool]:
        async with Ledger.open(settings, region=place) as ledger:
            listing = ledger.counters(
                prefix, after=after, limit=limit + 1, exact=exact, described=described
            )
            found = [listed async for listed in listing]
            return found[:limit], len(found) > limit

    found, more = anyio.run(call)
    if common.as_json:
        print_listed(found, place)
        return
    print_grid(listed_grid(found, place))
    if more:
        say(f"more counters follow: continue with --after '{found[-1].counter}'")


def print_listed(found: Iterable[Listed], region: str) -> None:
    """Print counters that a region lists as JSON, a description as text, true and false."""
    for listed in found:
        members = ListedModel.fields_of(listed)
        if listed.description is not None:
            members["description"] = shown(listed.description)
        print_json([{**members, "region": region}])


def listed_grid(found: Iterable[Listed], region: str) -> Grid:
    """Return counters that a region lists as a table."""
    found = list(found)
    is_described = any(listed.description for listed in found)
    is_exact = all(listed.is_exact for listed in found)
    columns = [
        Column("counter"),
        number("total" if is_exact else "merged total"),
        number("changes"),
        Column("as of (UTC)"),
    ]
    columns += [prose("description")] if is_described else []
    rows = [_cells(listed, is_described=is_described) for listed in found]
    return Grid(
        columns,
        rows,
        title=f"counters in {region}" if is_exact else f"counters in {region}: merged changes only",
    )


def _cells(one: Listed, *, is_described: bool) -> list[str]:
    at = "now" if one.is_exact else one.as_of.strftime("%Y-%m-%d %H:%M:%S")
    described = [in_line(one.description or {})] if is_described else []
    return [one.counter, amounts.to_text(one.value), f"{one.count:,}", at, *described]


def in_line(description: Mapping[str, Value]) -> str:
    """Return attributes in one line."""
    return ", ".join(f"{name}={text_of(value)}" for name, value in description.items())
