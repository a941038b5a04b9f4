"""`ledger webhook`: deliver webhooks, show their progress, send refused events again.

The worker of webhooks as commands run it: in the home region, beside the command's work.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import anyio
import typer

from ledger.core.errors import InvalidInput, LedgerError
from ledger.http.webhooks.events import Ended, of_test
from ledger.http.webhooks.hooks import Hook, read_hooks
from ledger.http.webhooks.metrics import WebhookMetrics
from ledger.http.webhooks.progress_items import ProgressItems, new_stamp
from ledger.runtime.clock import SystemClock, system_random
from ledger.runtime.command_line import AsJson, Config, new_app
from ledger.runtime.console_tables import Column, Grid, print_grid
from ledger.runtime.logs import LogFormat, LogFormatOption, begin_logging
from ledger.runtime.loops import run_tuned
from ledger.runtime.metrics import program_registry
from ledger.runtime.metrics_server import Liveness, MetricsServer, keep_beating, serve_metrics
from ledger.runtime.output import needing, print_json, say
from ledger.runtime.services import Services
from ledger.runtime.signals import stopped_by_signals
from ledger.runtime.tasks import background_tasks
from ledger.session.ledger import Ledger, live_settings
from ledger.settings import Settings
from ledger.table import Table

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ledger.http.webhooks.sender import EventSender


@asynccontextmanager
async def sender(metrics: WebhookMetrics) -> AsyncIterator["EventSender"]:
    """Open the senders of events.

    Raises:
        PackageMissing: httpx is not installed.
    """
    with needing("sending webhooks"):
        from ledger.http.webhooks.worker import senders  # noqa: PLC0415 (httpx is an extra)
    async with senders(services=Services.of(), metrics=metrics) as made:
        yield made


async def home_of(settings: Settings) -> str:
    """Return the home by the table's contract, which a file need not name: webhooks are kept there.

    Raises:
        LedgerError: the table cannot be opened.
    """
    async with Ledger.open(settings) as ledger:
        return live_settings(ledger).current.home


@asynccontextmanager
async def open_delivery(
    settings: Settings, hooks: Mapping[str, Hook], registry: "CollectorRegistry | None" = None
) -> AsyncIterator[str]:
    """Deliver webhooks while the body runs, whenever no other process does; yield the home.

    Deliveries under way at the end are abandoned: the next worker delivers them again.

    Raises:
        LedgerError: the table cannot be opened, or a secret cannot be used.
    """
    metrics = WebhookMetrics.of(registry)
    home = await home_of(settings)
    async with (
        sender(metrics) as made,
        Table.open(settings, region=home) as table,
        background_tasks() as tasks,
    ):
        from ledger.http.webhooks.worker import LEASE, Worker  # noqa: PLC0415 (as above)

        worker = Worker(
            table.ledger,
            list(hooks.values()),
            made,
            lease=table.lease(LEASE),
            services=Services.of(),
            metrics=metrics,
        )
        tasks.start_soon(worker.run)
        yield home


app = new_app(about="Deliver webhooks; show how far they came; send again what was not taken.")

HooksFile = Annotated[Path, typer.Argument(help="The file of webhooks.", metavar="FILE")]
Name = Annotated[str, typer.Argument(help="Name of a webhook.")]


@app.command()
def run(
    file: HooksFile,
    *,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port of Prometheus metrics and /healthz.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address of that port.")] = "127.0.0.1",
    log_format: LogFormatOption = LogFormat.TEXT,
    config: Config = None,
) -> None:
    """Deliver the webhooks of a file until SIGTERM, through the home region.

    Any number of processes may run: one delivers, the others wait for its lease.
    """
    settings, hooks = Settings.load(config), read_hooks(file)
    begin_logging(log_format)

    registry, health = program_registry(), Liveness()
    port = metrics_port
    page = (
        nullcontext()
        if port is None
        else serve_metrics(port, registry, metrics_host, health=health)
    )
    if isinstance(page, MetricsServer):
        say(f"metrics on http://{page.host}:{page.port}/metrics", err=True)

    async def work() -> None:
        ended = anyio.Event()
        async with (
            stopped_by_signals(lambda _: ended.set()),
            open_delivery(settings, hooks, registry) as home,
            background_tasks() as tasks,
        ):
            tasks.start_soon(keep_beating, health)
            say(f"{len(hooks)} webhooks are delivered from {home}", err=True)
            await ended.wait()

    with page:
        run_tuned(work())
    say("stopped", err=True)


@app.command("list")
def list_(file: HooksFile, *, config: Config = None, as_json: AsJson = False) -> None:
    """Show the webhooks of a file, how far each came, and how many dead letters it has."""
    settings, hooks = Settings.load(config), read_hooks(file)

    async def call() -> list[dict[str, Any]]:
        async with Ledger.open(settings, region=await home_of(settings)) as ledger:
            return [
                await _described(ProgressItems(ledger.store, name), hook)
                for name, hook in hooks.items()
            ]

    rows = anyio.run(call)
    if as_json:
        print_json(rows)
    else:
        _print(("webhook", "on", "counters", "saved", "dead", "disabled"), rows)


async def _described(kept: ProgressItems, hook: Hook) -> dict[str, Any]:
    position = await kept.position()
    return {
        "webhook": hook.name,
        "url": hook.url,
        "on": hook.on,
        "counters": hook.counters,
        "account": hook.account,
        "saved": None if position.saved is None else position.saved.isoformat(),
        "disabled": position.disabled,
        "dead": len([letter async for letter in kept.dead()]),
    }


@app.command()
def dead(name: Name, *, config: Config = None, as_json: AsJson = False) -> None:
    """Show the events of a webhook that were not accepted, oldest first."""
    settings = Settings.load(config)

    async def call() -> list[dict[str, Any]]:
        async with Ledger.open(settings, region=await home_of(settings)) as ledger:
            return [
                {
                    "event": letter.event.id,
                    "at": letter.at.isoformat(),
                    "said": letter.said,
                    "body": letter.event.body.decode(),
                }
                async for letter in ProgressItems(ledger.store, name).dead()
            ]

    rows = anyio.run(call)
    if as_json:
        print_json(rows)
    else:
        _print(("event", "at", "said", "body"), rows)


@app.command()
def redeliver(
    file: HooksFile,
    name: Name,
    events: Annotated[
        list[str] | None, typer.Argument(help="Ids of events; without one all dead letters.")
    ] = None,
    *,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Send dead letters again, once each, under their original ids; accepted ones are forgotten.

    Exits with 1 if one is not accepted again.
    """
    settings, hook = Settings.load(config), _hook(read_hooks(file), name)

    async def call() -> list[dict[str, Any]]:
        rows = []
        async with (
            Ledger.open(settings, region=await home_of(settings)) as ledger,
            sender(WebhookMetrics()) as made,
        ):
            kept = ProgressItems(ledger.store, name)
            async for letter in kept.dead():
                if events and letter.event.id not in events:
                    continue
                sent = await made.send(hook, letter.event, tries_max=1)
                is_taken = sent.ended is Ended.DELIVERED
                if is_taken:
                    await kept.forget(letter.key)
                rows.append({"event": letter.event.id, "said": sent.said, "delivered": is_taken})
        return rows

    rows = anyio.run(call)
    if as_json:
        print_json(rows)
    else:
        _print(("event", "said", "delivered"), rows)
    if not all(row["delivered"] for row in rows):
        raise typer.Exit(1)


@app.command("test")
def send_test(file: HooksFile, name: Name, *, as_json: AsJson = False) -> None:
    """Send an event of type `test`, once; exit with 1 if it is not accepted."""
    hook = _hook(read_hooks(file), name)

    async def call() -> str:
        async with sender(WebhookMetrics()) as made:
            event = of_test(name, SystemClock().now().isoformat())
            sent = await made.send(hook, event, tries_max=1)
            if sent.ended is not Ended.DELIVERED:
                raise LedgerError(f"{name}: the event was not accepted: {sent.said}")
            return sent.said

    said = anyio.run(call)
    if as_json:
        print_json([{"webhook": name, "said": said}])
    else:
        say(f"{name}: delivered, {said}")


@app.command()
def enable(name: Name, *, config: Config = None, as_json: AsJson = False) -> None:
    """Deliver a webhook again that was disabled by an answer of 410, from where it stopped.

    Events of the last day are delivered; the stream keeps no older ones.
    """
    settings = Settings.load(config)

    async def call() -> bool:
        async with Ledger.open(settings, region=await home_of(settings)) as ledger:
            kept = ProgressItems(ledger.store, name)
            position = await kept.position()
            if position.disabled is None:
                return False
            await kept.enable(position, stamp=new_stamp(system_random()))
            return True

    was_disabled = anyio.run(call)
    if as_json:
        print_json([{"webhook": name, "was_disabled": was_disabled}])
    else:
        say(f"{name}: {'enabled' if was_disabled else 'it was not disabled'}")


def _print(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    shown = [["" if row[name] is None else str(row[name]) for name in names] for row in rows]
    print_grid(Grid([Column(name) for name in names], shown))


def _hook(hooks: Mapping[str, Hook], name: str) -> Hook:
    if name not in hooks:
        raise InvalidInput(f"the file has no webhook {name!r}: {', '.join(sorted(hooks))}")
    return hooks[name]
