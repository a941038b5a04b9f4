"""What tests on the local global table share: ledgers and stores of all regions, and merging."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from typing import Any

from compactor import Compactor
from ledger import Ledger
from ledger.core import keys
from ledger.core.entry import Item
from ledger.demo.harness.census import take_census
from ledger.local import LocalGlobalTable
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Scan

PASSES_MAX = 60
PAGES_MAX = 1000
SHORT_TERMS: Mapping[str, Any] = {
    "settle": 3.0,
    "retry_horizon": 1.2,
    "observation_delay": 0.5,
    "read_deadline": 0.4,
    "compactor": {"fold_min": 1, "lease": 20.0, "heartbeat": 1.0},
}
"""With them what is written is merged within seconds."""


@asynccontextmanager
async def open_ledgers(settings: Settings) -> AsyncIterator[dict[str, Ledger]]:
    """Open a ledger in every region."""
    async with AsyncExitStack() as stack:
        yield {
            region: await stack.enter_async_context(Ledger.open(settings, region=region))
            for region in settings.regions
        }


def cut(world: LocalGlobalTable, one: str, other: str) -> None:
    """Hold what goes between two regions, in both directions."""
    world.pause(one, other)
    world.pause(other, one)


async def totals(ledgers: Mapping[str, Ledger], counter: str) -> dict[str, Decimal]:
    """Read a counter's total in every region, now."""
    return {
        region: (await ledger.total(counter, max_age=0)).value for region, ledger in ledgers.items()
    }


async def merge_all(world: LocalGlobalTable, compactor: Compactor) -> int:
    """Run passes until one finds nothing to do and nothing waits to settle; returns the folds."""
    folds = 0
    for _ in range(PASSES_MAX):
        report = await compactor.run_once()
        assert report.is_success, report.sentence()
        folds += report.folds
        await world.wait_replicated()
        if report.is_idle and not await entries_left(compactor.settings):
            return folds
    raise AssertionError(f"still merging after {PASSES_MAX} passes")


async def entries_left(settings: Settings) -> int:
    """Count the entries that the home region shows."""
    async with open_store(settings, settings.home) as store:
        return (await take_census(store)).entries.total()


async def counted_items(store: Store) -> list[Item]:
    """Return keys of every entry and net change that a region shows."""
    found: list[Item] = []
    scan = Scan(attributes=("pk", "sk"))
    for _ in range(PAGES_MAX):
        page = await store.scan(scan)
        found += [item for item in page.items if keys.counter_of(item["pk"]["S"]) is not None]
        if page.after is None:
            return found
        scan = scan.next(page)
    raise AssertionError(f"the scan does not end after {PAGES_MAX} pages")


def is_net(item: Item) -> bool:
    """Tell a net change from an entry."""
    return str(item["sk"]["S"]).startswith(keys.NET_PREFIX)
