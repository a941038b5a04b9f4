"""The pipeline as an AWS Lambda function: batches of Kinesis and DynamoDB Streams, one per event.

The event source mapping must have `ReportBatchItemFailures`, no filter, and a parallelization
factor of 1: more of it hands records of one shard to several invocations at once, so that one
commits a position past records that another has not brought in yet. `ledger deploy template
pipeline` sets it so, and a function refuses events of a stream whose mappings are otherwise
(`invocations`).

The settings are those of LEDGER_CONFIG and `LEDGER_*`, read once. LEDGER_CHOSEN_PIPELINE chooses
one of several pipelines; `LEDGER_PIPELINE__*` holds for the one chosen, whose `dead_letter_queue`
must be set. Connections, and what is known of lanes, are kept between invocations. An invocation
can be cut off anywhere: the next one with the same records, however they are divided, goes on.
"""

import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache
from typing import Any

import anyio

from ledger.contract.view import ContractView
from ledger.core.errors import LedgerError, SettingsError
from ledger.pipeline.aws.dead_letter_queue import open_queue
from ledger.pipeline.aws.invocations import (
    InvocationAnswer,
    Invocations,
    MappingCheck,
    mappings_of,
    open_lambda,
    values_of,
)
from ledger.pipeline.aws.kinesis import KinesisClient, KinesisStream, open_kinesis
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import LetterSink
from ledger.pipeline.sources.source import NOTHING, StreamPart
from ledger.runtime import cloudwatch
from ledger.runtime.clock import Clock, SystemClock
from ledger.runtime.cloudwatch import PIPELINE_NAMESPACE, LambdaContext
from ledger.runtime.gc import is_gc_tuned, tune_gc
from ledger.runtime.loops import new_runner
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.settings.variables import PIPELINE_VARIABLE, read_variables
from ledger.store.connections import open_store
from ledger.store.port import Store

LOOK_SECONDS = 5.0
"""Time limit of a look at what follows a lane's position, once for each lane that begins."""
STOP_MARGIN_SECONDS = 10.0
"""How long before Lambda's limit a batch is cut off, so that what is committed can be reported."""

_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Bring in an event's records; returns the first that must come again, if any.

    Raises:
        LedgerError: all must come again: nothing was committed, or the settings are wrong.
    """
    return environment().handle(event, context)


@cache
def environment() -> "PipelineEnvironment":
    """Return the objects that this process keeps between invocations."""
    if not is_gc_tuned():
        tune_gc()
    return PipelineEnvironment(chosen_settings())


def chosen_settings() -> Settings:
    """Return the settings of this function's pipeline.

    Raises:
        SettingsError: they are wrong, or there is no such pipeline.
    """
    settings = Settings.load().of_pipeline(os.environ.get(PIPELINE_VARIABLE) or None)
    own = read_variables(Settings).get("pipeline")
    return settings.replace(pipeline=own) if own else settings


class PipelineEnvironment:
    """An event loop with its connections, and the lanes that it knows."""

    def __init__(self, settings: Settings) -> None:
        self._clock = SystemClock()
        self._metrics = PipelineMetrics()
        self._kept = KeptConnections(settings, self._clock)
        self._invocations = Invocations(
            settings,
            self._kept,
            services=Services.of(clock=self._clock),
            metrics=self._metrics,
        )
        self._mappings = MappingCheck(self._kept.mappings, self._clock)
        self._runner = new_runner()

    def handle(self, event: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
        """Answer one event, and write what was done as metrics to the log."""
        before = values_of(self._metrics)
        answer = self._runner.run(self._answer(event, context))
        after = values_of(self._metrics)
        more = {name: value - before[name] for name, value in after.items()}
        sys.stdout.write(self._line(answer, more, context.function_name) + "\n")
        return answer.response

    async def _answer(self, event: Mapping[str, Any], context: LambdaContext) -> InvocationAnswer:
        await self._mappings.check(event, context.function_name)
        seconds = context.get_remaining_time_in_millis() / 1000 - STOP_MARGIN_SECONDS
        return await self._invocations.answer(event, seconds=max(0.0, seconds))

    def close(self) -> None:
        """Close the connections; Lambda itself just ends the process."""
        self._runner.run(self._kept.close())
        self._runner.close()

    def _line(self, answer: InvocationAnswer, more: Mapping[str, float], function_name: str) -> str:
        now = self._clock.now()
        values = {"Records": float(len(answer.records)), "Again": float(answer.again), **more}
        if answer.records and not answer.again and (at := answer.records[-1].at) is not None:
            values["LagSeconds"] = max(0.0, (now - at).total_seconds())
        return cloudwatch.metric_line(
            values, namespace=PIPELINE_NAMESPACE, function_name=function_name, now=now
        )


class KeptConnections:
    """Stores and queues, opened when a lane first needs them."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._stack = AsyncExitStack()
        self._stores: dict[str, Store] = {}
        self._views: dict[str, ContractView] = {}
        self._queues: dict[str, LetterSink] = {}
        self._streams: dict[str, KinesisClient] = {}

    async def settings(self, region: str) -> LiveSettings:
        """Return the view of the table's contract as a region shows it."""
        if region not in self._views:
            view = ContractView(await self.store(region), self._settings, clock=self._clock)
            await view.open()
            self._views[region] = view
        return self._views[region]

    async def store(self, region: str) -> Store:
        """Return the store of a region."""
        if region not in self._stores:
            opening = open_store(self._settings, region, clock=self._clock)
            self._stores[region] = await self._stack.enter_async_context(opening)
        return self._stores[region]

    async def dead_letters(self, region: str) -> LetterSink:
        """Return the queue that the settings name, as it is reached from a region."""
        url = self._settings.pipeline.dead_letter_queue
        if url is None:
            raise SettingsError(
                "pipeline.dead_letter_queue is missing: name the SQS queue for records that cannot"
                " be taken (LEDGER_PIPELINE__DEAD_LETTER_QUEUE)"
            )
        if region not in self._queues:
            timeout = self._settings.request_timeout
            opening = open_queue(url, region=region, request_timeout=timeout, clock=self._clock)
            self._queues[region] = await self._stack.enter_async_context(opening)
        return self._queues[region]

    async def following(self, region: str, lane: str, position: str) -> str | None:
        """Return the position of the first record of a Kinesis shard after another, if any.

        None also if the shard cannot be read: then the check is skipped.
        """
        if region not in self._streams:
            timeout = self._settings.request_timeout
            opening = open_kinesis(region=region, profile=None, request_timeout=timeout)
            self._streams[region] = await self._stack.enter_async_context(opening)
        stream = KinesisStream(lane.rpartition("/")[0], self._streams[region], self._clock)
        try:
            with anyio.move_on_after(LOOK_SECONDS):
                return await stream.source(StreamPart(lane), NOTHING).following(position)
            reason = "its reading is throttled"
        except LedgerError as error:
            reason = str(error)
        _log.warning("lane %s: what follows its position was not looked at: %s", lane, reason)
        return None

    async def mappings(self, source: str) -> Sequence[Mapping[str, Any]]:
        """Return the event source mappings of a stream, by its ARN."""
        region = source.split(":")[3]
        timeout = self._settings.request_timeout
        async with open_lambda(region=region, request_timeout=timeout) as client:
            return await mappings_of(client, source)

    async def close(self) -> None:
        """Close them all."""
        await self._stack.aclose()
