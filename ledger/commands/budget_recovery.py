"""`ledger budget reclaim` and `recount`: budgets after a lost region, and after a restore."""

import sys
from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

import anyio
import typer

from ledger.administration.budget_recovery import (
    Restored,
    RightsReclaim,
    lost_rights,
    restored_budgets,
)
from ledger.budgets.calendar import Window
from ledger.budgets.lost_stake import LostStake
from ledger.budgets.rights import Holder
from ledger.commands.options import amount_of
from ledger.core import amounts
from ledger.core.errors import ContractChangeRefused, InvalidInput
from ledger.runtime.command_line import AsJson, Config
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.settings import Settings

AnyCounter = Annotated[
    str, typer.Argument(help="Counter of the budget.", show_default="all of the table")
]
Refusals = list[ContractChangeRefused]


def reclaim(
    counter: AnyCounter = "",
    *,
    lost: Annotated[str, typer.Option(help="The region that is lost for good, or was taken out.")],
    most: Annotated[
        str | None,
        typer.Option(help="Mint at most so much again for each; the rest stays spent."),
    ] = None,
    confirm: Annotated[
        str | None, typer.Option(metavar="REGION", help="The lost region, unprompted.")
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Mint again what a region had, a day after it was lost or taken out; first show the stake.

    That is the most that the region may have acknowledged and that will never be seen: if you owe
    part of it (tickets, payments), reclaim less with --most. Of windows those that run are looked
    at, and any with entries that cannot be merged otherwise. The tables of all regions are scanned.
    If interrupted, or while a region does not yet show that the lost one is cut off, run it again.
    Limits that not every region shows, since a lost home wrote them, are written again.
    """
    settings = Settings.load(config)
    at_most = _most_of(most)
    opening = partial(lost_rights, settings, lost, services=Services.of())

    async def look() -> tuple[list[Window], list[tuple[Window, Holder, LostStake]]]:
        async with opening() as rights:
            counters = await rights.counters(counter or None)
            torn = [window for window in counters if not await rights.is_whole(window)]
            return torn, [
                (window, holder, stake)
                for window in counters
                for holder, stake in (await rights.stakes(window)).items()
            ]

    async def mint(windows: Iterable[Window]) -> tuple[list[dict[str, Any]], Refusals]:
        async with opening() as rights:
            done = await _reclaimed(rights, windows, at_most)
            for window in torn:
                await rights.go_on(window)
            return done

    torn, found = anyio.run(look)
    if not found and not torn:
        say(f"nothing of {lost} is left to be reclaimed", err=True)
        return
    for window in torn:
        say(f"a change of the limit of {window.budget} is left in part: it is finished", err=True)
    for window, holder, stake in found:
        say(f"at stake in {window.counter}: {amounts.to_text(stake.amount)} of {holder}", err=True)
    _confirmed(lost, confirm)
    minted, refused = anyio.run(mint, list(dict.fromkeys(window for window, _, _ in found)))
    if as_json:
        print_json(minted)
    else:
        for done in minted:
            say(f"{done['counter']}: {done['minted']} of {done['holder']} minted again")
    if refused:
        raise refused[0]


def recount(
    counter: AnyCounter = "",
    *,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Recount budgets after their table was restored to a point in time, before anything is spent.

    What was spent, or moved between regions, and is not in a budget's own items is charged there; a
    change of a limit of which one half was restored is made whole. No compactor may have run since.
    Tables of every region are scanned. If interrupted, or after a create, run it again. On a table
    that was not restored it pays what a region owes from what others have free, and nothing else.
    """
    settings = Settings.load(config)

    async def counted() -> Restored:
        opening = restored_budgets(settings, services=Services.of())
        async with opening as budgets:
            return await budgets.recount(counter or None)

    restored = anyio.run(counted)
    lines = [
        {
            "counter": name,
            "holder": str(holder),
            "charged": amounts.to_text(done.charged),
            "sent": amounts.to_text(done.sent),
            "taken": amounts.to_text(done.taken),
        }
        for name, changed in restored.counted.items()
        for holder, done in changed.items()
    ]
    limits = [
        {"counter": name, "limit": amounts.to_text(made.later or made.target)}
        for name, made in restored.limits.items()
    ]
    if as_json:
        print_json([*lines, *limits])
        return
    for line in lines:
        what = "{counter}: {charged} charged to {holder}, {sent} sent and {taken} taken by it"
        say(what.format(**line))
    for line in limits:
        say(
            "{counter}: a change of its limit was there in half, and is made: {limit}".format(
                **line
            )
        )
    if not lines and not limits:
        say("every budget's items know of all that was spent and moved", err=True)


async def _reclaimed(
    rights: RightsReclaim, windows: Iterable[Window], most: Decimal | None
) -> tuple[list[dict[str, Any]], Refusals]:
    """Mint what can be, window by window; return it, and why the others are refused."""
    lines: list[dict[str, Any]] = []
    refused: Refusals = []
    for window in windows:
        try:
            minted = await rights.reclaim(window, most)
        except ContractChangeRefused as error:
            refused.append(error)
            continue
        lines += [
            {
                "budget": window.budget,
                "counter": window.counter,
                "holder": str(holder),
                "at_stake": amounts.to_text(done.stake.amount),
                "minted": amounts.to_text(done.amount),
            }
            for holder, done in minted.items()
        ]
    return lines, refused


def _most_of(most: str | None) -> Decimal | None:
    amount = None if most is None else amount_of(most)
    if amount is not None and amount < 0:
        raise InvalidInput(f"--most must be 0 or more, got {most}")
    return amount


def _confirmed(lost: str, confirm: str | None) -> None:
    if confirm is None and sys.stdin.isatty():
        confirm = typer.prompt(f"Type {lost} to continue", default="", show_default=False)
    if confirm != lost:
        raise InvalidInput(f"nothing was changed: confirm with --confirm {lost}, got {confirm!r}")
