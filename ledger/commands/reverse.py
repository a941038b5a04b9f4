"""`ledger reverse`: reverse an entry by the opposite change."""

from datetime import date
from decimal import Decimal
from functools import partial
from typing import Annotated

import anyio
import typer

from ledger.commands.entries import entry_fields, legs_text
from ledger.commands.options import iso_date
from ledger.commands.regions import HomeOptions
from ledger.core import amounts
from ledger.core.errors import StateConflict
from ledger.core.keys import checked_counter
from ledger.core.values import Entry
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger
from ledger.settings import Settings

LOOKS_MAX, LOOK_SECONDS = 40, 0.5
"""Looks at an entry that another region does not show alike yet, and the pause between them."""
app = new_app()


@app.command()
@spread_options
def reverse(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    entry: Annotated[str, typer.Argument(help="Id of the entry, as `ledger history` shows it.")],
    *,
    note: Annotated[str | None, typer.Option(help="Note of the reversing entry.")] = None,
    effective: Annotated[
        str | None,
        typer.Option(help="ISO date from which the reversal applies.", show_default="today"),
    ] = None,
    common: HomeOptions,
) -> None:
    """Reverse an entry by the opposite change, through the home region, once.

    Repeating the command changes nothing more and shows the first reversal, as long as it is in the
    table or its archive. An entry that was merged can be reversed if the table has an archive. One
    that is not merged is reversed once every region shows it alike: that is waited for, a little.

    Of a spend from a budget with credits the amount can be spent again once every region shows the
    reversal: a pass of the compactor sees to it, in some 20 min.
    """
    settings, place = common.chosen()
    # Its change, and everything else, are read from the table or the archive.
    named = Entry(checked_counter(counter), entry, Decimal(0))
    call = partial(_reversed, note=note, effective=iso_date(effective))
    made = anyio.run(call, settings, place, named)
    if common.as_json:
        print_json([entry_fields(made)])
        return
    later = ""
    if made.spending is not None:  # it names the grants of what it gives back
        later = "; its budgets have the amount back once every region shows it"
    moved = legs_text(made.legs) or amounts.to_text(made.change)
    say(
        f"{made.counter}: {made.reverses} reversed by {moved}, recorded in"
        f" {made.region} as {made.id}{later}"
    )


async def _reversed(
    settings: Settings, region: str, named: Entry, *, note: str | None, effective: date | None
) -> Entry:
    async with Ledger.open(settings, region=region) as ledger:
        for looks_left in reversed(range(LOOKS_MAX)):
            try:
                return await ledger.reverse(named, note=note, effective=effective)
            except StateConflict as error:
                if not (looks_left and error.retryable and error.outcome == "not_applied"):
                    raise
                await anyio.sleep(LOOK_SECONDS)
    raise AssertionError("the last look returns or raises")
