"""`ledger record`: record one change."""

from datetime import date
from typing import Annotated

import anyio
import typer

from ledger.commands.options import amount_of, iso_time
from ledger.commands.regions import Region, region_of
from ledger.core import amounts
from ledger.core.errors import InvalidEntry, OutcomeUnknown
from ledger.core.values import Entry
from ledger.ledger import Ledger
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.printing import print_json, say
from ledger.settings import Settings
from ledger.wire.values import entry_fields

app = new_app()


# A negative amount is an argument, not an option.
@app.command(context_settings={"ignore_unknown_options": True})
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
        typer.Option(help="Key of your own, part of the entry's id; with --at, unless a UUIDv7."),
    ] = None,
    at: Annotated[str | None, typer.Option(help="ISO time of the change, with a zone.")] = None,
    region: Region = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Record a change to a counter; it is durable in its region when the command returns.

    With --key and --at, repeating the command changes nothing, in any region, until the retry
    horizon has passed. A UUIDv7 or a ULID as key carries its time, and needs no --at.
    """
    settings = Settings.load(config)
    place = region_of(settings, region)
    amount, day, moment = amount_of(change), _date(effective), iso_time("--at", at)

    async def call() -> Entry:
        async with Ledger.open(settings, region=place) as ledger:
            try:
                return await ledger.record(
                    counter, amount, note=note, effective=day, key=key, at=moment
                )
            except OutcomeUnknown as error:
                raise _with_advice(error, keyed=key is not None) from None

    entry = anyio.run(call)
    if as_json:
        print_json([entry_fields(entry)])
    else:
        say(
            f"{entry.counter}: {amounts.to_text(entry.change)} recorded in {entry.region}"
            f" as {entry.id}"
        )


def _with_advice(error: OutcomeUnknown, *, keyed: bool) -> OutcomeUnknown:
    """Add what to do at a command line about a change that may or may not be in the table."""
    entry = error.entries[0]
    advice = (
        "repeating the same command is safe"
        if keyed
        else f"before recording it again, look for {entry.id} in `ledger history {entry.counter}`"
    )
    return OutcomeUnknown(f"{error}; {advice}", entries=error.entries, retryable=keyed)


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidEntry(
            f"--effective must be an ISO date such as 2026-11-21, got {text!r}"
        ) from None
