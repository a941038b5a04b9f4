"""Compactors on a virtual clock over regions in memory."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any, TypeVar

import anyio
from prometheus_client import CollectorRegistry
from support.ledgers import HOME, LOCAL, SOUTH, WEST

from compactor.job import Compactor
from compactor.report import CompactorReport
from ledger.core.amounts import EXACT
from ledger.core.entry import Item, entry_id, entry_item
from ledger.core.fold import Collection
from ledger.core.ids import EntryId
from ledger.core.signatures import NetKeys
from ledger.core.values import Entry
from ledger.primitives.leases.lease_rules import LeaseRecord, lease_key, record_of
from ledger.reads.archive.places.port import Place
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore
from ledger.store.wrappers.net_signatures import NetSigningStore
from ledger.testing.clock import ManualClock
from ledger.testing.replicas import ManualWorld

Result = TypeVar("Result")
STEP_SECONDS = 0.25
SECONDS_MAX = 400.0
HOLD = 5.0
SETTLE = 10.0
LEASE = 6.0
HEARTBEAT = 2.0


def compactor_settings(*, home: str = HOME, **overrides: Any) -> Settings:
    """Return settings of three regions with short times; further ones are the compactor's."""
    compactor = {
        "lease": LEASE,
        "heartbeat": HEARTBEAT,
        "fold_min": 3,
        "prune_min": 2,
        "fold_age": 10_000,
        "scan_every": 0,
        **overrides,
    }
    return Settings(
        home=home,
        regions=dict.fromkeys((HOME, WEST, SOUTH), LOCAL),
        retry_horizon=1,
        signature_lifetime=1,
        clock_skew=1,
        request_timeout=1,
        write_deadline=1,
        settle=SETTLE,
        read_deadline=1,
        observation_delay=HOLD,
        compactor=compactor,
    )


class Instance:
    """One process with a compactor, which can be killed or cut off from a region."""

    def __init__(
        self,
        world: "World",
        owner: str,
        settings: Settings,
        *,
        contract: bool = False,
        archive: Sequence[Place] | None = None,
        keys: NetKeys | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self.is_dead = False
        self.faults: dict[str, Callable[[FaultCall], Fault | None]] = {}
        self._scope: anyio.CancelScope | None = None
        self.stores = {
            region: FaultyStore(store, self._decider(region), clock=world.clock)
            for region, store in world.regions.replicas.items()
        }
        used: Mapping[str, Store] = self.stores
        if keys is not None:
            used = {region: NetSigningStore(one, keys) for region, one in self.stores.items()}
        self.compactor = Compactor(
            settings,
            registry=self.registry,
            stores=used,
            services=Services.of(
                clock=world.clock,
                randomness=Random(owner),  # noqa: S311 (repeatable)
                registry=self.registry,
            ),
            owner=owner,
            contract=contract,
            archive=archive,
        )

    def _decider(self, region: str) -> Callable[[FaultCall], Fault | None]:
        def decide(call: FaultCall) -> Fault | None:
            fault = self.faults.get(region)
            return fault(call) if fault else None

        return decide

    async def live(self, work: Callable[[], Awaitable[Result]]) -> Result | None:
        """Do some work until it ends or the process is killed: then None."""
        with anyio.CancelScope() as self._scope:
            try:
                return await work()
            except Exception:
                if not self.is_dead:
                    raise
        return None

    def kill(self, fault: Fault) -> None:
        """End the process at once: not even a release of the lease gets out."""
        self.is_dead = True
        self.faults = dict.fromkeys(self.stores, lambda _call: fault)
        if self._scope is not None:
            self._scope.cancel()

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric, None if it was never touched."""
        return self.registry.get_sample_value(name, labels)


class World:
    """Replicas that deliver at each step of the clock, unless paused, and compactors."""

    def __init__(self, *, seed: int = 1, page_items_max: int = 1000) -> None:
        self.clock = ManualClock()
        self.random = Random(seed)  # noqa: S311 (repeatable)
        self.regions = ManualWorld(
            (HOME, WEST, SOUTH), randomness=self.random, page_items_max=page_items_max
        )
        self.sum: dict[str, Decimal] = {}
        self.writes: list[tuple[float, str]] = []
        self.regions.observers.append(self)

    def instance(
        self,
        owner: str = "one",
        *,
        settings: Settings | None = None,
        archive: Sequence[Place] | None = None,
        keys: NetKeys | None = None,
        **overrides: Any,
    ) -> Instance:
        """Start a process; further settings are the compactor's."""
        settings = settings or compactor_settings(**overrides)
        if keys is not None:
            settings = settings.replace(signatures={"keys": "of the stores"})
        return Instance(self, owner, settings, archive=archive, keys=keys)

    def write(self, *, entries: int = 5, counter: str = "counter") -> list[EntryId]:
        """Write entries of a counter round the regions."""
        made = []
        for place in range(entries):
            one = entry_id(self.clock.now(), self.random.getrandbits(64))
            change = Decimal(self.random.randrange(-50, 100))
            entry = Entry(counter, str(one), change)
            self.regions.put((HOME, WEST, SOUTH)[place % 3], entry_item(entry))
            self.sum[counter] = EXACT.add(self.sum.get(counter, 0), change)
            made.append(one)
        return made

    async def settled(self, *, entries: int = 5, counter: str = "counter") -> list[EntryId]:
        """Write entries of a counter, deliver them, and let them settle."""
        made = self.write(entries=entries, counter=counter)
        self.regions.deliver()
        await self.clock.advance(SETTLE + 1)
        return made

    async def drive(self, *works: Callable[[], Awaitable[Result]]) -> list[Result]:
        """Do some works at once while time passes and replication delivers.

        Raises:
            Exception: the first that a work raises.
        """
        results: dict[int, Result] = {}
        failures: list[Exception] = []

        async def do(place: int, work: Callable[[], Awaitable[Result]]) -> None:
            try:
                results[place] = await work()
            except Exception as error:  # noqa: BLE001 (raised below, alone)
                failures.append(error)

        end = self.clock.monotonic() + SECONDS_MAX
        async with anyio.create_task_group() as tasks:
            for place, work in enumerate(works):
                tasks.start_soon(do, place, work)
            while len(results) < len(works) and not failures:
                assert self.clock.monotonic() < end, "the works do not end"
                await self.clock.advance(STEP_SECONDS)
                self.regions.deliver()
            tasks.cancel_scope.cancel()
        if failures:
            raise failures[0]
        return [results[place] for place in range(len(works))]

    async def run_once(self, instance: Instance, **options: Any) -> CompactorReport:
        """Let a process do one pass."""
        (report,) = await self.drive(lambda: instance.compactor.run_once(**options))
        return report

    def shown(self, region: str, counter: str = "counter") -> Collection:
        """Return a collection as a region shows it."""
        return self.regions.collection(region, counter)

    def is_right(self) -> bool:
        """Return whether every region shows the true sum of every counter."""
        return all(
            self.shown(region, counter).total() == expected
            for region in self.regions.replicas
            for counter, expected in self.sum.items()
        )

    def lease(self, region: str = HOME, *, home: str = HOME) -> LeaseRecord:
        """Return the lease of a home as a region shows it."""
        item = self.regions.replicas[region].table.get(lease_key(f"compactor@{home}"))
        assert item is not None
        return record_of(item)

    def changed(self, region: str, partition: str) -> None:
        """Ignore the collection: what `arrived` records is enough."""

    def arrived(self, region: str, key: tuple[str, str], item: Item | None) -> None:
        """Record when the home region wrote a collection, entries written by a test included."""
        del item
        if region == HOME and not key[0].startswith("~"):
            self.writes.append((self.clock.monotonic(), key[1]))


def snapshot(world: World) -> dict[str, list[object]]:
    """Return everything but the lease and the cursor that the regions show."""
    return {
        region: [item for item in store.table.items() if item["pk"]["S"][0] != "~"]
        for region, store in world.regions.replicas.items()
    }
