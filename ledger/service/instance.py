"""The application as a process runs it: with request ids, metrics and the two logs."""

from random import Random

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from ledger.ledger import Ledger
from ledger.runtime.clock import Clock
from ledger.service.access.port import Access
from ledger.service.app import ServiceParts, create_app
from ledger.service.context import Context
from ledger.service.gate import RequestLog, Seen
from ledger.service.metrics import ServiceMetrics, log_request
from ledger.service.options import ServiceOptions

_REQUEST_ID_BYTES = 8


def instance_app(
    ledger: Ledger,
    *,
    registry: CollectorRegistry,
    access: Access,
    clock: Clock,
    randomness: Random,
    options: ServiceOptions,
) -> tuple[ASGIApp, Context]:
    """Return the application of one process, and what its requests share."""
    metrics = ServiceMetrics.of(registry)
    access.tell_unread(metrics.tokens_unread)

    def seen(request: Seen) -> None:
        metrics.request(request)
        log_request(request)

    parts = ServiceParts(
        clock=clock,
        randomness=randomness,
        access=access,
        registry=registry,
        requests=RequestLog(lambda: randomness.randbytes(_REQUEST_ID_BYTES).hex(), seen),
    )
    return create_app(ledger, parts, options)
