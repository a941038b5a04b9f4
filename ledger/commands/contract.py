"""`ledger table adopt`, `show`, `set`, `sign`: a table's contract, and the signatures of its nets.

All processes of a table share its contract. `sign` signs net changes that have no signature yet, or
a signature of a former key.
"""

import json
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import anyio
import typer

from ledger.administration.contract_changes import (
    ContractListing,
    change,
    contract_writer,
    establish,
    first_values,
    left_behind,
    show,
)
from ledger.administration.net_signer import NetSigner, NetSigning
from ledger.commands.options import iso_time
from ledger.contract.open_regions import open_table
from ledger.core.contract_item import Contract, terms_to_values
from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED, AsJson, Config, SayOnce
from ledger.runtime.console_tables import Column, Grid, print_grid, prose
from ledger.runtime.output import print_json, say, utc_text
from ledger.runtime.program import INTERRUPTED
from ledger.settings import Settings
from ledger.store.connections import net_keys

NONE = "none"
"""Suffixes of values that only the terms in force have, or only the pending ones."""
FirstValues = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="A first value of the contract, such as settle=30m or shards=visits-*=8; repeatable.",
    ),
]


def adopt(config: Config = None, first: FirstValues = None, *, as_json: AsJson = False) -> None:
    """Write the contract of a table that has none, from the settings; nothing has to stop.

    Afterwards remove the contract's values from the settings. Safe to run again: if the table has a
    a contract, it only checks that the settings agree with it.
    """
    established(Settings.load(config, **first_values(first or ())), as_json=as_json)


def established(settings: Settings, *, as_json: bool) -> None:
    """Write the table's first contract, unless it has one that agrees, and report its values."""
    _say(anyio.run(partial(establish, settings, report=SayOnce())), as_json=as_json)


def show_contract(
    *,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in force for all processes, what is pending, and which region waits for it."""
    shown = anyio.run(show, Settings.load(config))
    newest = shown.newest
    if newest is None:
        for error in shown.regions.values():
            if isinstance(error, LedgerError):
                raise error
        raise LedgerError(
            f"table {shown.table} has no contract: `ledger table adopt` writes it from the settings"
        )
    if as_json:
        print_json([_as_json(shown, newest)])
    else:
        print_grid(contract_grid(shown, newest))
    for region, each in shown.regions.items():
        if isinstance(each, LedgerError):
            say(f"error: {region}: {each}", err=True)
        elif each != newest:
            revision = "no contract" if each is None else f"revision {each.revision}"
            say(f"{region} shows {revision}, not {newest.revision} yet", err=True)
    if shown.behind:
        raise typer.Exit(FAILED)


def set_value(
    name: Annotated[str, typer.Argument(help="What to change, such as settle.")] = "",
    value: Annotated[
        str,
        typer.Argument(
            help="The new value; shards as PATTERN=COUNT, periods as PATTERN=hours:72,days:62,"
            " budgets as PATTERN=window:day."
        ),
    ] = "",
    *,
    config: Config = None,
    since: Annotated[
        str | None, typer.Option(help="With shards: from when on.", show_default="in a day")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Finish the pending change.")] = False,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Withdraw the pending change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Change a value of the contract, while everything goes on: announce, wait, in force.

    Takes 21 minutes by default: until no request signed under the old value can arrive. If
    interrupted, run it again, from any machine. Without an archive the books of `books` keep
    balances, and no journal of merged transfers.
    """
    if resume + withdraw + bool(name) != 1 or bool(name) != bool(value):
        raise InvalidInput("give NAME and VALUE, or --resume, or --withdraw")
    settings = Settings.load(config)
    at = iso_time("--since", since)

    async def change_or_take_back() -> Contract:
        if name:
            return await change(settings, name, value, since=at, report=SayOnce())
        async with contract_writer(settings, report=SayOnce()) as writer:
            if withdraw:
                return await writer.withdraw(await writer.newest())
            return await writer.finish(await writer.newest())

    try:
        contract = anyio.run(change_or_take_back)
    except KeyboardInterrupt:
        say(f"interrupted: {anyio.run(left_behind, settings)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    _say(contract, as_json=as_json)
    if name == "books" and not contract.terms.has_journals:
        say(
            "without an archive a book keeps balances, and no journal of its merged transfers:"
            " `ledger table set archive URLS` keeps each from then on",
            err=True,
        )


def _say(contract: Contract, *, as_json: bool) -> None:
    is_pending = contract.coming is not None
    if as_json:
        print_json([{"revision": contract.revision, "pending": is_pending}])
        return
    state = "pending" if is_pending else "in force"
    say(f"revision {contract.revision} of the contract is {state}")


def _as_json(shown: ContractListing, newest: Contract) -> dict[str, Any]:
    return {
        "table": shown.table,
        "generation": newest.generation,
        "revision": newest.revision,
        "terms": terms_to_values(newest.terms),
        "pending": None if newest.coming is None else terms_to_values(newest.coming),
        "pending_since": None if newest.since is None else utc_text(newest.since),
        "behind": list(shown.behind),
        "read_at": datetime.now(UTC).isoformat(),
    }


def contract_grid(shown: ContractListing, newest: Contract) -> Grid:
    """Return the newest contract as a table."""
    coming = None if newest.coming is None else terms_to_values(newest.coming)
    columns = [Column("value"), prose("in force"), *([] if coming is None else [prose("pending")])]
    values = terms_to_values(newest.terms)
    rows = []
    for name in dict.fromkeys((*values, *(coming or {}))):
        value = values.get(name, NONE)
        cells = [name, _text(value)]
        if coming is not None:
            then = coming.get(name, NONE)
            cells.append(_text(then) if then != value else "")
        rows.append(cells)
    title = f"contract of table {shown.table}, revision {newest.revision}"
    if newest.since is not None:
        title += f", pending since {utc_text(newest.since)}"
    return Grid(columns, rows, title=title)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    if isinstance(value, list):
        return ", ".join(value)
    return json.dumps(value) if isinstance(value, dict) else str(value)


def sign_net_changes(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what is left.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Sign the net changes that merging has not signed yet, by the first key of the settings.

    The whole table is read at home. Once `signatures.required` is true it signs again what a former
    key signed, and no unsigned one. Exits with 1 while one is unsigned or cannot be trusted.
    """
    settings = Settings.load(config)
    keys = net_keys(settings.signatures)
    if keys is None:
        raise SettingsError(
            "neither signatures.keys nor signatures.keys_env names keys to sign net changes with"
        )

    async def call() -> NetSigning:
        clock = SystemClock()
        async with open_table(settings, clock=clock) as table:
            home = table.stores[table.view.current.home]
            return await NetSigner(home, keys, table.view, clock, dry_run).run()

    done = anyio.run(call)
    if as_json:
        print_json([done])
    else:
        _show(done, required=keys.required)
    if not done.is_whole:
        raise typer.Exit(1)


def _show(done: NetSigning, *, required: bool) -> None:
    say(
        f"{done.there + done.signed + done.changed:,} net changes are signed, {done.signed:,}"
        f" of them now; {done.left:,} are not yet, {done.faulty:,} cannot be trusted"
    )
    for fault in done.faults:
        say(fault, err=True)
    if done.faulty and required:
        say(
            "signatures.required holds, so what has no signature was written without the key"
            " and is not signed; a table that never was is signed first, and requires it then",
            err=True,
        )
