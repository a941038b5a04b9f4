"""Debian's Prometheus looks at all programs under load and failure: each panel and alert has data.

Each expression is asked again and again while load goes on and one thing after another goes wrong.
What has shown a number once is done; what never does watches nothing, and fails the test.
"""

import base64
import os
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from prometheus_client import CollectorRegistry
from support.commands import command_line, run_command_here
from support.dashboards import (
    Unanswered,
    dashboard,
    questions_of_alerts,
    questions_of_panels,
    rules,
)
from support.hooks import hook_of
from support.killing import Running, running, write_settings
from support.panel_pictures import draw_rows
from support.prometheus import Prometheus, prometheus
from support.replicas import client_of
from support.strangers import answering

from ledger import Ledger, Settings, Table
from ledger.commands.webhook import open_delivery
from ledger.core.errors import LedgerError
from ledger.http.webhooks import worker
from ledger.local import Fault, LocalGlobalTable
from ledger.runtime.metrics_server import MetricsServer, serve_metrics
from ledger.runtime.tasks import background_tasks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tools("prometheus", "kafka"),
    pytest.mark.timeout(300),
]

HOME, AWAY = REGIONS = ("us-east-1", "eu-west-1")
TIMES = {
    "settle": 4.0,
    "retry_horizon": 2.0,
    "observation_delay": 0.8,
    "read_deadline": 0.7,
    "write_deadline": 1.5,
}
FOLDS = {"fold_min": 1, "lease": 6.0, "heartbeat": 2.0, "scan_every": 0}
PIPELINE = {
    "fields": {"id": "id", "version": "version", "value": "value"},
    "categories": ["kind/{kind}"],
    "batch_max": 20,
    "reduce_every": 0,
}
PLACES = ("one", "two")
BUDGET, COUNTER, BROKEN, BAD_ITEM = (
    "spent",
    "shop",
    "broken",
    "2026-01-01T00:00:00.000000Z#00000000000000bd",
)
CREDITED = "wallet"
BOOK, LEGS = "book", (("cash", "EUR", -5), ("shop", "EUR", 5))
COUNTERS = (COUNTER, *(f"{COUNTER}{number}" for number in range(3)))
WRITES = ("PutItem", "BatchWriteItem", "TransactWriteItems", "BatchExecuteStatement")
STEP_SECONDS_MAX = 15.0
SECONDS_MAX = 120.0
LOAD_SECONDS = 0.2
ENTRIES, CROSSED = 5, 15
POLL_SECONDS = 0.5
RATE_INTERVAL = "15s"
KEY = f"k1 {base64.b64encode(bytes(32)).decode()}"
RECEIVERS = {"takes": 204, "refuses": 500, "gone": 410}
"""What the receiver of each webhook answers."""

UNSEEN = {
    # Of a stream of Kinesis; what fills it: tests/unit/pipeline/stages/test_pipeline_lag.py.
    "panel Behind the end of a shard",
}
"""What has no data here, and why."""
FIRED = {
    "ArchiveDamaged", "CompactorLeavesDamaged", "CompactorMissing", "LedgerErrors",
    "PipelineDeadLetters", "RegionUnreadable", "ServiceDown", "ServiceEntriesFail", "ServiceFails",
    "ServiceRefuses", "WebhookDeadLetters", "WebhookDisabled", "WebhookFails", "WebhooksStopped",
    "WritesUnknown",
}  # fmt: skip
"""Alerts for what is done to the programs here; their rules do not wait for it to last."""


@dataclass(slots=True)
class Scene:
    """Everything that runs."""

    world: LocalGlobalTable
    settings: Settings
    folder: Path
    registry: CollectorRegistry
    service: str
    token: str
    programs: Mapping[str, Running]
    webhooks: MetricsServer
    broker: Any
    server: Prometheus
    records: int = 0

    async def drive(self) -> None:
        """Write and read until cancelled, through the service, the library and pipelines."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(base_url=self.service, headers=headers, timeout=20) as http:
            while True:
                async with anyio.create_task_group() as tasks:
                    for number in range(3):
                        name = f"{COUNTER}{number}"
                        body = {"entries": [{"counter": name, "change": "1"}] * ENTRIES}
                        tasks.start_soon(_try, http.post("/v1/entries", json=body))
                        url = f"/v1/counters/{name}/entries"
                        tasks.start_soon(_try, http.post(url, json={"change": "1"}))
                        tasks.start_soon(_try, http.get(f"/v1/counters/{COUNTER}0"))
                    await _try(http.get(f"/v1/counters/{COUNTER}0/entries"))
                    await _try(http.get("/v1/totals?id=a", headers={"Authorization": "wrong"}))
                    self._give_records()
                await anyio.sleep(LOAD_SECONDS)

    def _give_records(self) -> None:
        number, self.records = self.records, self.records + 1
        record = f'{{"id": "{number}", "version": 1, "value": 1, "kind": "a"}}'
        with (self.folder / "records.jsonl").open("a", encoding="utf-8") as file:
            file.write(f"{record}\n" if number % 10 else f"{record}\nnone\n")
        self.broker.send("trades", 0, [record.encode()])

    async def use_library(self) -> None:
        """Write and read in the other region until cancelled, and watch a total."""
        application = self.open_application()
        application.watch(COUNTER, call=lambda _crossing: None, above=CROSSED)
        async with application:
            while True:
                with suppress(LedgerError):
                    await application.record(COUNTER, 1)
                    await application.record(COUNTERS[-1], 1)
                    await application.totals(COUNTERS, max_age=0)
                    await application.total(COUNTER)
                await anyio.sleep(LOAD_SECONDS)

    async def spend(self) -> None:
        """Spend, hold, credit and transfer in the other region until cancelled."""
        opening = partial(Table.open, self.settings, region=AWAY, registry=self.registry)
        async with opening() as table:
            budget = table.budget(BUDGET)
            credited = table.budget(CREDITED)
            await budget.create(10**6)
            await credited.create(1)
            while True:
                with suppress(LedgerError):
                    await budget.spend(1)
                    await budget.hold(1, expires=1)
                    await credited.credit(1, wait=1)
                    await table.book(BOOK).transfer(LEGS)
                await anyio.sleep(LOAD_SECONDS)

    async def go_wrong(self) -> None:
        """Do one thing after another to table, archive and programs, each until it shows."""
        world = self.world
        await self.until(
            "compactor_archive_objects_total > 0",
            "ledger_archive_segments_total",
            "ledger_pipeline_lag_bytes",
            "ledger_pipeline_lag_records",
            "increase(ledger_crossings_total[1m]) > 0",
            *map(fires, ("WebhookDeadLetters", "WebhookDisabled", "WebhookFails")),
        )
        world.faults(Fault.THROTTLE, probability=0.5, operations=WRITES)
        await self.until('ledger_retries_total{cause="throttled"}')
        world.faults(Fault.LOST_ANSWER, operations=WRITES, regions=[HOME])
        await self.until(
            *map(fires, ("WritesUnknown", "LedgerErrors", "ServiceFails", "ServiceEntriesFail"))
        )
        world.faults(Fault.SLOW, probability=0.7, operations=["Query"], regions=[AWAY])
        await self.until("ledger_read_restarts_total")
        world.faults(None)
        item = {"pk": {"S": BROKEN}, "sk": {"S": BAD_ITEM}, "change": {"S": "five"}}
        client_of(HOME, world.endpoints[HOME]).put_item(TableName=world.table, Item=item)
        await self.until("compactor_damaged_collections > 0")
        world.set_outage(AWAY, on=True)
        await self.until("compactor_region_not_read")
        world.set_outage(AWAY, on=False)
        place = self.folder / PLACES[1]
        place.rename(self.folder / "away")
        await self.until(
            "compactor_archive_waiting_seconds > 0",
            'ledger_archive_requests_total{outcome!="done"}',
        )
        (self.folder / "away").rename(place)
        for file in [one for each in PLACES for one in (self.folder / each).iterdir()]:
            file.write_bytes(b"damaged")
        async with self.open_application() as fresh:  # whose cache has no segment yet
            with suppress(LedgerError):
                async for _ in fresh.history(f"{COUNTER}0"):
                    pass
        await self.until('ledger_archive_segments_total{source="damaged"}')

    def open_application(self) -> Ledger:
        """Return a ledger of the other region, not open yet, whose metrics are scraped."""
        return Ledger.open(self.settings, region=AWAY, registry=self.registry)

    async def until(self, *expressions: str) -> None:
        """Wait until each has shown something."""
        for expression in expressions:
            with anyio.move_on_after(STEP_SECONDS_MAX):
                # The server of another process sends no event.
                while not await anyio.to_thread.run_sync(self.server.now, expression):  # noqa: ASYNC110
                    await anyio.sleep(POLL_SECONDS)


def fires(alert: str) -> str:
    """Return what gives data while an alert fires."""
    return f'ALERTS{{alertname="{alert}"}}'


async def _try(request: Awaitable[httpx.Response]) -> None:
    with suppress(httpx.HTTPError):
        await request


@asynccontextmanager
async def scene(folder: Path) -> AsyncIterator[Scene]:
    """Run a table of two regions, a service, a compactor, pipelines, webhooks and Prometheus."""
    from support.kafka_broker import kafka_broker  # noqa: PLC0415 (its library is a tool)

    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(
            LocalGlobalTable.spawn(regions=REGIONS, lag=0.01, jitter=0.02)
        )
        for place in PLACES:
            (folder / place).mkdir()
        (folder / "keys").write_text(KEY, encoding="utf-8")
        settings = world.settings(
            **TIMES,
            archive=[f"file://{folder / place}" for place in PLACES],
            compactor=FOLDS,
            pipeline=PIPELINE,
            budgets={
                BUDGET: {"on_outage": "allow", "grant_life": 2.0},
                CREDITED: {"credits": True, "grant_life": 2.0},
            },
            books=[BOOK],
            combine=[COUNTERS[-1]],
            signatures={"keys": str(folder / "keys")},
        )
        write_settings(settings, folder / "regions.yaml")
        scrape, token = _tokens(folder)
        broker = stack.enter_context(kafka_broker("trades", partitions=1))
        (folder / "records.jsonl").touch()
        words = {
            "ledger-service": ("ledger", "serve", "--tokens", "tokens.json", "--port", "0"),
            "ledger-compactor": ("compactor", "run", "--every", "1s", "--metrics-port", "0"),
            "ledger-pipeline-file": (
                "ledger", "pipeline", "run", "records.jsonl", "--follow", "--metrics-port", "0",
            ),
            "ledger-pipeline-kafka": (
                "ledger", "pipeline", "run", f"kafka://{broker.address}/trades", "--metrics-port",
                "0",
            ),
        }  # fmt: skip
        programs = {
            name: await stack.enter_async_context(
                running(command_line(*each), folder, f"{name}.log")
            )
            for name, each in words.items()
        }
        registry = CollectorRegistry()
        page = stack.enter_context(serve_metrics(0, registry))
        webhooks = await stack.enter_async_context(deliveries(settings))
        places = {name: await _place(program) for name, program in programs.items()}
        server = await stack.enter_async_context(
            prometheus(
                folder,
                {
                    **{name: [place] for name, place in places.items()},
                    "ledger-application": [f"{page.host}:{page.port}"],
                    "ledger-webhooks": [f"{webhooks.host}:{webhooks.port}"],
                },
                tokens={"ledger-service": scrape},
            )
        )
        yield Scene(
            world, settings, folder, registry, f"http://{places['ledger-service']}", token,
            programs, webhooks, broker, server,
        )  # fmt: skip


@asynccontextmanager
async def deliveries(settings: Settings) -> AsyncIterator[MetricsServer]:
    """Deliver webhooks in this process, which gives an event up at its first try."""
    registry = CollectorRegistry()
    async with AsyncExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(worker, "TRIES_MAX", 1)
        hooks = {}
        for name, status in RECEIVERS.items():
            url = stack.enter_context(answering((status, "text/plain", b"")))
            hooks[name] = hook_of(name=name, url=url, private=True)
        page = stack.enter_context(serve_metrics(0, registry))
        await stack.enter_async_context(open_delivery(settings, hooks, registry))
        yield page


def _tokens(folder: Path) -> tuple[Path, str]:
    """Return the file of Prometheus' token, and the token of a caller."""
    made = [
        run_command_here("ledger", "token", "create", name, *scopes, folder=folder).out.strip()
        for name, scopes in (
            ("prometheus", ("--scope", "admin")),
            ("shop", ("--scope", "read", "--scope", "write", "--rate", "60")),
        )
    ]
    (folder / "scrape").write_text(made[0], encoding="utf-8")
    return folder / "scrape", made[1]


async def _place(program: Running) -> str:
    """Return the host and port of a program's page, once it names them."""
    await program.says("http://127.0.0.1:")
    said = program.said()
    return said.partition("http://")[2].split()[0].removesuffix("/metrics")


async def test_every_panel_and_alert_shows_something(tmp_path: Path) -> None:
    """Under load and failure; and the alerts fire that should.

    `LEDGER_PANELS=FOLDER` keeps pictures of the panels.
    """
    unanswered = Unanswered(
        [*questions_of_panels(dashboard(), interval=RATE_INTERVAL), *questions_of_alerts(rules())]
    )
    began = time.time()
    async with scene(tmp_path) as one, background_tasks() as tasks:

        async def look() -> None:
            while True:
                await anyio.to_thread.run_sync(unanswered.ask, one.server.now)
                await anyio.sleep(POLL_SECONDS)

        for work in (one.drive, one.use_library, one.spend, look):
            tasks.start_soon(work)
        with anyio.move_on_after(SECONDS_MAX):
            await one.go_wrong()
            while unanswered.shown_by != UNSEEN:  # noqa: ASYNC110 (a thread asks)
                await anyio.sleep(POLL_SECONDS)
        for program in one.programs.values():
            assert program.process.poll() is None, program.said()
        for name in ("ledger-service", "ledger-compactor"):
            await one.programs[name].kill()
        one.webhooks.close()
        await one.until(*map(fires, ("ServiceDown", "CompactorMissing", "WebhooksStopped")))
        fired = one.server.fired()
        if folder := os.environ.get("LEDGER_PANELS"):
            draw_rows(
                dashboard(), one.server, Path(folder), start=began, end=time.time(),
                interval=RATE_INTERVAL,
            )  # fmt: skip
        tasks.cancel_scope.cancel()
    assert unanswered.shown_by == UNSEEN, "\n".join(map(str, unanswered.left))
    assert fired >= FIRED
