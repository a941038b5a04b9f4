"""The `compactor` command: run it, show what it does, move its home."""

import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import anyio
import typer

from compactor.home_takeover import at_stake, take_home, without_lost
from compactor.job import Compactor
from compactor.metrics import PushedMetrics
from compactor.pass_history import shortened
from compactor.preview import preview
from compactor.report import CompactorReport
from compactor.status import print_preview, print_status, status_fields, status_of
from ledger.administration.contract_changes import change, left_behind
from ledger.core.contract_item import Contract
from ledger.core.errors import InvalidInput, StoreError
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED, AsJson, Config, SayOnce, new_app, run
from ledger.runtime.command_options import spread_options
from ledger.runtime.logs import LogFormat, LogFormatOption, begin_logging
from ledger.runtime.loops import run_tuned
from ledger.runtime.metrics import program_registry
from ledger.runtime.metrics_server import Liveness, keep_beating, serve_metrics
from ledger.runtime.output import print_json, say
from ledger.runtime.program import INTERRUPTED
from ledger.runtime.signals import stopped_by_signals
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.settings.fields import parse_duration

app = new_app(
    name="compactor",
    about="Merge entries into net changes, invisibly to every reader.",
    add_completion=True,
)
Result = TypeVar("Result")
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How often passes run, and where their metrics and reports go."""

    once: Annotated[bool, typer.Option("--once", help="Run one pass, for a scheduler.")] = False
    every: Annotated[
        str | None, typer.Option(help="Run a pass at this interval, such as 60s, until SIGTERM.")
    ] = None
    search: Annotated[
        bool,
        typer.Option(
            "--search",
            help="With --once: search the whole table now, not only every compactor.scan_every.",
        ),
    ] = False
    wait: Annotated[
        str | None,
        typer.Option(
            help="With --once: how long to wait for the compactor's lease.",
            show_default="one lease",
        ),
    ] = None
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port to serve_metrics Prometheus metrics on."),
    ] = None
    metrics_host: Annotated[
        str, typer.Option(help="Address to serve_metrics metrics on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1"
    metrics_file: Annotated[
        Path | None,
        typer.Option(help="With --once: a .prom file for node_exporter's textfile collector."),
    ] = None
    push_gateway: Annotated[
        str | None, typer.Option(metavar="URL", help="With --once: a Pushgateway for the metrics.")
    ] = None
    log_format: LogFormatOption = LogFormat.TEXT
    config: Config = None
    as_json: AsJson = False

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            InvalidInput: they do not.
        """
        if self.once == (self.every is not None):
            raise InvalidInput("give either --once or --every, such as --every 60s")
        if self.every is not None and self.search:
            raise InvalidInput(
                "--search goes with --once: a service searches every compactor.scan_every"
            )
        if self.every is not None and (self.metrics_file or self.push_gateway is not None):
            raise InvalidInput(
                "--metrics-file and --push-gateway go with --once: a service is scraped,"
                " --metrics-port"
            )


@app.command("run")
@spread_options
def run_compactor(options: RunOptions) -> None:
    """Run the compactor: it merges entries older than `settle`.

    Processes that run with --every share the collections, and take over from one that dies. Besides
    the metrics, /healthz answers whether loop and passes make progress.
    SIGTERM and SIGINT stop it between two steps. Exits with 1 if merging was prevented, or damaged
    collections were left as they are.
    """
    options.check()
    begin_logging(options.log_format)
    settings = Settings.load(options.config)
    registry = program_registry()
    compactor, health = Compactor(settings, registry=registry), Liveness()
    with ExitStack() as stack:
        if options.metrics_port is not None:
            server = stack.enter_context(
                serve_metrics(
                    options.metrics_port, registry, host=options.metrics_host, health=health
                )
            )
            say(f"metrics on http://{server.host}:{server.port}/metrics", err=True)
        if options.every is not None:
            seconds = _seconds("--every", options.every, is_positive=True)
            run_tuned(_stoppable(lambda stop: _service(compactor, seconds, stop, health)))
            return
        wait_seconds = None if options.wait is None else _seconds("--wait", options.wait)
        stack.enter_context(
            PushedMetrics(registry, options.metrics_file, options.push_gateway).left()
        )
        report = run_tuned(
            _stoppable(
                lambda stop: compactor.run_once(
                    stop=stop, wait_seconds=wait_seconds, search=options.search
                )
            )
        )
        if options.as_json:
            print_json([report])
        else:
            say(report.sentence() + (" (now: --search)" if report.next_search else ""))
    if report.damaged or not report.is_success:
        raise typer.Exit(FAILED)


@app.command()
def status(config: Config = None, *, as_json: AsJson = False) -> None:
    """Show the leader, how processes share the work, the last passes, and what they left.

    Passes are recorded in the table, also those of a CronJob and of Lambda. Exits with 1 if a
    region cannot be read.
    """
    settings = Settings.load(config)
    shown = anyio.run(status_of, settings)
    now = SystemClock().now()
    if as_json:
        print_json([status_fields(shown, now=now)])
    else:
        print_status(shown, now=now)
    for view in shown.regions.values():
        if isinstance(view, StoreError):
            raise view


@app.command()
def plan(
    counter: Annotated[str, typer.Argument(help="A counter id.")],
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show what a pass would do with a counter now, and why it would do no more; writes nothing.

    Exits with 1 if it holds an item that cannot be counted.
    """
    found = anyio.run(partial(preview, Settings.load(config), counter, clock=SystemClock()))
    if as_json:
        print_json(found)
    elif found:
        for previewed in found:
            print_preview(previewed)
    else:
        say(f"{counter} has no entry and no net change: there is nothing to merge")
    if any(previewed.damage for previewed in found):
        raise typer.Exit(FAILED)


@app.command("move-home")
def move_home(
    target: Annotated[str, typer.Argument(help="The new home region.")],
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Move the home region while the current one still works; takes 21 minutes by default.

    The same as `ledger table set home REGION`: a change of the table's contract. Nothing is merged
    meanwhile; reading and writing continue. If interrupted, run it again, or withdraw it with
    `ledger table set --withdraw`.
    """
    settings = Settings.load(config)
    try:
        moved = anyio.run(partial(change, settings, "home", target, report=SayOnce()))
    except KeyboardInterrupt:
        say(f"interrupted: {anyio.run(left_behind, settings)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json([_home_fields(moved)])
        return
    say(f"the home is {target} now; update or remove `home` in settings files")


@app.command("take-home")
def take_home_command(
    target: Annotated[str, typer.Argument(help="The new home region.")],
    lost: Annotated[list[str], typer.Option(help="A region that is lost for good; repeatable.")],
    confirm: Annotated[
        str | None,
        typer.Option(metavar="REGION", help="The lost regions, comma-separated, unprompted."),
    ] = None,
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Move the home away from a region that is lost for good; takes 21 minutes by default.

    The lost region must be removed from the table's replicas first. Also for a lost region that is
    not the home: TARGET is then the unchanged home. If interrupted, run it again.
    """
    remaining = without_lost(Settings.load(config), target, lost)
    say(at_stake(lost), err=True)
    _confirm_lost(lost, confirm)

    async def take() -> Contract:
        return await take_home(remaining, target, lost, clock=SystemClock(), report=SayOnce())

    contract = anyio.run(take)
    if as_json:
        print_json([_home_fields(contract) | {"lost": lost}])
        return
    say(
        f"the home is {contract.terms.home}, {', '.join(lost)} given up: revision"
        f" {contract.revision} of generation {contract.generation} of the contract is in force;"
        " compactors take over collection by collection"
    )


def _home_fields(contract: Contract) -> dict[str, Any]:
    return {
        "home": contract.terms.home,
        "generation": contract.generation,
        "revision": contract.revision,
    }


def _confirm_lost(lost: list[str], confirm: str | None) -> None:
    names = ",".join(lost)
    if confirm is None and sys.stdin.isatty():
        confirm = typer.prompt(f"Type {names} to continue", default="", show_default=False)
    if confirm != names:
        raise InvalidInput(f"nothing was changed: confirm with --confirm {names}, got {confirm!r}")


async def _service(
    compactor: Compactor, seconds: float, stop: anyio.Event, health: Liveness
) -> None:
    def ended(report: CompactorReport) -> None:
        health.end()
        log.info("%s", report.sentence(), extra={"report": shortened(report)})

    def failed(error: Exception) -> None:
        health.end()
        log.warning("%s", error)

    async with background_tasks() as tasks:
        tasks.start_soon(keep_beating, health)
        await compactor.run_every(
            seconds, stop=stop, on_start=health.begin, on_report=ended, on_error=failed
        )


async def _stoppable(work: Callable[[anyio.Event], Awaitable[Result]]) -> Result:
    """Run work that takes an event, set by SIGTERM or SIGINT."""
    stop = anyio.Event()

    def ask(received: signal.Signals) -> None:
        log.info("%s: stopping after this step", received.name)
        stop.set()

    async with stopped_by_signals(ask):
        return await work(stop)


def _seconds(option: str, text: str, *, is_positive: bool = False) -> float:
    try:
        return parse_duration(text, is_positive=is_positive)
    except InvalidInput as error:
        raise InvalidInput(f"{option} {error}") from None


def main() -> None:
    """Run the command."""
    run(app)
