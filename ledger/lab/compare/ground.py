"""Where methods are compared: stores of several regions that can be cut off from each other."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import permutations

from prometheus_client import CollectorRegistry

from ledger.lab.compare.report import Options
from ledger.local import LocalGlobalTable
from ledger.local.front.faults import Fault
from ledger.runtime.clock import Clock, SystemClock
from ledger.runtime.metrics import Metrics
from ledger.store.opening import open_store
from ledger.store.port import Store

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1", "us-west-2", "sa-east-1")
LAG_SECONDS, JITTER_SECONDS = 0.02, 0.05


@dataclass(frozen=True, slots=True)
class Ground:
    """A global table: metered stores by region, the first one home; `registry` has their meters.

    `cut` holds everything between all regions; `heal` lets it through and waits until it has
    arrived.
    """

    stores: Mapping[str, Store]
    clock: Clock
    registry: CollectorRegistry
    cut: Callable[[], None]
    heal: Callable[[], Awaitable[None]]

    @property
    def home(self) -> str:
        """The first region."""
        return next(iter(self.stores))


@asynccontextmanager
async def open_local(options: Options) -> AsyncIterator[Ground]:
    """Run a local global table in a child process, which ends with the block.

    Raises:
        LocalTableError: it does not start.
    """
    regions, registry, clock = REGIONS[: options.regions], CollectorRegistry(), SystemClock()
    metrics = Metrics.of(registry)
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(
            LocalGlobalTable.spawn(
                regions=regions,
                engine=options.engine,
                lag=LAG_SECONDS,
                jitter=JITTER_SECONDS,
                seed=options.seed,
            )
        )
        settings = world.settings()
        stores = {
            region: await stack.enter_async_context(open_store(settings, region, metrics=metrics))
            for region in regions
        }
        if options.conflicts:
            world.faults(Fault.CONFLICT, probability=options.conflicts)

        def cut() -> None:
            for source, target in permutations(regions, 2):
                world.pause(source, target)

        async def heal() -> None:
            world.heal_all()
            await world.wait_replicated()

        yield Ground(stores, clock, registry, cut, heal)
