"""`ledger verify`: compare all regions, and report what is wrong and where."""

from collections.abc import Sequence
from typing import Annotated, Any

import anyio
import typer

from ledger.administration.archive.check import (
    ArchiveCheck,
    ArchiveFault,
    RestoredCollection,
    archived_in,
)
from ledger.administration.collection_findings import CollectionFinding
from ledger.administration.verification import Verification, VerifyProgress
from ledger.commands.archive import opened
from ledger.commands.options import iso_time
from ledger.contract.open_regions import open_table
from ledger.core import keys
from ledger.core.errors import InvalidInput
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED, AsJson, Config, new_app
from ledger.runtime.output import print_json, say
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings

PROGRESS_SECONDS = 5.0

app = new_app()


@app.command()
def verify(
    counters: Annotated[
        list[str] | None, typer.Argument(help="Counter ids; without one, the whole table.")
    ] = None,
    *,
    archive: Annotated[
        bool, typer.Option("--archive", help="Check the archive, too: each byte, link and sum.")
    ] = False,
    restored: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TIME/UNTIL",
            help="With --archive: the table was restored as of TIME, and its former one merged"
            " UNTIL then; what was folded in between is not wrong. Repeatable.",
        ),
    ] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Compare totals, items and nets of all regions; exit with 1 if anything is damaged.

    Writers and compactors may keep running. It reads every item in every region once, and with
    --archive every object of each place. Only --archive can detect an older net that was put back.
    """
    settings = Settings.load(config)
    restores = [_restored(text) for text in restored or ()]
    if restores and not archive:
        raise InvalidInput("--restored is about the archive: give --archive, too")
    asked = [keys.checked_counter(counter) for counter in counters or ()]

    def show(finding: CollectionFinding) -> None:
        if as_json:
            print_json([_fields(finding)])
        else:
            say(_line(finding))

    if archive:
        anyio.run(_check_opens, settings)  # before every item is read
    progress = anyio.run(_verify, settings, asked, show)
    say(_summary(progress), err=True)
    wrong = anyio.run(_check_archive, settings, asked, restores, as_json) if archive else 0
    if progress.damage or wrong:
        raise typer.Exit(FAILED)


async def _check_opens(settings: Settings) -> None:
    """Refuse a table without an archive, or an archive that cannot be opened."""
    async with opened(settings):
        pass


async def _verify(settings: Settings, counters: Sequence[str], show: Any) -> VerifyProgress:
    clock = SystemClock()
    async with open_table(settings, clock=clock) as table:
        verification = Verification(table.stores, table.view.current, clock, show)
        async with background_tasks() as tasks:
            tasks.start_soon(_show_progress, verification.progress)
            if counters:
                await verification.counters(counters)
            else:
                await verification.whole()
    return verification.progress


def _restored(text: str) -> RestoredCollection:
    """Return the restore that an option names.

    Raises:
        InvalidInput: it is not two times, the earlier first.
    """
    first, _, last = text.partition("/")
    moment, until = iso_time("--restored", first), iso_time("--restored", last)
    if moment is None or until is None or moment > until:
        raise InvalidInput(f"--restored must be two times, TIME/UNTIL, in order, got {text!r}")
    return RestoredCollection(moment, until)


async def _check_archive(
    settings: Settings,
    counters: Sequence[str],
    restores: Sequence[RestoredCollection],
    as_json: bool,  # noqa: FBT001
) -> int:
    """Check the archive against the nets of all regions; return how many problems there are."""

    def show(wrong: ArchiveFault) -> None:
        if as_json:
            print_json(
                [{"kind": "archive", "damage": True, "where": wrong.where, "text": wrong.text}]
            )
        else:
            say(f"archive: {wrong.where}: {wrong.text}")

    async with opened(settings) as (table, places):
        current = table.view.current
        check = ArchiveCheck(table.stores, current.home, places, show, restores)
        if counters:
            await check.run(
                [
                    keys.partition_key(counter, shard)
                    for counter in counters
                    for shard in range(current.shards_max(counter))
                ]
            )
        else:
            await check.whole(archived_in(table.stores[current.home]))
    taken_back = f", {check.taken_back:,} entries taken back by a restore" if restores else ""
    say(
        f"{check.objects:,} objects in {len(places.places)} places, {check.entries:,} entries in"
        f" {check.segments:,} segments of {check.collections:,} collections recounted:"
        f" {check.wrong:,} wrong, {check.left_over:,} segments that no net names"
        f"{taken_back}",
        err=True,
    )
    return check.wrong


async def _show_progress(progress: VerifyProgress) -> None:
    while True:  # until cancelled
        await anyio.sleep(PROGRESS_SECONDS)
        say(f"so far {_summary(progress)}", err=True)


def _summary(progress: VerifyProgress) -> str:
    harmless = progress.findings - progress.damage
    return (
        f"{progress.collections:,} collections and {progress.items:,} items compared:"
        f" {progress.damage:,} damaged, {harmless:,} worth knowing"
    )


def _line(finding: CollectionFinding) -> str:
    where = f"{finding.partition!r} in {', '.join(finding.regions)}"
    item = f", item {finding.sort_key!r}" if finding.sort_key else ""
    return f"{finding.kind}: {where}{item}: {finding.text}"


def _fields(finding: CollectionFinding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "damage": finding.is_damage,
        "counter": finding.counter,
        "partition": finding.partition,
        "item": finding.sort_key,
        "regions": list(finding.regions),
        "text": finding.text,
    }
