"""A world whose merged entries are archived in memory, and ledgers on its virtual clock."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

from support.compacting import SETTLE, Instance, World, compactor_settings
from support.ledgers import HOME, WEST

from compactor.archive_object import ArchiveObject
from ledger.core.ids import EntryId
from ledger.core.values import NetChange
from ledger.reads.archive import objects
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.reads.archive.segments import of_lines, to_lines
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings import Settings

URL = "file:///archive"


def archived_settings(**overrides: Any) -> Settings:
    """Return the compactor's settings of tests, with an archive."""
    return compactor_settings(**overrides).replace(archive=(URL,))


def fold_of(change: Decimal, count: int) -> NetChange:
    """Return a fold with this sum of so many entries."""
    return NetChange(change, count, (), "v", "", HOME)


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
        replicas = self.world.regions.replicas
        async with Ledger(
            self.settings,
            region=region,
            given=GivenConnections(
                store=replicas[region],
                others={name: store for name, store in replicas.items() if name != region},
                archive=[self.place],
            ),
            services=Services.of(clock=self.world.clock, randomness=self.world.random),
        ) as ledger:
            yield ledger

    def replicate(self) -> None:
        """Let everything that was written arrive in the other regions."""
        self.world.regions.deliver()

    async def merge(self, passes: int = 3, by: Instance | None = None) -> None:
        """Let what was written settle, and merge it."""
        self.world.regions.deliver()
        await self.world.clock.advance(SETTLE + 1)
        for _ in range(passes):
            assert (await self.world.run_once(by or self.one)).is_success


def raced(kept: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the object of a fold that lost its race against one of these, by its name."""
    name, data = min(kept.items())
    one = objects.whole_index(data, name)[0]
    packed = objects.lines_of(data[one.offset : one.offset + one.length], name)
    lost = replace(of_lines(packed, name), version="0" * 32)
    made = objects.id_of(name)
    assert made is not None
    other = ArchiveObject(EntryId(made.microseconds, 7))
    member = objects.member(to_lines(lost))
    place = other.add(member)
    other.index.append(
        replace(
            one,
            chain=lost.chain().hex(),
            offset=place.offset,
            length=place.length,
            sha256=objects.sha256_of(member),
        )
    )
    return {other.name: other.data()}
