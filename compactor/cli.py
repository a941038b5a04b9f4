"""The `compactor` command: run it once or as a service, show its status, move its home."""

import logging
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio
import typer
from prometheus_client import CollectorRegistry

from compactor.job import Compactor
from compactor.report import CompactorReport
from compactor.status import CompactorStatus, status_of
from compactor.taking import at_stake, take_home, without_lost
from ledger.administration.contract import change
from ledger.core.contract_item import Contract
from ledger.core.errors import InvalidInput, StoreError
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED, AsJson, Config, SayOnce, new_app, run
from ledger.runtime.loops import run_tuned
from ledger.runtime.metrics import serve
from ledger.runtime.printing import print_json, say
from ledger.runtime.signals import stopped_by_signals
from ledger.runtime.tables import Column, Grid, number, print_grid
from ledger.settings import Settings
from ledger.settings.durations import seconds_of

app = new_app(
    name="compactor",
    about="Merge entries into net changes, invisibly to every reader.",
    add_completion=True,
)
Result = TypeVar("Result")
log = logging.getLogger(__name__)


@app.command("run")
def run_compactor(
    *,
    once: Annotated[bool, typer.Option("--once", help="Run one pass, for a scheduler.")] = False,
    every: Annotated[
        str | None, typer.Option(help="Run a pass at this interval, such as 60s, until SIGTERM.")
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(
            help="With --once: how long to wait for the compactor's lease.",
            show_default="one lease",
        ),
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to serve Prometheus metrics on.")
    ] = None,
    metrics_host: Annotated[
        str, typer.Option(help="Address to serve metrics on; 0.0.0.0 for all interfaces.")
    ] = "127.0.0.1",
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Run the compactor: it merges entries older than `settle`.

    Processes that run with --every share the collections, and take over from one that dies.
    SIGTERM and SIGINT stop it between two steps. Exits with 1 if merging was prevented, or damaged
    collections were left as they are.
    """
    if once == (every is not None):
        raise InvalidInput("give either --once or --every, such as --every 60s")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    settings = Settings.load(config)
    registry = CollectorRegistry()
    compactor = Compactor(settings, registry=registry)
    with ExitStack() as stack:
        if metrics_port is not None:
            server = stack.enter_context(serve(metrics_port, registry, host=metrics_host))
            say(f"metrics on http://{server.host}:{server.port}/metrics", err=True)
        if every is not None:
            seconds = _seconds("--every", every, is_positive=True)
            run_tuned(_stoppable(lambda stop: _service(compactor, seconds, stop)))
            return
        wait_seconds = None if wait is None else _seconds("--wait", wait)
        report = run_tuned(
            _stoppable(lambda stop: compactor.run_once(stop=stop, wait_seconds=wait_seconds))
        )
    _conclude(report, as_json=as_json)


@app.command()
def status(config: Config = None, *, as_json: AsJson = False) -> None:
    """Show the leader, how processes share the work, and whether every region can be read."""
    settings = Settings.load(config)
    shown = anyio.run(status_of, settings)
    if as_json:
        print_json([_status_fields(shown)])
    else:
        print_grid(_status_grid(shown))
        for owner, count in sorted(shown.led.items()):
            say(f"{count} slices are led by {owner}" if owner else f"{count} have no leader")
    for view in shown.regions.values():
        if isinstance(view, StoreError):
            raise view


@app.command("move-home")
def move_home(
    target: Annotated[str, typer.Argument(help="The new home region.")],
    config: Config = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Move the home region while the current one still works; takes half an hour by default.

    The same as `ledger table set home REGION`: a change of the table's contract. Nothing is merged
    meanwhile; reading and writing go on. If interrupted, run it again, or take it back with `ledger
    table set --withdraw`.
    """
    moved = anyio.run(partial(change, Settings.load(config), "home", target, report=SayOnce()))
    if as_json:
        print_json([_home_fields(moved)])
        return
    say(f"the home is {target} now; a `home` in settings files must say so, or go")


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
    """Take the home over from a region that is lost for good; takes half an hour by default.

    The lost region must be removed from the table's replicas first. Also for a lost region that is
    not the home: TARGET is then the home as it is. If interrupted, run it again.
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


async def _service(compactor: Compactor, seconds: float, stop: anyio.Event) -> None:
    await compactor.run_every(
        seconds,
        stop=stop,
        on_report=lambda report: log.info("%s", report.sentence()),
        on_error=lambda error: log.warning("%s", error),
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
        return seconds_of(text, is_positive=is_positive)
    except InvalidInput as error:
        raise InvalidInput(f"{option} {error}") from None


def _status_fields(shown: CompactorStatus) -> dict[str, Any]:
    regions: dict[str, Any] = {}
    for region, view in shown.regions.items():
        if isinstance(view, StoreError):
            regions[region] = {"error": str(view)}
        elif view is None:
            regions[region] = None
        else:
            regions[region] = {"leader": view.owner or None, "epoch": view.epoch, "home": view.home}
    return {"table": shown.table, "lease": shown.lease, "regions": regions, "led": shown.led}


def _status_grid(shown: CompactorStatus) -> Grid:
    columns = (Column("region"), Column("leader"), number("epoch"), Column("home"))
    rows = []
    for region, view in shown.regions.items():
        if isinstance(view, StoreError):
            rows.append((region, "cannot be read", "", ""))
        elif view is None:
            rows.append((region, "no compactor has run yet", "", ""))
        else:
            owner = view.owner or "none (released)"
            rows.append((region, owner, str(view.epoch), view.home))
    return Grid(columns, rows, title=f"table {shown.table}, lease {shown.lease}")


def _conclude(report: CompactorReport, *, as_json: bool) -> None:
    if as_json:
        print_json([report])
    else:
        say(report.sentence())
    if report.damaged or not report.is_success:
        raise typer.Exit(FAILED)


def main() -> None:
    """Run the command."""
    run(app)
