"""`ledger table sign`: sign net changes that have no signature yet, or one of a former key."""

from typing import Annotated

import anyio
import typer

from ledger.administration.signing_nets import NetSigner, SignedNets
from ledger.contract.open_regions import open_table
from ledger.core.errors import SettingsError
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import AsJson, Config
from ledger.runtime.output import print_json, say
from ledger.settings import Settings
from ledger.store.connections import net_keys


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

    async def call() -> SignedNets:
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


def _show(done: SignedNets, *, required: bool) -> None:
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
