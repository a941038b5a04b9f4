"""`ledger record`: record one change."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, TypedDict

import anyio
import typer

from ledger.commands.entries import entry_fields, metadata_of
from ledger.commands.options import amount_of, iso_date, iso_time
from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.errors import LedgerError, OutcomeUnknown
from ledger.core.values import Entry
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger

app = new_app()


class NamedOptions(TypedDict):
    """What is said of an entry besides its amounts, by the names of the library's parameters."""

    note: str | None
    effective: date | None
    key: str | None
    at: datetime | None
    metadata: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class EntryOptions:
    """The options of commands that write one entry."""

    note: Annotated[str | None, typer.Option(help="Free text stored with the change.")] = None
    effective: Annotated[
        str | None, typer.Option(help="ISO date on which the change takes effect.")
    ] = None
    key: Annotated[
        str | None,
        typer.Option(help="Your own key, part of the entry's id; needs --at, unless a UUIDv7."),
    ] = None
    at: Annotated[str | None, typer.Option(help="ISO time of the change, with a zone.")] = None
    metadata: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="Text stored with the change by a name; repeatable."
        ),
    ] = None

    def parsed(self) -> NamedOptions:
        """Return them as the library takes them.

        Raises:
            InvalidEntry: one cannot be read.
        """
        return {
            "note": self.note,
            "effective": iso_date(self.effective),
            "key": self.key,
            "at": iso_time("--at", self.at),
            "metadata": metadata_of(self.metadata),
        }


# A negative amount is an argument, not an option.
@app.command(context_settings={"ignore_unknown_options": True})
@spread_options
def record(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    change: Annotated[str, typer.Argument(help="Exact decimal number, such as 3 or -2.50.")],
    *,
    options: EntryOptions,
    common: RegionOptions,
) -> None:
    """Record a change to a counter; it is durable in its region when the command returns.

    With --key and --at, repeating the command changes nothing, in any region, until the retry
    horizon has passed. A UUIDv7 or a ULID as key carries its time, and needs no --at.
    """
    settings, place = common.chosen()
    amount, named = amount_of(change), options.parsed()

    async def call() -> Entry:
        with telling_outcome():
            async with Ledger.open(settings, region=place) as ledger:
                return await ledger.record(counter, amount, **named)

    entry = anyio.run(call)
    if common.as_json:
        print_json([entry_fields(entry)])
    else:
        say(
            f"{entry.counter}: {amounts.to_text(entry.change)} recorded in {entry.region}"
            f" as {entry.id}"
        )


@contextmanager
def telling_outcome() -> Iterator[None]:
    """Let the error of a write say what became of it, and what to do."""
    try:
        yield
    except LedgerError as error:
        error.args = (with_outcome(error), *error.args[1:])
        raise


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
