"""The calls of a pipeline in Lambda, over stores that record them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from support.permissions import (
    HOME,
    RecordingStore,
)
from support.pipelines import message
from support.stream_events import event_of, kinesis_records

from ledger.pipeline.aws.invocations import Invocations
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store


async def run_the_pipeline(
    stores: Mapping[str, RecordingStore],
    region: str,
    settings: Settings,
    *,
    other: str,
    totals: str,
) -> None:
    """Bring an event's records in, of trades at home in both regions, beside another lane's."""
    settings = settings.replace(
        pipeline={
            "fields": {"id": "TradeID", "version": "Version", "value": "Value"},
            "categories": ["risk/{Hierarchy.RiskType}"],
            "home": {"regions": {"E*": other, "*": HOME}},
            "reduce_every": 0,
            "totals": totals,
        }
    )
    trades = [f"{trade}-{region}-{totals}" for trade in ("E1", "T1", "E2", "T2")]
    lanes = [(1, "first", trades), (3, "second", trades)]
    lanes += [(5, f"alone-{trade}", [trade]) for trade in trades[:2]]  # which share no request
    for first, name, taken in lanes:
        stream = f"arn:aws:kinesis:{region}:111122223333:stream/{name}-{totals}"
        lambda_ = Invocations(
            settings,
            _Given(stores, settings),
            services=Services.of(),
        )
        for version in (first, first + 1):  # states of the second are remembered
            raws = [message(trade, version, 10 * version) for trade in taken]
            records = kinesis_records(raws, stream=stream, first=version * len(raws))
            answer = await lambda_.answer(event_of(records), seconds=60)
            assert not answer.again


@dataclass(slots=True)
class _Given:
    """Connections that are there already."""

    stores: Mapping[str, RecordingStore]
    given: Settings

    async def settings(self, region: str) -> Settings:
        assert region in self.stores
        return self.given

    async def store(self, region: str) -> Store:
        return cast("Store", self.stores[region])

    async def following(self, region: str, lane: str, position: str) -> str | None:
        """Find nothing: the shard is not looked at."""
        del region, lane, position
        return None

    async def dead_letters(self, region: str) -> DeadLetterList:
        assert region in self.stores
        return DeadLetterList()
