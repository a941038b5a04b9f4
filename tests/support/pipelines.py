"""Records for the pipeline, the truth about them computed apart, lanes in the simulated world."""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import anyio
from proof.simulator.process import RELIABLE, Process, Reliability
from proof.simulator.randomness import stream
from proof.simulator.store import NO_FAULTS, FaultProfile, SimStore
from proof.simulator.supervisor import REGISTRY
from support.clients import FAULTY, Clients, together
from support.ledgers import AWAY, HOME, make_settings

from compactor.job import Compactor
from ledger.core import amounts, keys
from ledger.core.amounts import EXACT
from ledger.core.errors import LedgerError
from ledger.core.fold import collect
from ledger.pipeline.core.items import MAP_PREFIX, PIPELINE_PREFIX
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.metrics import PipelineMetrics
from ledger.pipeline.sources.dead_letters import DeadLetterList
from ledger.pipeline.stages.worker import LanePlace, LaneWorker, PipelineMetering
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryTable

CATEGORIES = ("risk/{Hierarchy.RiskType}", "desk/{Hierarchy.Region}/{Hierarchy.Desk}")
FIELDS = {"id": "TradeID", "version": "Version", "value": "Value"}
BOTH_HOMES = {"field": "TradeID", "regions": {"E*": AWAY, "*": HOME}}
POISON = b'{"TradeID": "T1", "Version": 7.5, "Value": 1}'
POSITION_DIGITS = 6
ROUGH = FaultProfile(
    slow=0.2,
    lost=0.05,
    never_arrived=0.05,
    late=0.05,
    throttled=0.1,
    unreachable=0.05,
    scattered=0.05,
    late_transactions=0.1,
)
ZOMBIE = Reliability(steps_per_fault=150, crash_share=0.0, stall_seconds_max=(3.0, 30.0, 120.0))
SETTLED_SECONDS = 130.0
"""By then everything late has landed, and everything has replicated."""

COMPACTIONS = 4

METRICS, LEDGER_METRICS = PipelineMetrics(), Metrics()
"""Of no one: to make them takes as long as a hundred steps of a world."""


def message(
    record: str, version: int, value: str | int, risk: str = "Delta", desk: str = "A"
) -> bytes:
    """Return a record as a producer sends it."""
    hierarchy = {"RiskType": risk, "Region": "EMEA", "Desk": desk}
    told = {"TradeID": record, "Version": version, "Value": value, "Hierarchy": hierarchy}
    return json.dumps(told).encode()


def deliveries(raws: Iterable[bytes]) -> list[Delivery]:
    """Return records at the positions 1, 2, 3 and so on."""
    return [Delivery(position(number), raw) for number, raw in enumerate(raws, 1)]


def position(number: int) -> str:
    """Return a position as these lanes have them."""
    return f"{number:0{POSITION_DIGITS}d}"


def truth(raws: Iterable[bytes]) -> dict[str, Decimal]:
    """Return the totals that the newest version of each record makes, without code of ours."""
    newest: dict[str, dict[str, Any]] = {}
    for raw in raws:
        told = json.loads(raw)
        if (
            raw != POISON
            and told["Version"] > newest.get(told["TradeID"], {"Version": -1})["Version"]
        ):
            newest[told["TradeID"]] = told
    sums: dict[str, Decimal] = {}
    for told in newest.values():
        place = told["Hierarchy"]
        for name in (f"risk/{place['RiskType']}", f"desk/{place['Region']}/{place['Desk']}"):
            sums[name] = EXACT.add(sums.get(name, 0), amounts.of_text(str(told["Value"])))
    return {name: value for name, value in sums.items() if value}


def shown(table: MemoryTable) -> dict[str, Decimal]:
    """Return the totals that one region's table shows, zeroes left out."""
    counters = [name for name in table.partitions if keys.counter_of(name) is not None]
    totals = {name: collect(table.partitions[name].values()).total() for name in counters}
    return {name: total for name, total in totals.items() if total}


def map_items(table: MemoryTable) -> list[str]:
    """Return the sort keys of the map items that no one has reduced."""
    return [
        key
        for name, items in table.partitions.items()
        if name.startswith(PIPELINE_PREFIX)
        for key in items
        if key.startswith(MAP_PREFIX)
    ]


def pipeline_settings(**overrides: Any) -> Settings:
    """Return settings of two regions with these categories; further ones are the pipeline's."""
    return make_settings(
        pipeline={"fields": FIELDS, "categories": CATEGORIES, "reduce_every": 0, **overrides},
        compactor={"hint_every": 0, "scan_every": 0, "fold_min": 2, "prune_min": 1},
        retry_horizon=20,
        signature_lifetime=60,
        clock_skew=0,
        settle=81,
        write_deadline=10,
        read_deadline=1,
        observation_delay=2,
    )


@dataclass
class SlowSource:
    """Records that come in pieces of any size, cut differently at every reading."""

    records: Sequence[Delivery]
    draw: Random
    pause_seconds: float = 0.0

    async def batches(self, after: str, *, most: int) -> AsyncGenerator[Sequence[Delivery], None]:
        """Yield what comes after a position."""
        left = [record for record in self.records if record.position > after]
        while left:
            count = self.draw.randint(1, most)
            await anyio.sleep(self.draw.random() * self.pause_seconds)
            yield left[:count]
            left = left[count:]


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a world: where it runs, and what comes through it."""

    name: str
    region: str
    records: Sequence[Delivery]


class PipelineWorld:
    """Two regions, lanes in both, workers that crash, stall and come twice, and what is left of it.

    Every version of a record comes at least once, through any lane, some several times; so do
    records that cannot be taken. Each worker draws from `totals` how it reduces.
    """

    def __init__(
        self,
        seed: int,
        *,
        faults: FaultProfile | None = None,
        compacts: bool = False,
        totals: Sequence[str] = ("sums", "entries"),
    ) -> None:
        self.seed = seed
        self.compacts = compacts
        self.totals = totals
        self.adding = stream(seed, "totals")
        self.draw = stream(seed, "pipeline")
        self.faults = faults or self.draw.choice((FAULTY, ROUGH))
        self.clients = Clients(seed, self.faults)
        self.world = self.clients.world
        self.letters = DeadLetterList()
        self.messages = _messages(self.draw, self.draw.choice((1, 3, 6)))
        self.lanes = self._lanes()
        self.pause_seconds = self.draw.choice((0.0, 0.0, 1.0, 10.0))
        self.folds = 0
        self.form: dict[str, Any] = {}
        """What its workers' settings say otherwise."""
        self._workers = 0

    def _lanes(self) -> list[Lane]:
        """Deal the messages out to two or three lanes, duplicated and in disorder."""
        regions = [HOME, self.draw.choice((HOME, AWAY)), AWAY][: self.draw.choice((1, 2, 3))]
        dealt: list[list[bytes]] = [[POISON] for _ in regions]
        for one in self.messages:
            for _ in range(self.draw.choice((1, 1, 2, 3))):
                self.draw.choice(dealt).append(one)
        for raws in dealt:
            self.draw.shuffle(raws)
        return [
            Lane(f"lane-{number}", region, deliveries(raws))
            for number, (region, raws) in enumerate(zip(regions, dealt, strict=True))
        ]

    async def run(self) -> None:
        """Let workers of each lane be ill for a while, then others finish, and all come to rest."""
        compacting = [self._compact] if self.compacts else []
        await together([*compacting, *(partial(self._work, lane) for lane in self.lanes)])
        self.world.heal_all()
        await together([self.worker(lane, RELIABLE).run for lane in self.lanes])
        await anyio.sleep(SETTLED_SECONDS)
        self.world.end()

    def worker(
        self, lane: Lane, health: Reliability, *, batch_max: int | None = None
    ) -> LaneWorker:
        """Return a new worker of a lane, a process of its own that remembers nothing."""
        self._workers += 1
        process = self._process(f"worker {self._workers}", health)
        draw = stream(self.seed, f"source {self._workers}")
        return LaneWorker(
            LanePlace(lane.region, lane.name),
            SlowSource(lane.records, draw, self.pause_seconds),
            stores={name: SimStore(process, name, self.faults) for name in (HOME, AWAY)},
            settings=pipeline_settings(
                batch_max=batch_max or self.draw.choice((1, 3, 10)),
                in_flight=self.draw.choice((1, 4)),
                cache_max=self.draw.choice((1, 100)),
                home=BOTH_HOMES,
                totals=self.adding.choice(self.totals),
                slots=self.adding.choice((1, 1, 3)),
                **self.form,
            ),
            dead_letters=self.letters,
            services=Services(
                process.clock, stream(self.seed, f"draws {self._workers}"), LEDGER_METRICS
            ),
            metering=PipelineMetering(METRICS),
        )

    def _process(self, name: str, health: Reliability) -> Process:
        return Process(
            name,
            world=self.world,
            randomness=stream(self.seed, name),
            reliability=health,
            skew_seconds=0,
            span=1,
        )

    async def _work(self, lane: Lane) -> None:
        """Begin workers of a lane, some of them beside each other, and end each at any moment."""
        for _ in range(self.draw.choice((1, 2, 3))):
            crew = [
                partial(self._live, lane, self.draw.uniform(0.1, 30.0))
                for _ in range(self.draw.choice((1, 1, 2)))
            ]
            await together(crew)

    async def _live(self, lane: Lane, seconds: float) -> None:
        """Let one worker live for so long; what it has sent may land later."""
        worker = self.worker(lane, ZOMBIE)
        with anyio.CancelScope() as life:
            self.world.loop.call_later(seconds, life.cancel)
            try:
                await worker.run()
            except LedgerError:
                if not self.world.is_over:
                    await anyio.sleep(1.0)

    async def _compact(self) -> None:
        """Merge what has settled, again and again."""
        for number in range(COMPACTIONS):
            await anyio.sleep(self.draw.uniform(10.0, 60.0))
            process = self._process(f"compactor {number}", RELIABLE)
            compactor = Compactor(
                pipeline_settings(),
                registry=REGISTRY,
                stores={name: SimStore(process, name, NO_FAULTS) for name in (HOME, AWAY)},
                services=Services.of(
                    clock=process.clock,
                    randomness=stream(self.seed, f"compactor {number}"),
                    registry=REGISTRY,
                ),
                owner=process.name,
            )
            self.folds += (await compactor.run_once()).folds

    def right(self) -> dict[str, Decimal]:
        """Return what the totals must be in the end."""
        return truth(self.messages)

    def verdict(self) -> list[str]:
        """Return what is wrong in the end; nothing, if all is right."""
        right = self.right()
        wrong = [
            f"{region} shows {found}, not {right}"
            for region in (HOME, AWAY)
            if (found := shown(self.world.replicas[region].table)) != right
        ]
        for region in (HOME, AWAY):
            wrong += map_items(self.world.replicas[region].table)
        buried = {(letter.lane, letter.position) for letter in self.letters.letters}
        expected = {
            (f"{lane.region}/{lane.name}", record.position)
            for lane in self.lanes
            for record in lane.records
            if record.raw == POISON
        }
        return wrong + ([f"dead letters {buried}, not {expected}"] if buried != expected else [])


def _messages(draw: Random, records: int) -> list[bytes]:
    """Return versions of records, each of another value, some on other desks than before."""
    return [
        message(
            record, version, draw.randrange(-(10**9), 10**9), draw.choice("DV"), draw.choice("ABC")
        )
        for record in (f"{draw.choice('ET')}{number}" for number in range(records))
        for version in range(1, draw.choice((2, 3, 6)))
    ]


RAWS = [
    message("T1", 1, 10),
    message("T2", 1, "2.50", desk="B"),
    message("T1", 3, 40, desk="B"),
    message("T1", 2, 99),
    message("T2", 1, "2.50", desk="B"),
]
"""Versions of two trades, in disorder, one of them twice."""
