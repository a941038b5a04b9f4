"""Webhooks under test: a receiver in memory, and the delivery of one webhook to it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from support.ledgers import make_services, services_of

from ledger.http.webhooks.hooks import Hook
from ledger.http.webhooks.metrics import WebhookMetrics
from ledger.http.webhooks.sender import EventSender
from ledger.http.webhooks.worker import HookDelivery
from ledger.session.ledger import Ledger
from ledger.testing import ManualClock, MemoryGlobalTable

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
PUBLIC = "93.184.216.34"


def hook_of(**fields: Any) -> Hook:
    """Return a webhook."""
    return Hook(**{"name": "erp", "url": "https://erp.example/hook", "secret": SECRET, **fields})


@dataclass
class Receiver:
    """Answers with these statuses in turn, the last one again and again; keeps what came."""

    answers: list[int] = field(default_factory=lambda: [200])
    headers: dict[str, str] = field(default_factory=dict)
    requests: list[httpx.Request] = field(default_factory=list)
    address: str = PUBLIC

    def handle(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        self.requests.append(request)
        status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status == 0:
            raise httpx.ConnectError("refused")
        return httpx.Response(status, headers=self.headers)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return where the receiver is."""
        assert (host, port) == ("erp.example", 443)
        return [self.address]

    @property
    def ids(self) -> list[str]:
        """The ids of the events that came."""
        return [request.headers["webhook-id"] for request in self.requests]

    @property
    def bodies(self) -> list[Any]:
        """Their bodies."""
        return [json.loads(request.content) for request in self.requests]


@dataclass
class Sending:
    """A sender to a receiver, whose waits take time of its own clock."""

    receiver: Receiver
    clock: ManualClock = field(default_factory=lambda: ManualClock(instant=True))
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    @property
    def metrics(self) -> WebhookMetrics:
        """What it counts."""
        return WebhookMetrics.of(self.registry)

    def sender(self) -> EventSender:
        """Return what sends."""
        http = httpx.AsyncClient(transport=httpx.MockTransport(self.receiver.handle))
        return EventSender(
            http,
            services=make_services(self.clock),
            metrics=self.metrics,
            resolve=self.receiver.resolve,
        )

    def delivery(self, ledger: Ledger, hook: Hook, table: MemoryGlobalTable) -> HookDelivery:
        """Return the delivery of a webhook, as a worker that just began makes it."""
        return HookDelivery(
            ledger,
            hook,
            self.sender(),
            services=services_of(_Instant(table.clock), table._new_random()),
            metrics=self.metrics,
        )


class _Instant:
    """A table's clock on which sleeping takes time, and no waiting."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def now(self) -> Any:
        """Return the time of day."""
        return self._clock.now()

    def monotonic(self) -> float:
        """Return the seconds."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Let time go by."""
        self._clock.pass_by(seconds)
