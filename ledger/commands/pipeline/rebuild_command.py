"""`ledger pipeline rebuild`: give all states the current categories and measures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ledger.commands.options import PipelineOptions
from ledger.contract.open_regions import open_table
from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.pipeline.auditing.rebuild import StateRebuild
from ledger.pipeline.auditing.reread import LISTED_MAX, RereadResult
from ledger.pipeline.sources.file_claims import LaneFile, files_in
from ledger.pipeline.sources.file_contents import LINE_BYTES_MAX
from ledger.pipeline.sources.files import FileSource
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_options import spread_options
from ledger.runtime.loops import run_on_loop
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.settings import Settings


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
    done = run_on_loop(_rebuild(settings, sources, is_dry=dry_run))
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


async def _rebuild(
    settings: Settings, sources: Mapping[str, FileSource], *, is_dry: bool
) -> RereadResult:
    async with open_table(settings, clock=SystemClock()) as table:
        return await StateRebuild(
            table.stores,
            table.view,
            services=Services.of(),
            is_dry=is_dry,
            on_progress=lambda line: say(line, err=True),
        ).run(sources)
