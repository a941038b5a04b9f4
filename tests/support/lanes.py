"""One lane's worker over tables in memory, for tests of single steps."""

from collections.abc import Mapping, Sequence
from typing import Any

from support.ledgers import HOME, seeded
from support.pipelines import pipeline_settings

from ledger.pipeline.core.items import position_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import DeadLetterList, LetterSink
from ledger.pipeline.sources.source import ListSource, Source
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, OnCounted, PipelineMetering
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.testing.clock import ManualClock


def lane_worker(
    records: Sequence[Delivery] | Source,
    stores: Mapping[str, Store] | Store | None = None,
    *,
    lane: str = "lane",
    region: str = HOME,
    letters: LetterSink | None = None,
    metrics: PipelineMetrics | None = None,
    ledger_metrics: Metrics | None = None,
    clock: ManualClock | None = None,
    on_counted: OnCounted | None = None,
    settings: Settings | None = None,
    **pipeline: Any,
) -> LaneWorker:
    """Return a worker of a lane, on a clock whose sleeps are over at once."""
    if not isinstance(stores, Mapping):
        stores = {region: stores or MemoryStore(region)}
    return LaneWorker(
        LanePlace(region, lane),
        ListSource(records) if isinstance(records, Sequence) else records,
        stores=stores,
        settings=settings or pipeline_settings(**pipeline),
        dead_letters=letters or DeadLetterList(),
        services=Services(
            clock or ManualClock(instant=True), seeded(), ledger_metrics or Metrics()
        ),
        metering=PipelineMetering(metrics or PipelineMetrics(), on_counted),
    )


def committed(store: MemoryStore) -> str:
    """Return the lane's committed position."""
    return lane_state_of(store.table.get(position_key(f"{HOME}/lane"))).position
