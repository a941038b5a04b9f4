"""A global table in memory for tests of programs that use the ledger."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from compactor.job import Compactor
from compactor.report import CompactorReport
from ledger import sync
from ledger.core.clock_offset import ClockOffset
from ledger.core.contract_item import Contract, contract_item
from ledger.core.errors import InvalidInput, LedgerError, SettingsError
from ledger.reads.feed.memory import MemoryStream
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.runtime.tasks import background_tasks
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.table import Table
from ledger.testing.clock import ManualClock
from ledger.testing.replicas import CutStore, ManualWorld

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from ledger.store.port import Store

Result = TypeVar("Result")
REGIONS = ("us-east-1", "eu-west-1")
STEP_SECONDS = 0.5
"""Steps of time while the compactor works; written items arrive at each."""
WORK_SECONDS_MAX = 3_600.0
PASSES_MAX = 20


class _GoingOn:
    """The time of an import in memory: while it waits, time passes and items replicate."""

    def __init__(self, world: "MemoryGlobalTable") -> None:
        self._world = world
        self.now = world.clock.now
        self.monotonic = world.clock.monotonic

    async def sleep(self, seconds: float) -> None:
        """Let the world go on for so many seconds."""
        self._world.replicate()
        await self._world.pass_time(seconds)


class _MemoryTable(Table):
    """A table in memory: nothing else moves the time that its imports wait for."""

    def __init__(self, world: "MemoryGlobalTable", **given: Any) -> None:
        super().__init__(world.settings, **given)
        self._world = world

    @property
    def _import_clock(self) -> Clock:
        return _GoingOn(self._world)


class MemoryGlobalTable:
    """A global table in memory: replication and time move only when a test moves them.

    The first region is home. What one region writes is in another after `replicate` was called, in
    an order drawn from `seed`, as global tables replicate item by item in any order. All durations
    are on `clock`, so that a test that waits for half an hour takes none. A page of a Query has up
    to `page_items_max` items, so that few of them exercise paging. `settings` are any fields
    of `Settings`; what processes must have equal is in the table's contract, as in any table, and a
    `ledger` goes by that; a `table` goes by the settings.

    It is used from one event loop, and from plain code through `sync_ledger`.

    Raises:
        SettingsError: a setting breaks a rule.
    """

    def __init__(
        self,
        regions: Sequence[str] = REGIONS,
        *,
        seed: int = 7,
        clock: ManualClock | None = None,
        page_items_max: int = 1_000,
        **settings: Any,
    ) -> None:
        are_names = isinstance(regions, Sequence) and all(isinstance(name, str) for name in regions)
        if isinstance(regions, str) or not are_names:
            raise SettingsError(f"regions must be a list of names, got {regions!r:.80}")
        if not regions or len({*regions}) < len(regions):
            raise SettingsError(f"regions must be different ones, got {list(regions)!r}")
        self.clock: ManualClock = clock or ManualClock()
        self.settings: Settings = Settings(
            **{
                "home": regions[0],
                "regions": {region: {} for region in regions},
                **settings,
                # No call waits for others: the clock might not move meanwhile.
                "writer": {"linger": 0, **settings.get("writer", {})},
            }
        )
        self._random = Random(seed)  # noqa: S311 (repeatable, and nothing secret)
        self._world = ManualWorld(
            regions, randomness=self._random, page_items_max=page_items_max, clock=self.clock
        )
        for replica in self._world.replicas.values():
            replica.clock_offset = ClockOffset(0.0, 0.0)  # all of it is on one clock
        self._world.streams.update(
            (region, MemoryStream(f"{region}/memory", clock=self.clock)) for region in regions
        )
        for region in regions:
            self._world.put(region, dict(contract_item(Contract(terms=self.settings.terms))))
            self._world.deliver()
        self._compactors = 0
        self._isolated: set[str] = set()
        self._crashed: WeakSet[Ledger] = WeakSet()

    def store(self, region: str | None = None) -> "Store":
        """Return the store of a region, by default home.

        Raises:
            SettingsError: there is no such region.
        """
        self.settings.region(region or self.settings.home)
        return self._world.replicas[region or self.settings.home]

    def ledger(
        self, region: str | None = None, *, registry: "CollectorRegistry | None" = None
    ) -> Ledger:
        """Return a ledger of a region, by default home, to be used in `async with`.

        Raises:
            SettingsError: there is no such region.
        """
        return Ledger(
            self.settings,
            region=region or self.settings.home,
            registry=registry,
            services=self._services(registry),
            given=GivenConnections(
                store=self.store(region),
                home=self.store(),
                others=self._others(region),
                stream=self._world.streams[region or self.settings.home],
                contract=True,
            ),
        )

    def table(
        self, region: str | None = None, *, registry: "CollectorRegistry | None" = None
    ) -> Table:
        """Return the table of a region, by default home, to be used in `async with`.

        Raises:
            SettingsError: there is no such region.
        """
        own = region or self.settings.home

        def is_dead() -> bool:
            return table.ledger in self._crashed

        table = _MemoryTable(
            self,
            region=own,
            registry=registry,
            services=self._services(registry),
            given=GivenConnections(
                store=CutStore(self.store(own), is_dead),
                others={
                    name: CutStore(store, is_dead) for name, store in self._others(region).items()
                },
                stream=self._world.streams[own],
            ),
        )
        return table

    def _others(self, region: str | None) -> dict[str, "Store"]:
        own = region or self.settings.home
        return {
            name: CutStore(self.store(name), partial(self._are_apart, own, name))
            for name in self.settings.regions
            if name != own
        }

    def _are_apart(self, *regions: str) -> bool:
        return not self._isolated.isdisjoint(regions)

    def sync_ledger(self, region: str | None = None) -> sync.Ledger:
        """Return a ledger without async, to be used in `with`; see `ledger`."""
        return sync.Ledger(self.ledger(region))

    def _services(self, registry: "CollectorRegistry | None" = None) -> Services:
        return Services.of(clock=self.clock, randomness=self._new_random(), registry=registry)

    def _new_random(self) -> Random:
        return Random(self._random.getrandbits(64))  # noqa: S311 (as above)

    def replicate(self, most: int | None = None) -> int:
        """Let up to `most` items (None: all) arrive in other regions; return how many did."""
        return self._world.deliver(most)

    def pause(self, source: str, target: str) -> None:
        """Hold back what one region sends to another, until `heal`."""
        self._world.pause(self._checked(source), self._checked(target))

    def isolate(self, region: str) -> None:
        """Hold back what a region sends and what it is sent, until `heal`.

        Nor do budgets of programs in other regions reach it, or those of its own the others.
        """
        self._world.isolate(self._checked(region))
        self._isolated.add(region)

    def heal(self) -> None:
        """Hold nothing back any more; what was held arrives with the next `replicate`."""
        self._world.heal()
        self._isolated.clear()

    def crash(self, table: Table) -> None:
        """Let nothing more of what a program sends arrive, as if its process had died.

        It closes as usual, but what it would give back then is left as a crash leaves it.
        """
        self._crashed.add(table.ledger)

    def _checked(self, region: str) -> str:
        self.settings.region(region)
        return region

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; sleepers wake. Time alone replicates nothing.

        Raises:
            InvalidInput: the seconds are below 0.
        """
        if seconds < 0:
            raise InvalidInput(f"seconds must be 0 or more, got {seconds}")
        await self.clock.advance(seconds)

    async def settle(self) -> None:
        """Replicate everything, and let all that was written grow older than `settle`."""
        self.replicate()
        await self.pass_time(self.settings.settle + 1)

    async def compact(self, stores: "Mapping[str, Store] | None" = None) -> CompactorReport:
        """Do one pass of the compactor, as a new process; time passes and items replicate.

        It works through `stores`, by region, if some are given: wrapped ones that count or fail.
        """
        self._compactors += 1
        job = Compactor(
            self.settings,
            stores=stores or dict(self._world.replicas),
            services=self._services(),
            owner=f"testing-{self._compactors}",
            contract=True,
        )
        return await self._while_time_passes(job.run_once)

    async def merge(self) -> int:
        """Settle, and do passes until nothing is left to merge; return how many entries were.

        Raises:
            LedgerError: a pass was prevented, as where regions are held apart, or there is no end.
        """
        merged = 0
        await self.settle()
        for _ in range(PASSES_MAX):
            report = await self.compact()
            if not report.is_success:
                raise LedgerError(report.sentence())
            merged += report.merged
            self.replicate()
            if report.is_idle:
                return merged
        raise LedgerError(f"merging did not end in {PASSES_MAX} passes: are regions held apart?")

    async def _while_time_passes(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of some work that waits on the clock."""
        results: list[Result] = []

        async def do() -> None:
            results.append(await work())

        end = self.clock.monotonic() + WORK_SECONDS_MAX
        async with background_tasks() as tasks:
            tasks.start_soon(do)
            while not results:
                if self.clock.monotonic() > end:
                    raise LedgerError(f"it did not end in {WORK_SECONDS_MAX:g} s of the clock")
                await self.clock.advance(STEP_SECONDS)
                self.replicate()
        return results[0]
