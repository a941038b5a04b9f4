"""Opening a table in all its regions, under its contract."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from ledger.contract.view import ContractView
from ledger.core.errors import ContractConflict, ContractMissing, LedgerError, StoreError
from ledger.runtime.clock import Clock
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.connections import open_store, open_stores
from ledger.store.port import Store

OpenOthers = Callable[[], AbstractAsyncContextManager[Mapping[str, Store]]]
"""Opens the stores of the other regions when a part needs them."""


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
    """Read the contract in the first region that shows it, and open every region that it names.

    The settings' home comes first: it may be lost, or have left the table, before the settings say
    so.

    Raises:
        ContractMissing, ContractDamaged, UpgradeNeeded: it cannot be read by this release.
        ContractConflict: the settings differ from it, or do not say how a region is reached.
        StoreError: DynamoDB could not do it.
    """
    async with AsyncExitStack() as stack:
        opening = partial(open_store, settings, metrics=metrics, clock=clock, randomness=randomness)
        first, view = await _first_to_show(settings, opening, stack, clock=clock)
        others = open_others(
            view, first.region, metrics=metrics, clock=clock, randomness=randomness
        )
        opened = await stack.enter_async_context(others)
        yield OpenTable({first.region: first, **opened}, view)


async def _first_to_show(
    settings: Settings,
    opening: Callable[[str], AbstractAsyncContextManager[Store]],
    stack: AsyncExitStack,
    *,
    clock: Clock,
) -> tuple[Store, ContractView]:
    """Return the first region that shows a contract which names it, and the view of it.

    Raises:
        LedgerError: no region does; with the reason of the first.
    """
    failures: list[LedgerError] = []
    for region in settings.home_first:
        try:
            async with AsyncExitStack() as trying:
                store = await trying.enter_async_context(opening(region))
                view = ContractView(store, settings, clock=clock)
                await view.open()
                stack.push_async_exit(trying.pop_all())
                return store, view
        except (StoreError, ContractMissing, ContractConflict) as error:
            failures.append(error)
    raise failures[0]


@asynccontextmanager
async def open_others(
    live: LiveSettings,
    region: str,
    *,
    clock: Clock,
    metrics: Metrics | None = None,
    randomness: Random | None = None,
) -> AsyncIterator[Mapping[str, Store]]:
    """Open every region, except this one, that the settings name now.

    Raises:
        AccessDenied: a profile does not exist.
    """
    settings = live.current
    others = [name for name in settings.regions if name != region]
    opening = open_stores(settings, others, metrics=metrics, clock=clock, randomness=randomness)
    async with opening as stores:
        yield stores
