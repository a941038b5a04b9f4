"""The pipeline on real engines, in two regions: its items and conditions as DynamoDB takes them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from random import Random

import pytest
from support.clients import together
from support.engines import ENGINES
from support.ledgers import AWAY, HOME
from support.pipelines import BOTH_HOMES, CATEGORIES, FIELDS, POISON, deliveries, message, truth
from support.worlds import open_ledgers, totals

from ledger.core.errors import AccessDenied
from ledger.local import LocalGlobalTable
from ledger.pipeline.auditing.audit import Audit, Report
from ledger.pipeline.core.items import MAP_PREFIX, lane_id, position_key
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.pipeline.sources.source import ListSource
from ledger.pipeline.stages.worker import LanePlace, LaneWorker
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.connections import open_stores
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost, Raises

pytestmark = pytest.mark.slow

TRADES, VERSIONS = 24, 3
LIVES = (40, 25, None)
"""Calls of the store after which a worker of a lane is killed; the last one lives."""


def traffic() -> tuple[list[bytes], dict[str, list[Delivery]]]:
    """Return messages, and a lane in each region: duplicated and in disorder."""
    draw = Random(7)  # noqa: S311 (repeatable)
    messages = [
        message(
            f"{'ET'[number % 2]}{number}", version, draw.randrange(1000), desk=draw.choice("AB")
        )
        for number in range(TRADES)
        for version in range(1, VERSIONS + 1)
    ]
    lanes = {
        HOME: [*messages[::2], *messages[::5], POISON],
        AWAY: [*messages[1::2], *messages[::7]],
    }
    for raws in lanes.values():
        draw.shuffle(raws)
    return messages, {region: deliveries(raws) for region, raws in lanes.items()}


async def live(
    region: str,
    records: Sequence[Delivery],
    stores: Mapping[str, Store],
    settings: Settings,
    calls_max: int | None,
) -> None:
    """Let a worker of a region's lane live for so many calls; some answers are lost meanwhile."""

    def decide(call: FaultCall) -> Fault | None:
        if calls_max is not None and call.number > calls_max:
            return Raises(AccessDenied("killed"))
        return Lost() if call.number % 6 == 0 and call.operation in {"write", "transact"} else None

    faulty = {name: FaultyStore(store, decide) for name, store in stores.items()}
    with suppress(AccessDenied):
        await LaneWorker(
            LanePlace(region, "lane"),
            ListSource(records),
            stores=faulty,
            settings=settings,
            dead_letters=DeadLetterList(),
            services=Services.of(),
        ).run()


@pytest.mark.parametrize("engine", ENGINES)
async def test_two_regions_end_with_the_truth(engine: str) -> None:
    """Lanes of two regions correct each other's records, and are killed: totals end right in both.

    Nothing is left to be reduced, and the same requests are accepted as the store in memory takes.
    """
    messages, lanes = traffic()
    async with LocalGlobalTable.start(
        regions=[HOME, AWAY], lag=0.01, jitter=0.2, seed=7, engine=engine
    ) as world:
        pipeline = {"fields": FIELDS, "categories": CATEGORIES, "home": BOTH_HOMES, "batch_max": 20}
        settings = world.settings(pipeline={**pipeline, "reduce_every": 0})

        async def work(region: str, stores: Mapping[str, Store]) -> None:
            for calls_max in LIVES:
                await live(region, lanes[region], stores, settings, calls_max)

        async with open_stores(settings) as stores, open_ledgers(settings) as ledgers:
            audit = Audit(stores, settings, services=Services.of())
            meanwhile: list[Report] = []

            async def look() -> None:
                meanwhile.append(await audit.run())

            await together([look, *(partial(work, region, stores) for region in lanes)])
            assert [report.differences for report in meanwhile] == [[]]
            await world.wait_replicated()
            for _ in range(2):
                audit = Audit(stores, settings, services=Services.of())
                report = await audit.run()
                assert (report.records, report.differences) == (TRADES, [])
            for counter, value in truth(messages).items():
                assert await totals(ledgers, counter) == {HOME: value, AWAY: value}, counter
            for region in lanes:
                partition = position_key(lane_id(region, "lane"))[0]
                page = await stores[region].query(Query(partition))
                assert not [item for item in page.items if item["sk"]["S"].startswith(MAP_PREFIX)]
                assert page.items[-1]["position"]["S"] == lanes[region][-1].position
