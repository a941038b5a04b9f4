"""`ledger archive`: remove what no net names, erase notes, rebuild a table."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
import typer

from ledger.administration.archive.cleanup import SweepResult, erase_notes, sweep
from ledger.administration.archive.rebuild import Rebuild, RebuildResult
from ledger.contract.open_regions import OpenTable, open_table
from ledger.core import keys
from ledger.core.errors import StateConflict
from ledger.reads.archive.places.opening import ReplicatedPlace, open_places
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.output import print_json, say
from ledger.settings import Settings

SHOWN_EVERY = 100

app = new_app(about="Sweep a table's archive, erase notes from it, or rebuild a table from it.")


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[OpenTable, ReplicatedPlace]]:
    """Open a table and the archive that its contract names.

    Raises:
        StateConflict: it names no archive.
    """
    clock = SystemClock()
    async with open_table(settings, clock=clock) as table:
        urls = table.view.current.terms.archive
        if not urls:
            raise StateConflict(
                f"table {settings.table} has no archive: `ledger table set archive"
                " s3://BUCKET/PREFIX` begins one"
            )
        async with open_places(urls, clock=clock) as places:
            yield table, places


@app.command("sweep")
def sweep_objects(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only report what would go.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Remove objects, at least a day old, that were left by folds which lost their race.

    The whole archive is read and checked before anything is removed.
    """

    async def call() -> SweepResult:
        async with opened(Settings.load(config)) as (table, places):
            return await sweep(
                table.stores,
                places,
                home=table.view.current.home,
                now=SystemClock().now(),
                dry_run=dry_run,
            )

    swept = anyio.run(call)
    if as_json:
        print_json([swept])
        return
    verb = "would be removed" if dry_run else "removed"
    say(
        f"{swept.removed:,} objects {verb}, {swept.kept:,} stay; {swept.left_over:,} segments that"
        " no net names"
    )
    if swept.only_here:
        say(
            f"{swept.only_here:,} of those that stay contain entries that this table does not show:"
            " nets were lost (`ledger verify --archive` names them, `ledger archive rebuild` makes"
            " them again), another table uses this archive, too, or it was removed and begun"
            " again, which ended their chain",
            err=True,
        )


@app.command()
def erase(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    entries: Annotated[list[str], typer.Argument(help="Ids of entries.")],
    *,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Erase the notes of entries, in every place; digests and chain stay whole.

    Metadata and legs of transfers stay: no chain holds without them. If a bucket keeps versions,
    delete the former versions of the objects, too.
    """

    async def call() -> int:
        async with opened(Settings.load(config)) as (table, places):
            current = table.view.current
            return await erase_notes(
                table.stores[current.home],
                places,
                keys.checked_counter(counter),
                entries,
                shards=current.shards_max(counter),
            )

    erased = anyio.run(call)
    if as_json:
        print_json([{"erased": erased}])
    else:
        say(f"{erased:,} notes erased")


@app.command()
def rebuild(*, config: Config = None, as_json: AsJson = False) -> None:
    """Rebuild the collections of a table from its archive alone, through the home region.

    The table must have a contract with this archive, and none of these collections; stop compactors
    and writers before. An interrupted run is continued by another.
    """

    def show(done: RebuildResult) -> None:
        if (done.collections + done.there) % SHOWN_EVERY == 0:
            say(f"so far {_rebuilt(done)}", err=True)

    async def call() -> RebuildResult:
        clock = SystemClock()
        async with opened(Settings.load(config)) as (table, places):
            current = table.view.current
            home = table.stores[current.home]
            return await Rebuild(home, places, current, clock.now(), system_random(), show).run()

    done = anyio.run(call)
    if as_json:
        print_json([done])
    else:
        say(_rebuilt(done))


def _rebuilt(done: RebuildResult) -> str:
    then = " (`compactor run --once --search` merges them)" if done.unmerged else ""
    return (
        f"{done.collections:,} collections made of {done.entries:,} entries, {done.unmerged:,} of"
        f" their entries not merged{then}; {done.there:,} were there"
    )
