"""The worker of webhooks as commands run it: in the home region, beside the command's work."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ledger.ledger import Ledger, live_settings
from ledger.runtime.output import needing
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.table import Table
from ledger.webhooks.hooks import Hook
from ledger.webhooks.metrics import WebhookMetrics

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ledger.webhooks.sending import Sender


@asynccontextmanager
async def sender(metrics: WebhookMetrics) -> AsyncIterator["Sender"]:
    """Open the senders of events.

    Raises:
        PackageMissing: httpx is not installed.
    """
    with needing("sending webhooks"):
        from ledger.webhooks.worker import senders  # noqa: PLC0415 (httpx is an extra)
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
async def delivering(
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
        from ledger.webhooks.worker import LEASE, Worker  # noqa: PLC0415 (as above)

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
