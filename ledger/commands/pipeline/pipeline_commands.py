"""`ledger pipeline`: process records, replay dead letters, show lanes and totals."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import anyio
import typer
from prometheus_client import CollectorRegistry
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ledger.commands.lazy import LABORATORY, LazyCommand, add_lazily
from ledger.commands.live import with_display
from ledger.commands.pipeline.lane_display import line, panel, summary
from ledger.commands.pipeline.page import serve_page
from ledger.commands.pipeline.watching import publish_totals
from ledger.core.errors import InvalidInput
from ledger.pipeline.core.items import lane_id
from ledger.pipeline.progress import Progress
from ledger.pipeline.running import Lane, Spool, bring_in
from ledger.pipeline.sources.source import lane_of
from ledger.pipeline.stages.lanes import Lanes
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import Config, new_app
from ledger.runtime.gc import tune_gc
from ledger.runtime.loops import run_on_loop
from ledger.runtime.metrics import serve
from ledger.runtime.signals import ignore, stopped_by_signals
from ledger.settings import Settings
from ledger.store.opening import open_store

AGAIN = "run the same command again to continue: nothing is counted twice"
STANDARD_INPUT = "-"

DEMO = LazyCommand(
    "demo",
    "ledger.lab.demos.pipeline.pipeline_demo_command",
    "Send corrected messages through the pipeline with faults injected, and verify its totals.",
    LABORATORY,
)

app = new_app(about="Process a stream of corrected records into exact totals.")

Region = Annotated[
    str | None,
    typer.Option(help="Region of the lane.", show_default="the settings' home, or first region"),
]
LaneName = Annotated[
    str | None,
    typer.Option(
        help="Name of the lane.", show_default="the file's name and a hash of its first line"
    ),
]
PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline", help="Name of the pipeline.", show_default="pipeline, or the only one"
    ),
]
MetricsPort = Annotated[
    int | None, typer.Option(min=0, max=65535, help="Port to serve Prometheus metrics on.")
]


@app.command("run")
def run_file(
    file: Annotated[str, typer.Argument(help="Records as JSON lines, or - with --spool.")],
    *,
    region: Region = None,
    lane: LaneName = None,
    dead: Annotated[
        Path | None,
        typer.Option(help="File for dead letters.", show_default="FILE.dead", dir_okay=False),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="At the end of the file, wait for more until SIGTERM.")
    ] = False,
    spool: Annotated[
        Path | None,
        typer.Option(help="With -: new file that keeps standard input.", dir_okay=False),
    ] = None,
    pipeline: PipelineName = None,
    metrics_port: MetricsPort = None,
    config: Config = None,
) -> None:
    """Process a file of records into the totals, the newest version of each record once.

    Fields, categories and home regions come from `pipeline` in the settings. A run that was killed
    at any moment continues when it is repeated, with the same result. The file may grow between
    runs, by whole lines. Records that cannot be processed go to the dead letters, with the reason.

    Standard input cannot be read again after a crash, so - requires --spool: a new file that keeps
    the input while it is processed. After a crash, run the command again with the spool file in
    place of -.
    """
    settings = Settings.load(config).of_pipeline(pipeline)
    spooling = _spool(file, spool)
    path = spooling.file if spooling else Path(file)
    chosen = Lane(
        lane or lane_of(path),
        settings.home if region is None else region,
        path,
        dead or _beside(path),
        follows=follow,
    )
    _bring_in(chosen, settings, spooling, metrics_port)


@app.command()
def replay(
    file: Annotated[Path, typer.Argument(help="File of dead letters.", dir_okay=False)],
    *,
    region: Region = None,
    lane: LaneName = None,
    dead: Annotated[
        Path | None,
        typer.Option(
            help="File for letters that fail again.", show_default="FILE.dead", dir_okay=False
        ),
    ] = None,
    pipeline: PipelineName = None,
    metrics_port: MetricsPort = None,
    config: Config = None,
) -> None:
    """Process dead letters again, after the cause was fixed.

    The file is a lane of its own, with its own positions: each letter is processed once, however
    often the command is killed and run again, and later runs continue with the letters that were
    added since. A letter that fails again goes to another file, with the new reason, this lane, and
    its position in FILE, where the first lane and reason stand.
    """
    settings = Settings.load(config).of_pipeline(pipeline)
    again = dead or _beside(file)
    if again.resolve() == file.resolve():
        raise InvalidInput(f"--dead must be a file other than {file}, which is being read")
    chosen = Lane(
        lane or lane_of(file),
        settings.home if region is None else region,
        file,
        again,
        is_letters=True,
    )
    _bring_in(chosen, settings, None, metrics_port)


@app.command()
def status(
    files: Annotated[
        list[str], typer.Argument(help="Files of records, or names of lanes.", metavar="LANE")
    ],
    *,
    region: Region = None,
    pipeline: PipelineName = None,
    config: Config = None,
) -> None:
    """Show how far each lane has come, and how many map items wait to be reduced."""
    settings = Settings.load(config).of_pipeline(pipeline)
    place = settings.home if region is None else region
    names = {name: lane_of(Path(name)) if Path(name).is_file() else name for name in files}
    anyio.run(_show_status, settings, place, names)


@app.command()
def page(
    counters: Annotated[list[str], typer.Argument(help="Ids of the counters to show.")],
    *,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 for any free port.")
    ] = 8080,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two reads.")] = 2.0,
    config: Config = None,
) -> None:
    """Serve a web page with the totals of every region and a chart, until Ctrl-C."""
    anyio.run(_show_page, Settings.load(config), counters, port, every)


add_lazily(app, DEMO)


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
    lane: Lane, settings: Settings, spool: Spool | None, metrics_port: int | None
) -> None:
    """Bring a lane in under a display, and print its summary.

    Raises:
        Exit: a signal stopped it before the end.
    """
    progress = Progress(lane.file, CollectorRegistry())
    console = Console(stderr=True, highlight=False)

    def tell(text: str) -> None:
        console.print(text, markup=False)

    with ExitStack() as stack:
        if metrics_port is not None:
            server = stack.enter_context(serve(metrics_port, progress.registry))
            tell(f"metrics on http://{server.host}:{server.port}/metrics")
        tune_gc()
        came = run_on_loop(
            with_display(
                lambda: bring_in(lane, settings, progress, spool=spool, tell=tell),
                console,
                panel=lambda: panel(progress),
                line=lambda: line(progress),
            )
        )
    dead = progress.figures().dead
    kept = f" (kept in {lane.dead})" if dead else ""
    typer.echo(f"lane {lane.region}/{lane.name}: {summary(progress.figures())}{kept}")
    if came.number and (came.is_cut_off or not lane.follows):
        typer.echo(AGAIN, err=True)
        raise typer.Exit(came.status)


async def _show_page(
    settings: Settings, counters: Sequence[str], port: int, every_seconds: float
) -> None:
    stop = anyio.Event()
    with serve_page(port) as served:
        typer.echo(f"totals on {served.url}")
        async with stopped_by_signals(lambda _: stop.set(), ignore):
            await publish_totals(
                settings, counters, served.publish, every_seconds=every_seconds, stop=stop
            )


async def _show_status(settings: Settings, region: str, names: Mapping[str, str]) -> None:
    table = Table(box=box.SIMPLE)
    table.add_column("lane", overflow="fold")
    for heading in ("position", "of bytes", "map items waiting"):
        table.add_column(heading, justify="right", overflow="fold")
    async with open_store(settings, region) as store:
        for given, name in names.items():
            lanes = Lanes(
                lane_id(region, name), store, SystemClock(), pipeline=settings.pipeline.name
            )
            waiting = len(await lanes.load())
            size = f"{Path(given).stat().st_size:,}" if given != name else ""  # noqa: ASYNC240
            table.add_row(
                escape(lanes.lane), lanes.position.lstrip("0") or "-", size, f"{waiting:,}"
            )
    Console().print(table)
