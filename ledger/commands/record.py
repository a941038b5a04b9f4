"""`ledger record`: record one change."""

from typing import Annotated

import anyio
import typer

from ledger.commands.options import amount_of, iso_date, iso_time
from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.errors import LedgerError, OutcomeUnknown
from ledger.core.values import Entry
from ledger.http.wire.schemas import EntryModel
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger

app = new_app()


# A negative amount is an argument, not an option.
@app.command(context_settings={"ignore_unknown_options": True})
@spread_options
def record(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    change: Annotated[str, typer.Argument(help="Exact decimal number, such as 3 or -2.50.")],
    *,
    note: Annotated[str | None, typer.Option(help="Free text stored with the change.")] = None,
    effective: Annotated[
        str | None, typer.Option(help="ISO date on which the change takes effect.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(help="Your own key, part of the entry's id; needs --at, unless a UUIDv7."),
    ] = None,
    at: Annotated[str | None, typer.Option(help="ISO time of the change, with a zone.")] = None,
    common: RegionOptions,
) -> None:
    """Record a change to a counter; it is durable in its region when the command returns.

    With --key and --at, repeating the command changes nothing, in any region, until the retry
    horizon has passed. A UUIDv7 or a ULID as key carries its time, and needs no --at.
    """
    settings, place = common.chosen()
    amount, day, moment = amount_of(change), iso_date(effective), iso_time("--at", at)

    async def call() -> Entry:
        try:
            async with Ledger.open(settings, region=place) as ledger:
                return await ledger.record(
                    counter, amount, note=note, effective=day, key=key, at=moment
                )
        except LedgerError as error:
            error.args = (with_outcome(error), *error.args[1:])
            raise

    entry = anyio.run(call)
    if common.as_json:
        print_json([EntryModel.fields_of(entry)])
    else:
        say(
            f"{entry.counter}: {amounts.to_text(entry.change)} recorded in {entry.region}"
            f" as {entry.id}"
        )


def with_outcome(error: LedgerError) -> str:
    """Return the message of an error, with the outcome of the change and what to do."""
    text = str(error)
    if isinstance(error, OutcomeUnknown):
        entry = error.entries[0]
        if error.retryable:
            return f"{text}; it may have been written: repeat the same command, which is harmless"
        return (
            f"{text}; it may have been written: before recording it again, look for {entry.id} in"
            f" `ledger history {entry.counter}`"
        )
    if error.outcome == "not_applied" and "nothing was " not in text:
        again = ": the same command may be run again" if error.retryable else ""
        return f"{text}; nothing was written{again}"
    return text
