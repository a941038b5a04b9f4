"""`ledger pipeline reset`: take all records of a pipeline out of the totals, to begin again."""

import sys
from typing import Annotated

import typer

from ledger.commands.options import PipelineOptions
from ledger.contract.open_regions import open_table
from ledger.core.errors import InvalidInput
from ledger.pipeline.auditing.reset import Reset, ResetResult
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_options import spread_options
from ledger.runtime.loops import run_on_loop
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.settings import Settings


@spread_options
def reset(
    *,
    confirm: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The pipeline's name, or the table's if it has none, in place of the prompt.",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if a lane is open: once its workers have died."),
    ] = False,
    common: PipelineOptions,
) -> None:
    """Take all records of a pipeline out of the totals and forget them, as for another trial.

    Its states, map items and claims are deleted in every region, and its lanes begin again: a file
    or stream that is run again is brought in from its first record. Its totals become 0, unless
    other sources add to its categories: their sums stay, as do other pipelines and counters.

    Refused while a lane is open, or moves within ten seconds: stop its workers, and for a Lambda
    function the event source mapping. --force is for lanes whose workers died: one that still runs
    may leave states that no total shows. If interrupted, it is continued by the same command.
    """
    settings = common.settings()
    _confirm(settings, confirm)
    done = run_on_loop(_reset(settings, is_forced=force))
    if common.as_json:
        print_json([done])
        return
    say(
        f"{done.records:,} records taken out of {len(done.categories):,} totals;"
        f" {done.lanes:,} lanes begin again"
    )


def _confirm(settings: Settings, confirm: str | None) -> None:
    """Check that the pipeline was named, or ask for its name.

    Raises:
        InvalidInput: another name was given, or no name and standard input is not a terminal.
    """
    name = settings.pipeline.name or settings.table
    what = f"pipeline {name}" if settings.pipeline.name else f"the pipeline of table {name}"
    if confirm is None and sys.stdin.isatty():
        regions = ", ".join(settings.regions)
        say(f"This takes all records of {what} out of the totals in {regions}.")
        confirm = typer.prompt(f"Type {name} to continue", default="", show_default=False)
    if confirm is None:
        raise InvalidInput(f"nothing was reset: confirm with --confirm {name}")
    if confirm != name:
        raise InvalidInput(f"nothing was reset: --confirm must be {name!r}, got {confirm!r}")


def _show_progress(line: str) -> None:
    say(line, err=True)


async def _reset(settings: Settings, *, is_forced: bool) -> ResetResult:
    async with open_table(settings, clock=SystemClock()) as table:
        return await Reset(
            table.stores,
            table.view,
            services=Services.of(),
            is_forced=is_forced,
            on_progress=_show_progress,
        ).run()
