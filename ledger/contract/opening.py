"""Opening a table in all its regions, under its contract."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random

from ledger.contract.view import ContractView
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.store.opening import open_store, open_stores
from ledger.store.port import Store


@dataclass(frozen=True, slots=True)
class OpenTable:
    """The stores of all regions that the contract names, and the view of it."""

    stores: Mapping[str, Store]
    view: ContractView


@asynccontextmanager
async def open_table(
    settings: Settings,
    *,
    clock: Clock,
    metrics: Metrics | None = None,
    randomness: Random | None = None,
) -> AsyncIterator[OpenTable]:
    """Read the contract in the settings' home region, and open every region that it names.

    Raises:
        ContractMissing, ContractDamaged, UpgradeNeeded: it cannot be read by this release.
        ContractConflict: the settings say otherwise, or not where a region is reached.
        StoreError: DynamoDB could not do it.
    """
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(
            open_store(settings, settings.home, metrics=metrics, clock=clock, randomness=randomness)
        )
        view = ContractView(first, settings, clock=clock)
        await view.open()
        others = [region for region in view.current.regions if region != settings.home]
        opened = await stack.enter_async_context(
            open_stores(view.current, others, metrics=metrics, clock=clock, randomness=randomness)
        )
        yield OpenTable({settings.home: first, **opened}, view)
