"""The page of all metrics, from the registry of each kind."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase
from support.reference.tables import row, table

from compactor.metrics import CompactorMetrics
from ledger.http.service.metrics import ServiceMetrics
from ledger.http.webhooks.metrics import WebhookMetrics
from ledger.pipeline.metrics import PipelineMetrics
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.runtime.metrics import Metrics, RegistryMetrics

HEAD = """\
# Metrics

Every process that uses the ledger has the metrics of the library, in the registry that it passes to
`Ledger`, `Table` or `Compactor`. The service, the worker of webhooks, the compactor and a pipeline
show theirs beside them. Prometheus scrapes them ([Watching](../../../deploy/README.md#6-watching)).
"""
KINDS: Mapping[str, type[RegistryMetrics]] = MappingProxyType(
    {
        "The library": Metrics,
        "An archive": ArchiveMetrics,
        "The compactor": CompactorMetrics,
        "A pipeline": PipelineMetrics,
        "The service": ServiceMetrics,
        "Webhooks": WebhookMetrics,
    }
)


def page() -> str:
    """Return the page: the metrics of each kind, in the order in which they are made."""
    return HEAD + "".join(_section(title, kind) for title, kind in KINDS.items())


def _section(title: str, kind: type[RegistryMetrics]) -> str:
    rows = "".join(_rows(kind))
    return f"\n## {title}\n\n{table('metric', 'type', 'labels', 'says')}{rows}"


def _rows(kind: type[RegistryMetrics]) -> Iterator[str]:
    registry = CollectorRegistry()
    kind(registry)
    for metric in registry._collector_to_names:  # collect() does not show labels
        for family in metric.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            named = metric if isinstance(metric, MetricWrapperBase) else family
            names: Iterable[str] = vars(named)["_labelnames"]
            labels = ", ".join(f"`{label}`" for label in names)
            yield row(f"`{name}`", family.type, labels, family.documentation)
