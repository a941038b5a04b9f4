"""Over real connections: opened and closed by different tasks, and inherited by a fork."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
import pytest
from support.ledgers import AWAY, HOME
from support.pipelines import FIELDS
from support.tables import trades

from ledger import Ledger, LedgerError, Table, sync
from ledger.local import LocalGlobalTable
from ledger.primitives.leases import LeaseGrant

Opened = TypeVar("Opened")


@asynccontextmanager
async def by_tasks(opened: AbstractAsyncContextManager[Opened]) -> AsyncIterator[Opened]:
    """Enter a context in one task, and leave it in another."""

    async def enter() -> Opened:
        return await opened.__aenter__()

    async def leave() -> None:
        await opened.__aexit__(None, None, None)

    entered = await asyncio.create_task(enter())
    try:
        yield entered
    finally:
        await asyncio.create_task(leave())


def local_table(*regions: str) -> AbstractAsyncContextManager[LocalGlobalTable]:
    """Return a local global table, by default of one region, to be opened."""
    return LocalGlobalTable.start(regions=regions or [HOME], replica_seconds=0.0)


@pytest.mark.parametrize("transport", ["lean", "aiobotocore"])
@pytest.mark.slow
async def test_connections_are_opened_and_closed_by_different_tasks(transport: str) -> None:
    """Of the local table as of the ledger, whichever the transport."""
    async with by_tasks(local_table()) as world:
        ledger = Ledger.open(world.settings(transport=transport))
        async with by_tasks(ledger):
            await ledger.record("c", 1)
        async with by_tasks(ledger):
            assert (await ledger.total("c", max_age=0)).value == 1


@pytest.mark.slow
async def test_a_pipeline_and_a_lease_are_opened_and_closed_by_different_tasks(
    tmp_path: Path,
) -> None:
    """With connections to each home of its records, and heartbeats from the loop and a thread."""
    homes = {"field": "TradeID", "regions": {"a*": AWAY, "*": HOME}}
    pipeline = {"fields": FIELDS, "categories": ["total"], "home": homes}
    async with by_tasks(local_table(HOME, AWAY)) as world:
        settings = world.settings(transport="lean", pipeline=pipeline)
        async with by_tasks(Table.open(settings)) as table:
            opening = table.pipeline("lane", trades(tmp_path), dead_letters=tmp_path / "dead.jsonl")
            async with by_tasks(opening) as lane:
                await lane.run()
            for in_thread in (False, True):
                async with by_tasks(table.lease("job", in_thread=in_thread).held()) as grant:
                    assert isinstance(grant, LeaseGrant)
            await world.wait_replicated()
            assert (await table.ledger.total("total", max_age=0)).value == Decimal("8.5")


def refused_in_a_fork(*calls: Callable[[], object]) -> bool:
    """Return whether each of these calls is refused in a forked child, which then ends."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    refused = 0
    for call in calls:
        try:
            call()
        except LedgerError:
            refused += 1
    os._exit(0 if refused == len(calls) else 1)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_fork_leaves_the_connections_to_its_parent() -> None:
    """What is open is refused in the child, and goes on in the parent over the same connections."""
    async with local_table() as world:
        ledger = sync.Ledger.open(world.settings(transport="lean"))
        await anyio.to_thread.run_sync(ledger.__enter__)
        await anyio.to_thread.run_sync(ledger.record, "c", 1)
        assert refused_in_a_fork(lambda: ledger.record("c", 1), world.status)
        await anyio.to_thread.run_sync(ledger.record, "c", 1)
        total = await anyio.to_thread.run_sync(ledger.total, "c")
        await anyio.to_thread.run_sync(ledger.close)
    assert total.value == 2
