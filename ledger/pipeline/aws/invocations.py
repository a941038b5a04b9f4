"""From an event to its answer: brings in a batch of one lane, and returns what must come again.

An event succeeds only once the totals show its records. So records that are committed and not added
up yet come again too, and are added up then, even if the shard never has another record.

::

    event (11..40)     committed to 30, then time is up      -> again from 31
    event (31..40)     map items of 11..30 are added up first

Whether Lambda hands a stream's records over as the pipeline needs them; asked of Lambda itself.

What undermines exactness is in the event source mapping, which no event shows: more than one batch
of a shard at a time, failures that are not reported, records that are filtered out, a second
mapping to the same function. So a function checks the mappings of its stream when it begins, and
now and then; if it may not, it logs that and continues, since each of them is also detected by its
effect: a gap by the lane's mark, skipped records by a dead letter.

Source: Lambda API reference, ListEventSourceMappings; Developer Guide, "Process Amazon Kinesis Data
Streams records with Lambda" (without ReportBatchItemFailures the answer is not looked at).
"""

import logging
from collections import OrderedDict
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
from prometheus_client import Counter
from prometheus_client.samples import Sample

from ledger.core.errors import LedgerError, LeftOut, SettingsError
from ledger.pipeline.aws.clients import open_client
from ledger.pipeline.aws.stream_events import Event, EventBatch, read_event, response
from ledger.pipeline.core.items import lane_id, position_key
from ledger.pipeline.core.lane_state import lane_state_of
from ledger.pipeline.core.record_adapter import form_of
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import LetterSink
from ledger.pipeline.sources.source import ListSource
from ledger.pipeline.stages.lanes import regions_of
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, PipelineMetering
from ledger.runtime.clock import Clock
from ledger.runtime.foreign import FOREIGN
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Get

LANES_MAX = 4
"""Lanes whose records' states are remembered; an environment gets events of any lane."""

LOOK_SECONDS = 600.0
"""The time between two looks of one environment at what precedes a lane's first record."""
LOOKED_MAX = 10_000

SHOWN = {"duplicate": "Duplicates", "stale": "Stale", "dead": "DeadLetters"}
"""Why a record was left out, and CloudWatch's metric of it."""

log = logging.getLogger(__name__)


class RegionConnections(Protocol):
    """Opens what is needed of each region, once, and keeps it."""

    async def store(self, region: str) -> Store:
        """Return the store of a region.

        Raises:
            SettingsError: it is not one of the settings.
        """

    async def settings(self, region: str) -> LiveSettings:
        """Return the settings of a region's lanes: under the table's contract.

        Raises:
            ContractMissing, ContractConflict: the table has no contract, or another one.
        """

    async def following(self, region: str, lane: str, position: str) -> str | None:
        """Return the position of the first record of a Kinesis shard after another.

        None if there is none, or it cannot be found soon.
        """

    async def dead_letters(self, region: str) -> LetterSink:
        """Return the destination of dead letters of a region's lanes.

        Raises:
            SettingsError: the settings do not name one.
        """


@dataclass(frozen=True, slots=True)
class InvocationAnswer:
    """The response to Lambda, and the counts: the records, how many of them come again."""

    response: dict[str, Any]
    records: Sequence[Delivery] = ()
    again: int = 0


@dataclass(slots=True)
class _Lane:
    """A lane's worker, kept between events, and the records that it reads now."""

    name: str
    pipeline: LaneWorker = field(init=False)
    deliveries: Sequence[Delivery] = ()

    def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield the event's records after a position."""
        return ListSource(self.deliveries).batches(after, most=most)

    async def bring_in(self, deliveries: Sequence[Delivery]) -> None:
        """Bring records in, until the totals show them."""
        self.deliveries = deliveries
        await self.pipeline.run(deliveries)


class Invocations:
    """Answers one event after the other, as Lambda hands them to one environment."""

    def __init__(
        self,
        settings: Settings,
        connections: RegionConnections,
        *,
        services: Services,
        metrics: PipelineMetrics | None = None,
    ) -> None:
        settings = settings.of_pipeline()
        form_of(settings)  # refuses settings that could count nothing
        self._settings = settings
        self._connections = connections
        self._services = services
        self._metering = PipelineMetering(metrics or PipelineMetrics())
        self._lanes: OrderedDict[str, _Lane] = OrderedDict()
        self._looked: dict[str, float] = {}

    async def answer(self, event: Event, *, seconds: float) -> InvocationAnswer:
        """Bring in an event's records, for at most this long, and return which must come again.

        Raises:
            LedgerError: all must come again, since nothing was committed; or the event cannot be
                read.
        """
        chosen = self._settings.pipeline
        batch = read_event(event, deletes=chosen.deletes, table=self._settings.table)
        if batch is None or not batch.deliveries:
            return InvocationAnswer(response(event))
        lane = await self._lane(batch)
        error = await _within(seconds, lane, batch.deliveries)
        if error is None:
            return InvocationAnswer(response(event), batch.deliveries)
        del self._lanes[lane.name]  # restarted, whatever state it was left in
        place = batch.first_after(lane.pipeline.position)
        if place is None:
            place = len(batch.deliveries) - 1
        if place == 0:
            raise error
        failed = batch.identifiers[place]
        log.warning("lane %s: again from %s, since %s", lane.name, failed, error)
        again = len(batch.deliveries) - place
        return InvocationAnswer(response(event, [failed]), batch.deliveries, again)

    async def _lane(self, batch: EventBatch) -> _Lane:
        name = lane_id(batch.region, batch.lane)
        if name not in self._lanes:
            self._lanes[name] = await self._begin(batch, name)
        self._lanes.move_to_end(name)
        if len(self._lanes) > LANES_MAX:
            self._lanes.popitem(last=False)
        return self._lanes[name]

    async def _begin(self, batch: EventBatch, name: str) -> _Lane:
        settings = await self._connections.settings(batch.region)
        own = await self._connections.store(batch.region)
        regions = await regions_of(own, settings.current)
        others = sorted(regions - {batch.region})
        stores = {region: await self._connections.store(region) for region in others}
        stores[batch.region] = own
        await self._check_beginning(batch, own, settings.current.pipeline.name)
        lane = _Lane(name)
        lane.pipeline = LaneWorker(
            LanePlace(batch.region, batch.lane),
            lane,
            stores=stores,
            settings=settings,
            dead_letters=await self._connections.dead_letters(batch.region),
            services=self._services,
            metering=self._metering,
        )
        return lane

    async def _check_beginning(self, batch: EventBatch, own: Store, pipeline: str) -> None:
        """Check that the stream has no record between the lane's position and its first here.

        A mapping that begins after the lane's position, such as one at LATEST, would leave them
        out, and nothing else shows it: none of them was begun.

        Raises:
            LeftOut: it has one.
            LedgerError: the stream cannot be read.
        """
        first, now = batch.deliveries[0].position, self._services.clock.monotonic()
        lane = lane_id(batch.region, batch.lane)
        if not batch.is_kinesis or now - self._looked.get(lane, float("-inf")) < LOOK_SECONDS:
            return
        known = lane_state_of(await own.get(Get(position_key(lane, pipeline))))
        following = None
        if known.position and known.position < first and not known.begun:
            following = await self._connections.following(batch.region, batch.lane, known.position)
        if following is not None and following < first:
            raise LeftOut(
                f"lane {lane} has come to {known.position.lstrip('0')}, and the stream goes on at"
                f" {following.lstrip('0')}, but the first record here is {first.lstrip('0')}:"
                " replace the event source mapping by one that begins before the former"
                " (StartingPosition); records that come again do no harm"
            )
        if len(self._looked) >= LOOKED_MAX:
            self._looked.clear()
        self._looked[lane] = now


async def _within(seconds: float, lane: _Lane, deliveries: Sequence[Delivery]) -> Exception | None:
    """Bring records in; returns why that failed, or was not done in time."""
    try:
        with anyio.move_on_after(seconds):
            await lane.bring_in(deliveries)
            return None
    except Exception as error:  # noqa: BLE001 (raised by the caller, or the records come again)
        return error
    return LedgerError(f"lane {lane.name}: not brought in within {seconds:g} s")


def values_of(metrics: PipelineMetrics) -> Mapping[str, float]:
    """Return what was counted so far, by the names of CloudWatch's metrics."""
    values = dict.fromkeys((*SHOWN.values(), "Retried"), 0.0)
    for sample in _samples(metrics.left_out):
        if sample.labels["stage"] == "state":
            values[SHOWN[sample.labels["reason"]]] += sample.value
    values["Retried"] = sum(sample.value for sample in _samples(metrics.retried))
    return values


def _samples(counter: Counter) -> list[Sample]:
    found = (sample for family in counter.collect() for sample in family.samples)
    return [sample for sample in found if sample.name.endswith("_total")]


AGAIN_SECONDS = 600.0
"""The time between two checks of one environment."""
PAGES_MAX = 100
SDK_TRIES_MAX = 2
REPORTED = "ReportBatchItemFailures"
_AT_REST = frozenset({"Disabled", "Disabling", "Deleting"})

Found = Mapping[str, Any]
Ask = Callable[[str], Awaitable[Sequence[Found]]]
"""Returns the mappings of an event source, by its ARN."""


class LambdaClient(Protocol):
    """The part of aiobotocore's Lambda client that is used."""

    async def list_event_source_mappings(self, **request: Any) -> Found:
        """Return a page of mappings."""


class MappingCheck:
    """Looks at the mappings of a function's streams, at the first event and then now and then."""

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._looked: dict[str, float] = {}

    async def check(self, event: Mapping[str, Any], function_name: str) -> None:
        """Check the mappings of an event's stream, if that is due.

        Raises:
            SettingsError: they would lose records, or count what others have not brought in.
        """
        records = event.get("Records")
        source = records[0].get("eventSourceARN") if isinstance(records, list) and records else None
        if not isinstance(source, str):
            return  # the reader of events reports what is wrong with it
        now = self._clock.monotonic()
        if now - self._looked.get(source, float("-inf")) < AGAIN_SECONDS:
            return
        try:
            found = await self._ask(source)
        except FOREIGN as error:
            log.warning("the event source mappings of %s were not checked: %s", source, error)
            found = ()
        if wrong := list(problems(found, source, function_name)):
            raise SettingsError("; ".join(wrong))
        self._looked[source] = now


def problems(found: Sequence[Found], source: str, function_name: str) -> Iterator[str]:
    """Yield what is wrong with the mappings of a source to a function, if it is one of ours."""
    own = [mapping for mapping in found if _is_of(mapping, function_name)]
    if len(own) > 1:
        identifiers = ", ".join(str(mapping.get("UUID")) for mapping in own)
        yield (
            f"{source} has {len(own)} event source mappings to {function_name} ({identifiers}):"
            " each delivers all records at its own pace; delete all but one"
        )
    for mapping in own:
        name = f"the event source mapping {mapping.get('UUID')} of {source}"
        if (factor := mapping.get("ParallelizationFactor") or 1) > 1:
            yield (
                f"{name} has a parallelization factor of {factor}: set it to 1, since a shard is a"
                " lane, and of two of its batches at once one would pass over the other"
            )
        if REPORTED not in (mapping.get("FunctionResponseTypes") or ()):
            yield f"{name} does not report what must come again: set {REPORTED}"
        if (mapping.get("FilterCriteria") or {}).get("Filters"):
            yield f"{name} has a filter: remove it, since a record taken once must come again"


def _is_of(one: Found, function_name: str) -> bool:
    """Return whether a mapping is in use, and leads to a function or a version or alias of it."""
    parts = str(one.get("FunctionArn", "")).split(":")
    return one.get("State") not in _AT_REST and parts[6:7] == [function_name]


async def mappings_of(client: LambdaClient, source: str) -> list[Found]:
    """Return all mappings of an event source; the caller handles the SDK's errors."""
    found: list[Found] = []
    request: dict[str, Any] = {"EventSourceArn": source}
    for _page in range(PAGES_MAX):
        answer = await client.list_event_source_mappings(**request)
        found += answer["EventSourceMappings"]
        if not (marker := answer.get("NextMarker")):
            break
        request["Marker"] = marker
    return found


@asynccontextmanager
async def open_lambda(*, region: str, request_timeout: float) -> AsyncIterator[LambdaClient]:
    """Open a client; credentials and endpoint are found as the SDK finds them.

    Raises:
        LedgerError: the SDK's configuration cannot be read, or names something that does not exist.
    """
    opening = open_client(
        "lambda", region=region, request_timeout=request_timeout, tries_max=SDK_TRIES_MAX
    )
    async with opening as client:
        yield client
