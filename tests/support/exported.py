"""The names of all series that our programs export."""

import re
from collections.abc import Iterable
from functools import cache

from prometheus_client import CollectorRegistry

from compactor.metrics import CompactorMetrics
from ledger.http.service.metrics import ServiceMetrics
from ledger.http.webhooks.metrics import WebhookMetrics
from ledger.pipeline.metrics import PipelineMetrics
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.runtime.metrics import Metrics

SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}
KINDS = (
    Metrics, CompactorMetrics, PipelineMetrics, ArchiveMetrics, ServiceMetrics, WebhookMetrics,
)  # fmt: skip


@cache
def exported_names() -> frozenset[str]:
    """Give the name of every series that our programs export."""
    registry = CollectorRegistry()
    for kind in KINDS:
        kind(registry)
    return frozenset(
        metric.name + suffix for metric in registry.collect() for suffix in SUFFIXES[metric.type]
    )


def names_in(expressions: Iterable[str]) -> set[str]:
    """Give the names of our metrics in some expressions."""
    return set(re.findall(r"\b(?:ledger|compactor)_[a-z_]+\b", " ".join(expressions)))
