"""`ledger book`: transfers between the accounts of a book, and their balances."""

from collections.abc import Sequence
from typing import Annotated, Any

import anyio
import typer

from ledger.commands.entries import entry_fields, legs_text
from ledger.commands.options import amount_of, iso_bound
from ledger.commands.record import EntryOptions, telling_outcome
from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.errors import InvalidEntry
from ledger.core.values import Entry, Leg
from ledger.reads.balances import Balances
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid
from ledger.runtime.output import print_json, say
from ledger.session.book import Book
from ledger.session.ledger import Ledger

_LEG_PARTS = 3
app = new_app(about="Make transfers between the accounts of a book, and show their balances.")

BookName = Annotated[str, typer.Argument(metavar="BOOK", help="Id of the book.")]


# A negative amount is an argument, not an option.
@app.command(context_settings={"ignore_unknown_options": True})
@spread_options
def transfer(
    book: BookName,
    legs: Annotated[
        list[str],
        typer.Argument(
            metavar="ACCOUNT ASSET AMOUNT ...",
            help="What each account gets of an asset; what it gives is negative.",
        ),
    ],
    *,
    options: EntryOptions,
    common: RegionOptions,
) -> None:
    """Move amounts between accounts of a book: of each asset they sum to 0.

    The transfer is durable in its region, whole, when the command returns, and whole in every other
    region that shows it. --key and --at are as in `ledger record`.
    """
    settings, place = common.chosen()
    asked, named = _legs(legs), options.parsed()

    async def call() -> Entry:
        with telling_outcome():
            async with Ledger.open(settings, region=place) as ledger:
                return await Book(book, ledger).transfer(asked, **named)

    entry = anyio.run(call)
    if common.as_json:
        print_json([entry_fields(entry)])
    else:
        moved = legs_text(entry.legs)
        say(f"{entry.counter}: {moved}: transferred in {entry.region} as {entry.id}")


def _legs(texts: Sequence[str]) -> list[Leg]:
    """Return the legs that the arguments of a command name.

    Raises:
        InvalidEntry: they are not account, asset and amount of each leg.
        InvalidAmount: an amount is none.
    """
    if len(texts) % _LEG_PARTS:
        raise InvalidEntry(
            f"legs must be ACCOUNT ASSET AMOUNT of each, got {len(texts)} arguments for them"
        )
    each = iter(texts)
    named = zip(each, each, each, strict=True)
    return [Leg(account, asset, amount_of(amount)) for account, asset, amount in named]


@app.command()
@spread_options
def balances(
    book: BookName,
    *,
    prefix: Annotated[
        str, typer.Option(help="Only accounts whose names begin so.", show_default="all")
    ] = "",
    at: Annotated[
        str | None,
        typer.Option(help="As of this ISO date or time, with a zone.", show_default="now"),
    ] = None,
    common: RegionOptions,
) -> None:
    """Show what each account of a book has, and their sums, which are 0 over all accounts.

    An account that has nothing is not shown. With --at, what the transfers before then came to.
    """
    settings, place = common.chosen()
    moment = iso_bound("--at", at)

    async def call() -> Balances:
        async with Ledger.open(settings, region=place) as ledger:
            return await Book(book, ledger).balances(prefix=prefix, at=moment, max_age=0)

    found = anyio.run(call)
    if common.as_json:
        print_json(_rows(found))
        return
    if not found.assets:
        say(f"no account of {book} has a balance in {found.region}")
        return
    print_grid(_grid(found))
    sums = ", ".join(f"{amounts.to_text(found.total(asset))} {asset}" for asset in found.assets)
    say(f"sum{f' of {prefix}...' if prefix else ''}: {sums}")


def _rows(found: Balances) -> list[dict[str, Any]]:
    return [
        {
            "book": found.book,
            "account": account,
            "asset": asset,
            "balance": balance,
            "region": found.region,
            "as_of": found.as_of,
            "at": found.at,
        }
        for asset, there in found.assets.items()
        for account, balance in there.items()
    ]


def _grid(found: Balances) -> Grid:
    rows = [
        (account, amounts.to_text(balance), asset)
        for asset, there in found.assets.items()
        for account, balance in there.items()
    ]
    return Grid((Column("account"), number("balance"), Column("asset")), rows)
