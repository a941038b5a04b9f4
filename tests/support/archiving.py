"""A world whose merged entries are archived in memory, and ledgers on its virtual clock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from support.compacting import SETTLE, Instance, World, compactor_settings
from support.ledgers import WEST

from ledger.archive.places.memory import MemoryPlace
from ledger.ledger import Ledger
from ledger.settings import Settings

URL = "file:///archive"


def archived_settings(**overrides: Any) -> Settings:
    """Return the compactor's settings of tests, with an archive."""
    return compactor_settings(**overrides).replace(archive=(URL,))


class ArchivedWorld:
    """A world with an archive; `settings` are of ledgers and of the compactor."""

    def __init__(self, *, seed: int = 1, **settings: Any) -> None:
        self.world = World(seed=seed)
        self.place = MemoryPlace(URL)
        self.settings = archived_settings(fold_min=1).replace(**settings)
        self.one = self.world.instance(settings=self.settings, archive=[self.place])

    @asynccontextmanager
    async def ledger(self, region: str = WEST) -> AsyncIterator[Ledger]:
        """Open a ledger on the virtual clock."""
        async with Ledger(
            self.settings,
            region=region,
            store=self.world.regions.replicas[region],
            clock=self.world.clock,
            randomness=self.world.random,
            archive=[self.place],
        ) as ledger:
            yield ledger

    async def merge(self, passes: int = 3, by: Instance | None = None) -> None:
        """Let what was written settle, and merge it."""
        self.world.regions.deliver()
        await self.world.clock.advance(SETTLE + 1)
        for _ in range(passes):
            assert (await self.world.run_once(by or self.one)).is_success
