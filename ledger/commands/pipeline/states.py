"""`ledger pipeline rebuild`, `reset`, `move-states` and `forget`: the states of a pipeline.

`rebuild` gives all states the current categories and measures. `reset` takes all records of a
pipeline out of the totals, to begin again. `move-states` and `forget` say where states are kept,
and for how long.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ledger.commands.options import PipelineOptions
from ledger.commands.pipeline.audit import run_task
from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.pipeline.auditing.forget import Forget
from ledger.pipeline.auditing.move import Move
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reread import LISTED_MAX, RereadResult
from ledger.pipeline.auditing.reset import Reset
from ledger.pipeline.core.record_times import at_seconds
from ledger.pipeline.core.state_places import shown
from ledger.pipeline.sources.file_claims import LaneFile, files_in
from ledger.pipeline.sources.file_contents import LINE_BYTES_MAX
from ledger.pipeline.sources.files import FileSource
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import print_json, say
from ledger.settings import Settings

LANES_SHOWN_MAX = 3


@spread_options
def rebuild(
    *,
    files: Annotated[
        list[Path] | None,
        typer.Option(
            "--from", metavar="FILE", help="File, or directory, whose records are read once more."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; report what would change.")
    ] = False,
    common: PipelineOptions,
) -> None:
    """Give every record's state the categories and measures in the settings now, while lanes run.

    For when a template changed, a measure was added, or older records are to count in a new
    category. Lanes may run under the same settings meanwhile; under other settings they are
    refused, and must have ended before. Totals stay exact throughout. An interrupted run is
    continued by the same command, and a second run changes nothing.

    States keep the fields that the templates named, and `pipeline.keep_fields`. If that is not
    enough, as for a template that names a new field, --from reads records once more: each completes
    the state of exactly its version; older and newer ones are counted, and change nothing. Exits
    with 1 if a state was left unchanged, and names the first of them.
    """
    settings = common.settings()
    sources = _sources(files or [], settings)
    done = run_task(settings, StateRebuild, lambda task: task.run(sources), is_dry=dry_run)
    for source in sources.values():
        if source.unfinished_bytes:
            say(f"{source.unfinished_bytes:,} bytes at a file's end are not a record", err=True)
    if common.as_json:
        print_json([done])
    else:
        for line in lines_of(done, is_dry=dry_run):
            say(line)
    if not done.is_complete:
        raise typer.Exit(1)


def lines_of(done: RereadResult, *, is_dry: bool) -> list[str]:
    """Return what a rebuild has done, line by line."""
    lines = [
        f"{category}: {amounts.to_text(change)}"
        for category, change in sorted(done.changes.items())
        if change
    ]
    lines += done.listed
    left = done.lacking + done.refused + done.dead
    if left > len(done.listed) >= LISTED_MAX:
        lines.append(f"... of {left:,}")
    if done.lacking:
        lines.append(
            f"{done.lacking:,} states do not keep what the settings need, and were left as they"
            " are: run it again --from the files that have their records"
        )
    if done.refused:
        lines.append(
            f"{done.refused:,} states hold values that the settings refuse: left as they are"
        )
    read = [
        (done.older, "older than their states"),
        (done.newer, "newer than their states (run their lanes)"),
        (done.unknown, "without a state (run their lanes)"),
        (done.dead, "not taken"),
    ]
    if said := ", ".join(f"{count:,} {what}" for count, what in read if count):
        lines.append(f"records read once more: {said}")
    written = "would be rewritten" if is_dry else "rewritten"
    return [*lines, f"{done.records:,} states, {done.rewritten:,} {written}"]


def _sources(files: Sequence[Path], settings: Settings) -> dict[str, FileSource]:
    """Return the files, and those of directories, by their paths.

    Raises:
        InvalidInput: a file does not exist.
    """
    paths: list[Path] = []
    for file in files:
        if not file.exists():
            raise InvalidInput(f"--from {file}: there is no such file")
        paths += files_in(file) if file.is_dir() else [file]
    most = max(LINE_BYTES_MAX, settings.pipeline.record_bytes_max)
    return {str(path): FileSource(path, form=LaneFile(path).form, bytes_max=most) for path in paths}


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
    done = run_task(settings, Reset, Reset.run, is_forced=force)
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


@spread_options
def move_states(common: PipelineOptions) -> None:
    """Move the states of a pipeline's records to the table that `state_table` names, or back.

    The compactor's search reads the whole table, but no other: states in a separate table cost it
    nothing. Create that first, by `ledger table create --states`. Workers with the former settings
    are stopped; started again with the new ones they continue at once, while states are moved. Safe
    to run again: an interrupted move is continued.
    """
    settings = common.settings()
    done = run_task(settings, Move, Move.run)
    if common.as_json:
        print_json([done])
        return
    say(
        f"states lie in {shown(settings.pipeline.state_table or '')}: {done.records:,} moved,"
        f" {done.lanes:,} lanes marked"
    )


@spread_options
def forget(common: PipelineOptions) -> None:
    """Delete the states of records older than `keep_states`; corrections of those are refused.

    Run it from a scheduler, such as once a day. The age of a record is measured from its own time
    (`fields.time`). Only settled states are deleted, and their sums are kept for `ledger pipeline
    audit`, so totals and audits stay exact. Waits some minutes first, for what workers are
    processing. Safe to run again: an interrupted run is continued.
    """
    settings = common.settings()
    done = run_task(settings, Forget, Forget.run)
    if common.as_json:
        print_json([done])
        return
    held = f" by lanes {', '.join(sorted(done.lanes)[:LANES_SHOWN_MAX])}" if done.lanes else ""
    left = f", {done.left:,} not settled yet are held{held}" if done.left else ""
    moment = at_seconds(done.before).isoformat()
    say(f"{done.records:,} records from before {moment} forgotten{left}")
