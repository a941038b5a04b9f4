"""Opening a table in all its regions, under its contract."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from random import Random

from ledger.contract.view import ContractView
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.opening import open_store, open_stores
from ledger.store.port import Store

OpenOthers = Callable[[], AbstractAsyncContextManager[Mapping[str, Store]]]
"""Opens the stores of the regions beside the one that a part works in, when it needs them."""


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
        opening = open_others(
            view, settings.home, metrics=metrics, clock=clock, randomness=randomness
        )
        opened = await stack.enter_async_context(opening)
        yield OpenTable({settings.home: first, **opened}, view)


@asynccontextmanager
async def open_others(
    live: LiveSettings,
    region: str,
    *,
    clock: Clock,
    metrics: Metrics | None = None,
    randomness: Random | None = None,
) -> AsyncIterator[Mapping[str, Store]]:
    """Open every region but this one of those that the settings name now.

    Raises:
        AccessDenied: a profile does not exist.
    """
    settings = live.current
    others = [name for name in settings.regions if name != region]
    opening = open_stores(settings, others, metrics=metrics, clock=clock, randomness=randomness)
    async with opening as stores:
        yield stores
