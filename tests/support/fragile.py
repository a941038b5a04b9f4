"""A local global table whose regions can be broken."""

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from support.local_worlds import World

from ledger.core.errors import LocalTableError
from ledger.local import server
from ledger.local.engines.memory.engine import MemoryEngine

WAIT_SECONDS = 20.0


class Fragile(MemoryEngine):
    """An engine whose regions can be broken, and which may not start again."""

    def __init__(self) -> None:
        super().__init__()
        self.startable = True
        self._broken: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def until_gone(self, region: str) -> str:
        """Wait until the region is broken."""
        self._loop = asyncio.get_running_loop()
        self._broken[region] = asyncio.Event()
        await self._broken[region].wait()
        return "the disk is full"

    async def restart(self, region: str) -> None:
        """Empty the region, if it may start."""
        if not self.startable:
            raise LocalTableError("the disk is still full")
        await super().restart(region)

    def break_region(self, region: str) -> None:
        """Take a region's tables away; may be called from any thread."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._break, region)

    def _break(self, region: str) -> None:
        self._regions[region] = {}
        self._broken[region].set()


def installed(monkeypatch: pytest.MonkeyPatch) -> Fragile:
    """Return the engine of the tables that a test opens from now on."""
    fragile = Fragile()
    monkeypatch.setattr(server, "_engine", lambda _name: fragile)
    return fragile


async def until(world: World, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Wait until the status is so, and return it."""
    with anyio.fail_after(WAIT_SECONDS):
        while not condition(status := world.table.status()):  # noqa: ASYNC110 (another thread)
            await anyio.sleep(0.01)
    return status
