"""A local global table for one run: settings, a metered store for each region, ledgers, faults."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry

from ledger.administration.contract_changes import establish
from ledger.demo.harness.options import LabOptions
from ledger.local import LocalGlobalTable
from ledger.local.engines.dynoxide import lone_table
from ledger.runtime.clock import Clock, SystemClock
from ledger.runtime.metrics import Metrics, summed
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.connections import open_stores
from ledger.store.port import Store

DIRECT_TABLE = "ledger"
REPLICATED_SECONDS_MAX = 600.0


@dataclass(frozen=True, slots=True)
class TestTable:
    """A running table: its stores by region, home first, and what can be done to it.

    `registry` has the meters of the stores, `folder` takes files and goes with the table.
    """

    __test__: ClassVar[bool] = False  # pytest would take it for a class of tests

    world: LocalGlobalTable
    settings: Settings
    stores: dict[str, Store]
    registry: CollectorRegistry
    folder: Path
    _stack: AsyncExitStack
    clock: Clock = field(default_factory=SystemClock)

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions, home first."""
        return tuple(self.stores)

    async def ledgers(
        self, *, registry: CollectorRegistry | None = None, **overrides: Any
    ) -> dict[str, Ledger]:
        """Open a ledger in each region until the table closes, with `overrides` of the settings."""
        settings = self.settings.replace(**overrides)
        registry = registry or CollectorRegistry()
        return {
            region: await self._stack.enter_async_context(
                Ledger.open(settings, region=region, registry=registry)
            )
            for region in self.regions
        }

    def lose(self, region: str, *, home: str) -> None:
        """Leave a region out from now on; another one is home."""
        left = {name: store for name, store in self.stores.items() if name != region}
        self.stores.clear()
        self.stores.update({home: left[home], **left})

    def cut(self, links: Iterable[tuple[str, str]] | None = None) -> None:
        """Hold what goes over these links, from source to target; without any, over all links."""
        for source, target in permutations(self.regions, 2) if links is None else links:
            self.world.pause(source, target)

    def isolate(self, region: str) -> None:
        """Cut a region off from all others, in both directions."""
        self.cut(link for link in permutations(self.regions, 2) if region in link)

    async def heal(self) -> None:
        """Heal all links, and wait until everything has been applied everywhere."""
        self.world.heal_all()
        await self.wait_replicated()

    async def wait_replicated(self) -> None:
        """Wait until every change has been applied in every region.

        Raises:
            LocalTableError: a link is still cut, or it took too long.
        """
        await self.world.wait_replicated(REPLICATED_SECONDS_MAX)

    def units(self, kind: str) -> float:
        """Return the billing units that the stores have consumed, "read" or "write"."""
        return summed(self.registry, "ledger_consumed_units_total", kind=kind)


@asynccontextmanager
async def open_table(
    options: LabOptions,
    regions: Sequence[str],
    *,
    is_direct: bool = False,
    **settings: Any,
) -> AsyncIterator[TestTable]:
    """Start a local global table in a child process, open its stores, and stop it at the end.

    With `is_direct` clients reach the engine of the one region itself. `settings` are fields of
    `Settings`.

    Raises:
        LocalTableError: it did not start.
        SettingsError: an override breaks a rule.
    """
    registry = CollectorRegistry()
    metrics = Metrics.of(registry)
    async with AsyncExitStack() as stack:
        made = stack.enter_context(TemporaryDirectory(prefix="ledger-lab-"))
        opening = _direct(*regions) if is_direct else _spawned(options, regions)
        world = await stack.enter_async_context(opening)
        chosen = world.settings(**settings)
        if is_direct:
            await establish(chosen)  # as the local global table does where it starts
        stores = await stack.enter_async_context(open_stores(chosen, regions, metrics=metrics))
        yield TestTable(world, chosen, dict(stores), registry, Path(made), stack)


def _spawned(
    options: LabOptions, regions: Sequence[str]
) -> AbstractAsyncContextManager[LocalGlobalTable]:
    return LocalGlobalTable.spawn(
        regions=regions,
        engine=options.engine,
        lag=options.lag,
        jitter=options.jitter,
        seed=options.seed,
    )


@asynccontextmanager
async def _direct(region: str) -> AsyncIterator[LocalGlobalTable]:
    """Run the engine of one region with nothing before it: there is no replication to control."""
    async with lone_table(region, DIRECT_TABLE) as url:
        status = {
            "regions": (region,),
            "endpoints": {region: url},
            "control_url": "",
            "table": DIRECT_TABLE,
        }
        yield LocalGlobalTable(lambda _name, _body: {}, status)
