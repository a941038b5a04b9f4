"""Streams and queues, as `ledger pipeline run` brings them in: each lane under a lease.

Any number of processes may run one stream. In each round a process takes the lease of one lane
that is free and whose parents are in, so that several that are started together share the lanes;
what a dead one held is free after `LEASE_SECONDS`. Leases only save work: positions decide, so two
workers of one lane, or Lambda beside them, do no harm.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import anyio.abc

from ledger.core.entry import Item, damaged, number_of
from ledger.core.errors import InvalidInput, LedgerError
from ledger.pipeline.aws.kinesis import KinesisStream, open_kinesis
from ledger.pipeline.aws.queue_spool import open_queue_spool
from ledger.pipeline.core.items import lane_id, position_key
from ledger.pipeline.file_runs import LaneRun, bring_in, open_run
from ledger.pipeline.progress import LaneProgress, StreamProgress
from ledger.pipeline.sources.kafka import KafkaStream, topic_of
from ledger.pipeline.sources.source import Memory, RecordStream, Source, StreamPart, ready
from ledger.primitives.leases import Lease, LeaseTerms, NotHeld
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.runtime.signals import Signalled
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Put

LEASE_SECONDS = 30.0
ROUND_SECONDS = 10.0
"""Between two looks at the lanes that there are."""
SHARING_SECONDS = 1.0
"""The same, after a lane was taken."""
FINISHED_SORT_KEY = "finished"
CAUGHT_UP_SORT_KEY = "caught-up"
OWNER_BITS = 64


class Runner(Protocol):
    """Runs lanes, as `PipelineRun` does."""

    async def run(
        self, name: str, source: Source, dead: Path, *, until: anyio.Event | None = None
    ) -> None:
        """Run a lane to the end of its source, or until an event."""

    async def wait_for(self, wanted: Callable[[], Awaitable[object]]) -> bool:
        """Wait for something; return False if a stop is wanted, at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """One process's share of a stream.

    `problems` are noted of lanes that could not continue; the others do.
    """

    stream: RecordStream
    run: Runner
    store: Store
    dead: Path
    services: Services
    report: Callable[[str], None]
    problems: list[str]
    pipeline: str = ""

    async def bring_in(self) -> None:
        """Bring lanes in until all are finished, or a stop.

        Raises:
            LedgerError: the stream does not exist, or cannot be read, or the table cannot.
        """
        share = _Share(self)
        async with anyio.create_task_group() as tasks:
            while True:
                share.ended = anyio.Event()
                parts = await self.stream.parts()
                await share.look(parts)
                if share.is_over(parts):
                    break
                seconds = SHARING_SECONDS if await share.take_one(parts, tasks) else ROUND_SECONDS
                if not await self.run.wait_for(partial(self._wait, share, seconds)):
                    break

    async def _wait(self, share: "_Share", seconds: float) -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def until_one_ends() -> None:
                    await share.ended.wait()
                    scope.cancel()

                tasks.start_soon(until_one_ends)
                await self.services.clock.sleep(seconds)
                scope.cancel()

    def item_key(self, lane: str, sort_key: str) -> tuple[str, str]:
        """Return the key of a lane's further data besides its position."""
        return position_key(lane_id(self.store.region, lane), self.pipeline)[0], sort_key

    def memory(self, lane: str) -> Memory:
        """Return a lane's further data in the table."""
        key = self.item_key(lane, CAUGHT_UP_SORT_KEY)

        async def caught_up() -> tuple[str, float] | None:
            item = await self.store.get(Get(key))
            return None if item is None else _caught_up(item)

        async def note(position: str) -> None:
            at = f"{self.services.clock.now().timestamp():.0f}"
            await self._put(key, {"position": {"S": position}, "at": {"N": at}})

        return Memory(caught_up, note)

    async def is_finished(self, lane: str) -> bool:
        """Return whether a lane has been brought in to its end."""
        return await self.store.get(Get(self.item_key(lane, FINISHED_SORT_KEY))) is not None

    async def finish(self, lane: str) -> None:
        """Make known that a lane has been brought in to its end."""
        await self._put(self.item_key(lane, FINISHED_SORT_KEY), {})

    async def _put(self, key: tuple[str, str], content: Item) -> None:
        partition, sort_key = key
        await self.store.write(Put({"pk": {"S": partition}, "sk": {"S": sort_key}, **content}))


class _Share:
    """The lanes that this process holds, and the states of the others."""

    def __init__(self, stream_run: StreamRun) -> None:
        self.ended = anyio.Event()
        self._of = stream_run
        self._owner = f"{stream_run.services.randomness.getrandbits(OWNER_BITS):016x}"
        self._finished: set[str] = set()
        self._failed: set[str] = set()
        self._held: set[str] = set()
        self._leases: dict[str, Lease] = {}

    async def look(self, parts: Sequence[StreamPart]) -> None:
        """Find out which lanes others have finished."""
        for part in parts:
            if part.lane not in self._finished | self._held and await self._of.is_finished(
                part.lane
            ):
                self._finished.add(part.lane)

    def is_over(self, parts: Sequence[StreamPart]) -> bool:
        """Return whether nothing is left that could be read here."""
        lanes = {part.lane for part in parts}
        waits = {part.lane for part in ready(parts, self._finished)} - self._failed
        return lanes <= self._finished or (not waits and not self._held)

    async def take_one(self, parts: Sequence[StreamPart], tasks: anyio.abc.TaskGroup) -> bool:
        """Take a lane that is free, in an order of our own; return whether there was one."""
        free = [
            part
            for part in ready(parts, self._finished)
            if part.lane not in self._held | self._failed
        ]
        self._of.services.randomness.shuffle(free)
        for part in free:
            if await tasks.start(self._hold, part):
                return True
        return False

    async def _hold(
        self,
        part: StreamPart,
        *,
        task_status: anyio.abc.TaskStatus[bool] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            lease = self._lease(part.lane)
            async with lease.held(0) as held:
                if isinstance(held, NotHeld):
                    task_status.started(False)  # noqa: FBT003 (anyio's)
                    return
                self._held.add(part.lane)
                task_status.started(True)  # noqa: FBT003
                await self._bring_in(part, lease)
        except LedgerError as error:
            self._failed.add(part.lane)
            self._of.problems.append(str(error))
            self._of.report(f"lane {part.lane} stops: {error}")
            if part.lane not in self._held:
                task_status.started(False)  # noqa: FBT003
        finally:
            self._held.discard(part.lane)
            self.ended.set()

    async def _bring_in(self, part: StreamPart, lease: Lease) -> None:
        self._of.report(f"lane {part.lane} begins here")
        source = self._of.stream.source(part, self._of.memory(part.lane))
        await self._of.run.run(part.lane, source, self._of.dead, until=lease.lost)
        if source.is_finished:
            await self._of.finish(part.lane)
            self._finished.add(part.lane)
            self._of.report(f"lane {part.lane} is finished")

    def _lease(self, lane: str) -> Lease:
        """Return our contender for a lane's lease, which remembers its observations."""
        if lane not in self._leases:
            name = f"pipeline/{self._of.pipeline}/{self._of.store.region}/{lane}"
            self._leases[lane] = Lease(
                self._of.store,
                name,
                owner=self._owner,
                terms=LeaseTerms(lease_seconds=LEASE_SECONDS),
                services=self._of.services,
            )
        return self._leases[lane]


def _caught_up(item: Item) -> tuple[str, float]:
    position = item.get("position", {}).get("S")
    if not isinstance(position, str):
        raise damaged(item, "a lane's catch-up note needs a position")
    return position, float(number_of(item, "at"))


async def bring_in_stream(
    address: str,
    settings: Settings,
    region: str,
    progress: StreamProgress,
    *,
    dead: Path,
    skips_lost: bool = False,
    report: Callable[[str], None],
) -> Signalled:
    """Bring a stream in, `kinesis://STREAM` or `kafka://BROKER/TOPIC`, until a signal.

    It ends by itself once every shard is closed and in. Lanes that could not go on are in
    `progress.problems`.

    Raises:
        InvalidInput: the address is not one of these.
        LedgerError: the stream or the table cannot be read.
    """
    services = Services.of(registry=progress.registry)
    clock = services.clock
    async with (
        open_stream(address, settings, region, clock=clock, skips_lost=skips_lost) as stream,
        open_run(settings, region, progress, report) as (run, received, _),
    ):
        await StreamRun(
            stream=stream,
            run=run,
            store=run.store,
            dead=dead,
            services=services,
            report=report,
            problems=progress.problems,
            pipeline=settings.pipeline.name,
        ).bring_in()
    return received


@asynccontextmanager
async def open_stream(
    address: str, settings: Settings, region: str, *, clock: Clock, skips_lost: bool = False
) -> AsyncIterator[RecordStream]:
    """Open a stream by its address.

    Raises:
        InvalidInput: it is not one of these.
        SettingsError: the region is not in the settings, or an extra is not installed.
    """
    scheme, _, place = address.partition("://")
    host, _, topic = place.partition("/")
    if scheme == "kinesis" and host and not topic:
        opening = open_kinesis(
            region=region,
            profile=settings.region(region).profile,
            request_timeout=settings.request_timeout,
        )
        async with opening as client:
            yield KinesisStream(host, client, clock, skips_lost=skips_lost)
    elif scheme in {"kafka", "kafka+tls"} and host and topic and "/" not in topic:
        found = topic_of(host, topic, is_encrypted=scheme == "kafka+tls")
        yield KafkaStream(found, skips_lost=skips_lost)
    else:
        raise InvalidInput(
            f"{address!r} is not a stream: kinesis://STREAM, kafka://BROKER:PORT/TOPIC or kafka+tls://"
        )


async def bring_in_queue(
    queue: str,
    lane: LaneRun,
    settings: Settings,
    progress: LaneProgress,
    *,
    report: Callable[[str], None],
) -> Signalled:
    """Drain an SQS queue into the lane's file, and bring that in; until a signal if it follows.

    Raises:
        LedgerError: the queue cannot be read, or the lane could not continue.
    """
    opening = open_queue_spool(
        queue,
        lane.file,
        region=lane.region,
        profile=settings.region(lane.region).profile,
        request_timeout=settings.request_timeout,
        follows=lane.follows,
    )
    async with opening as spool:
        await spool.begin()
        spooled = replace(lane, follows=False)
        return await bring_in(spooled, settings, progress, spool=spool, report=report)
