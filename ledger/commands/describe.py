"""`ledger describe`: show, set and remove the attributes of a counter's description."""

from typing import Annotated

import anyio
import typer

from ledger.commands.regions import RegionOptions
from ledger.core.descriptions import Value
from ledger.core.errors import InvalidInput
from ledger.http.wire.values import shown, text_of
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger

app = new_app()


@app.command()
@spread_options
def describe(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    attributes: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE: attributes to set, as text.")
    ] = None,
    *,
    remove: Annotated[
        list[str] | None, typer.Option(help="Name of an attribute to remove; may be repeated.")
    ] = None,
    common: RegionOptions,
) -> None:
    """Show what a counter is described by, after setting and removing attributes.

    Written in one region; of concurrent writes in two regions the last one wins, as a whole.
    """
    asked = _asked(attributes or [], remove or [])
    settings, place = common.chosen()

    async def call() -> dict[str, Value]:
        async with Ledger.open(settings, region=place) as ledger:
            if asked:
                return await ledger.describe(counter, asked)
            return await ledger.description(counter)

    found = anyio.run(call)
    if common.as_json:
        print_json([{"counter": counter, "region": place, "description": shown(found)}])
        return
    for name, value in found.items():
        say(f"{name}={text_of(value)}")
    say(f"{len(found):,} attributes of {counter} in {place}", err=True)


def _asked(attributes: list[str], remove: list[str]) -> dict[str, Value | None]:
    asked: dict[str, Value | None] = {}
    for attribute in attributes:
        name, is_set, value = attribute.partition("=")
        if not is_set or not name:
            raise InvalidInput(f"an attribute must be NAME=VALUE, got {attribute!r}")
        asked[name] = value
    if both := sorted(asked.keys() & set(remove)):
        raise InvalidInput(f"{both[0]!r} is both set and removed")
    return {**asked, **dict.fromkeys(remove)}
