"""The lanes of a table's pipelines, as the registry in the table names them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ledger.core.errors import LedgerError
from ledger.pipeline.core.registry import (
    LANE_LAST,
    LANE_PREFIX,
    region_key,
    registry_partition,
    task_of,
)
from ledger.pipeline.stages.lanes import Lanes
from ledger.runtime.clock import Clock
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Get, Query

LANES_MAX = 200
"""Lanes of one pipeline that are shown."""


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """A lane: `waiting` map items are not in the totals yet; `wrote` is when its worker did last.

    `failed` is why it could not be read.
    """

    lane: str
    position: str = ""
    is_open: bool = False
    is_closed: bool = False
    waiting: int = 0
    wrote: datetime | None = None
    failed: str = ""


@dataclass(frozen=True, slots=True)
class PipelineSeen:
    """A pipeline's lanes in all regions, and by region the work on the whole of it under way."""

    name: str
    lanes: Sequence[LaneSeen]
    tasks: dict[str, str]
    is_cut: bool = False


async def pipelines_in(store: Store, settings: Settings, *, clock: Clock) -> list[PipelineSeen]:
    """Return the pipelines of the settings, and the one without a name, that have lanes.

    Raises:
        StoreError: the table cannot be read.
    """
    names = dict.fromkeys(("", settings.pipeline.name, *settings.pipelines))
    found = [await _pipeline(store, settings, name, clock) for name in names]
    return [pipeline for pipeline in found if pipeline.lanes]


async def _pipeline(store: Store, settings: Settings, name: str, clock: Clock) -> PipelineSeen:
    query = Query(registry_partition(name), first=LANE_PREFIX, last=LANE_LAST, limit=LANES_MAX + 1)
    items = (await store.query(query)).items
    names = [item["sk"]["S"].removeprefix(LANE_PREFIX) for item in items[:LANES_MAX]]
    lanes = [await _lane(store, name, lane, clock) for lane in names]
    tasks = {}
    for region in settings.regions if lanes else ():
        if task := task_of(await store.get(Get(region_key(region, name)))):
            tasks[region] = task
    return PipelineSeen(name, lanes, tasks, is_cut=len(items) > LANES_MAX)


async def _lane(store: Store, pipeline: str, lane: str, clock: Clock) -> LaneSeen:
    lanes = Lanes(lane, store, clock, pipeline=pipeline)
    try:
        waiting = len(await lanes.load())
    except LedgerError as error:
        return LaneSeen(lane, failed=str(error))
    state = lanes.known
    return LaneSeen(
        lane,
        state.position,
        state.is_open,
        state.is_closed,
        waiting,
        datetime.fromtimestamp(state.at, UTC) if state.at else None,
    )
