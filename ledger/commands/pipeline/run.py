"""`ledger pipeline`: process records, replay dead letters, show lanes."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import anyio
import typer

from ledger.commands.live import with_display
from ledger.commands.options import PipelineName
from ledger.commands.pipeline.audit import audit, mend
from ledger.commands.pipeline.dead_letters import fetch, prepare, show_letters
from ledger.commands.pipeline.lanes import LaneRegion, line, panel, status, summary
from ledger.commands.pipeline.states import forget, move_states, rebuild, reset
from ledger.core.errors import InvalidInput
from ledger.pipeline.file_runs import LaneRun, Spool, bring_in, bring_in_all
from ledger.pipeline.progress import LaneProgress, StreamProgress
from ledger.pipeline.sources.file_claims import files_in
from ledger.pipeline.stream_runs import bring_in_queue, bring_in_stream
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console, print_line
from ledger.runtime.loops import run_tuned
from ledger.runtime.metrics import program_registry
from ledger.runtime.metrics_server import Liveness, keep_beating, serve_metrics
from ledger.runtime.output import print_json, say
from ledger.runtime.signals import Signalled
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings

AGAIN = "run the same command again to continue: nothing is counted twice"
STANDARD_INPUT = "-"
QUEUE = "sqs://"
NAMES_MAX = 2
"""The most lanes named in a summary."""

app = new_app(about="Process a stream of corrected records into exact totals.")


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """The place of a lane."""

    region: LaneRegion = None
    lane: Annotated[
        str | None,
        typer.Option(help="Name of the lane.", show_default="found by the file's content"),
    ] = None


@dataclass(frozen=True, slots=True)
class LaneWorkOptions:
    """The options that commands which bring lanes in have in common."""

    pipeline: PipelineName = None
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to serve_metrics Prometheus metrics on."),
    ] = None
    config: Config = None
    as_json: AsJson = False

    def placed(self, at: LaneOptions) -> tuple[Settings, str]:
        """Return the settings of the pipeline, and the region of a lane."""
        settings = Settings.load(self.config).of_pipeline(self.pipeline)
        return settings, settings.home if at.region is None else at.region


@app.command("run")
@spread_options
def run_lane(
    file: Annotated[
        str,
        typer.Argument(help="File or directory; -; kinesis://, kafka://, sqs:// (see above)."),
    ],
    *,
    at: LaneOptions,
    dead: Annotated[
        Path | None,
        typer.Option(help="File for dead letters.", show_default="FILE.dead", dir_okay=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="At the end of the file, wait for more until SIGTERM.")
    ] = False,
    spool: Annotated[
        Path | None,
        typer.Option(help="With - (a new file) or sqs://: keeps the input.", dir_okay=False),
    ] = None,
    skip_lost: Annotated[
        bool,
        typer.Option("--skip-lost", help="Continue a stream whose oldest records are gone."),
    ] = False,
    common: LaneWorkOptions,
) -> None:
    """Process a file of records into the totals, the newest version of each record once.

    Fields, categories and home regions come from `pipeline` in the settings. A run that was killed
    at any moment continues when it is repeated, with the same result. A file is identified by its
    content: it may grow by whole records, and be renamed or compressed between runs; with other
    content it is another lane. Records that cannot be processed go to the dead letters, with the
    reason. A name with .csv or .tsv is CSV, whose header names the fields. In a directory each file
    is a lane. --follow continues with the file that replaces one that is moved away.

    Standard input cannot be read again after a crash, so - requires --spool: a new file that keeps
    the input while it is processed. After a crash, run the command again with the spool file in
    place of -.

    kinesis://STREAM and kafka://BROKER:PORT/TOPIC (kafka+tls:// with TLS) are read until SIGTERM:
    each shard or partition is a lane. Processes that run one stream share its lanes by leases.

    sqs://QUEUE with --spool FILE moves the queue's messages to the file, and processes that: until
    the queue is empty, or with --follow until SIGTERM. A queue has no positions of its own.
    """
    settings, place = common.placed(at)
    if file.startswith(QUEUE):
        if spool is None:
            raise InvalidInput(f"{file} requires --spool with a file that keeps its messages")
        chosen = LaneRun(at.lane, place, spool, dead or _beside(spool), follows=follow)
        _bring_in([chosen], settings, common, queue=file.removeprefix(QUEUE))
        return
    if "://" in file:
        if at.lane or follow or spool:
            raise InvalidInput(f"{file} is a stream: its lanes have names, and its end never comes")
        _bring_in_stream(file, settings, place, dead, common, skip_lost=skip_lost)
        return
    if Path(file).is_dir():
        if at.lane or dead or follow or spool:
            raise InvalidInput(
                f"{file} is a directory: each of its files is a separate lane, with its own"
                " FILE.dead, and cannot be followed"
            )
        lanes = [LaneRun(None, place, path, _beside(path)) for path in files_in(Path(file))]
        _bring_in(lanes, settings, common)
        return
    spooling = _spool(file, spool)
    path = spooling.file if spooling else Path(file)
    chosen = LaneRun(at.lane, place, path, dead or _beside(path), follows=follow)
    _bring_in([chosen], settings, common, spool=spooling)


@app.command()
@spread_options
def replay(
    file: Annotated[Path, typer.Argument(help="File of dead letters.", dir_okay=False)],
    *,
    at: LaneOptions,
    dead: Annotated[
        Path | None,
        typer.Option(
            help="File for letters that fail again.", show_default="FILE.dead", dir_okay=False
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only letters at this position, or with this text in their reason."),
    ] = None,
    edit: Annotated[
        bool, typer.Option("--edit", help="Edit the records first, in $EDITOR; one a line.")
    ] = False,
    queue: Annotated[
        str | None, typer.Option(help="Move the letters of this SQS queue (URL) to FILE first.")
    ] = None,
    common: LaneWorkOptions,
) -> None:
    """Process dead letters again, after the cause was fixed.

    The file is a separate lane, with its own positions: each letter is processed once, however
    often the command is killed and run again, and later runs continue with letters added since. A
    letter that fails again goes to another file, with the new reason, this lane, and its position
    in FILE, which has the first lane and reason.

    FILE may be edited in place: with other content it is another lane, and records that counted
    before do not count a second time. --only and --edit replay a file beside it, FILE.only-HASH or
    FILE.edit-HASH, which stays.
    """
    settings, place = common.placed(at)
    again = dead or _beside(file)
    if again.resolve() == file.resolve():
        raise InvalidInput(f"--dead must be a file other than {file}, which is being read")
    if queue is not None:
        moved = anyio.run(fetch, queue, file, settings, place)
        say(f"{moved:,} letters moved from {queue} to {file}", err=common.as_json)
        if not moved and not file.exists():
            return
    path, is_letters = prepare(file, only=only, edit=edit)
    chosen = LaneRun(at.lane, place, path, again, is_letters=is_letters)
    _bring_in([chosen], settings, common)


@app.command()
def letters(
    files: Annotated[list[Path], typer.Argument(help="Files of dead letters.", dir_okay=False)],
    *,
    as_json: AsJson = False,
) -> None:
    """List dead letters: when each first came, how often, from where, and why it was refused.

    A record that came again at the same position, as after a crash, is listed once. Letters in an
    SQS queue are first moved to a file: `ledger pipeline replay FILE --queue URL`.
    """
    show_letters(files, as_json=as_json)


app.command("status")(status)
app.command("audit")(audit)
app.command("mend")(mend)
app.command("rebuild")(rebuild)
app.command("reset")(reset)
app.command("move-states")(move_states)
app.command("forget")(forget)


def _spool(file: str, spool: Path | None) -> Spool | None:
    """Begin to keep standard input, if it is to be read.

    Raises:
        InvalidInput: standard input without --spool, or --spool with a file.
    """
    if file != STANDARD_INPUT:
        if spool is not None:
            raise InvalidInput("--spool requires standard input: use - as FILE")
        return None
    if spool is None:
        raise InvalidInput(
            "standard input requires --spool with a new file, since it cannot be read again after"
            " a crash"
        )
    spooling = Spool(sys.stdin.buffer, spool)
    spooling.begin()
    return spooling


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.dead")


def _bring_in(
    lanes: Sequence[LaneRun],
    settings: Settings,
    common: LaneWorkOptions,
    *,
    spool: Spool | None = None,
    queue: str | None = None,
) -> None:
    """Bring lanes in under a display, and print their summary.

    Raises:
        Exit: a signal stopped it before the end, or something could not be brought in.
    """
    progress = LaneProgress([lane.file for lane in lanes], program_registry())

    async def work(report: Callable[[str], None]) -> Signalled:
        if queue is not None:
            return await bring_in_queue(queue, lanes[0], settings, progress, report=report)
        if len(lanes) == 1:
            return await bring_in(lanes[0], settings, progress, spool=spool, report=report)
        return await bring_in_all(lanes, settings, progress, report=report)

    dead = lanes[0].dead if len(lanes) == 1 else Path("FILE.dead")
    came = _show(work, progress, common, region=lanes[0].region, dead=dead)
    if came.number and (came.is_cut_off or not lanes[0].follows):
        say(AGAIN, err=True)
        raise typer.Exit(came.status)
    if progress.problems:
        raise typer.Exit(1)


def _bring_in_stream(
    address: str,
    settings: Settings,
    region: str,
    dead: Path | None,
    common: LaneWorkOptions,
    *,
    skip_lost: bool,
) -> None:
    """Bring a stream in under a display, and print its summary.

    Raises:
        Exit: it was stopped at once, or a lane could not continue.
    """
    progress = StreamProgress(program_registry())
    letters = dead or Path(f"{address.rpartition('/')[2] or 'stream'}.dead")

    async def work(report: Callable[[str], None]) -> Signalled:
        return await bring_in_stream(
            address, settings, region, progress, dead=letters, skips_lost=skip_lost, report=report
        )

    came = _show(work, progress, common, region=region, dead=letters)
    if came.number and came.is_cut_off:
        say(AGAIN, err=True)
        raise typer.Exit(came.status)
    if progress.problems:
        raise typer.Exit(1)


def _show(
    work: Callable[[Callable[[str], None]], Awaitable[Signalled]],
    progress: LaneProgress | StreamProgress,
    common: LaneWorkOptions,
    *,
    region: str,
    dead: Path,
) -> Signalled:
    """Do the work under a display; print its summary, and what it could not bring in."""
    console = new_console(err=True)

    def report(text: str) -> None:
        print_line(text, console)

    health = Liveness()

    async def watched() -> Signalled:
        async with background_tasks() as tasks:
            tasks.start_soon(keep_beating, health)
            return await work(report)

    with ExitStack() as stack:
        if common.metrics_port is not None:
            server = stack.enter_context(
                serve_metrics(common.metrics_port, progress.registry, health=health)
            )
            report(f"metrics on http://{server.host}:{server.port}/metrics")
        came = run_tuned(
            with_display(
                watched,
                console,
                panel=lambda: panel(progress),
                line=lambda: line(progress),
            )
        )
    done = progress.figures()
    kept = f" (kept in {dead})" if done.dead else ""
    lanes = progress.lanes
    names = " and ".join(lanes) if len(lanes) <= NAMES_MAX else f"{len(lanes)} lanes"
    if common.as_json:
        print_json([{"region": region, "lanes": list(lanes), **asdict(done)}])
    else:
        say(f"lane {region}/{names or '-'}: {summary(done)}{kept}")
    for problem in progress.problems:
        report(f"error: {problem}")
    return came
