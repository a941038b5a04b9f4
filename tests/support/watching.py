"""Deciders over one table in memory, as processes that look at the same watch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from support.ledgers import HOME, make_services, make_settings, seeded

from ledger.core.entry import entry_id, entry_item
from ledger.core.values import Entry
from ledger.core.watches import Crossing, Watch, WatchState, state_key, state_of
from ledger.reads.reader import Reader
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.settings.live import LiveSettings
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import Outcome, Put, Write
from ledger.testing.clock import ManualClock
from ledger.watches.crossings import CrossingDecider

LOW = Watch.of("low", "stock-*", below=10, rearm=20)
COUNTER = "stock-7"


class Unconditional(ForwardingStore):
    """The broken rule: a store that writes whatever the condition says."""

    async def write(self, write: Write) -> Outcome:
        """Put without the condition."""
        assert isinstance(write, Put)
        return await super().write(write._replace(condition=None))


@dataclass(slots=True)
class Place:
    """One table, its clock, and what was delivered by all processes, in order."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(instant=True))
    table: MemoryTable = field(default_factory=MemoryTable)
    delivered: list[Crossing] = field(default_factory=list)
    written: int = 0

    def store(self, region: str = HOME) -> MemoryStore:
        """Return a store of this table."""
        return MemoryStore(region, self.table)

    def change(
        self, change: int, counter: str = COUNTER, *, table: MemoryTable | None = None
    ) -> None:
        """Write an entry, as any process may."""
        self.written += 1
        one = str(entry_id(self.clock.now(), self.written))
        item = entry_item(Entry(counter, one, Decimal(change), HOME))
        (self.table if table is None else table).set((counter, one), item)

    def state(self, name: str = LOW.name, counter: str = COUNTER) -> WatchState:
        """Return the state as the table has it."""
        return state_of(self.table.get(state_key(name, counter)))

    def decider(
        self, store: Store | None = None, *, settings: LiveSettings | None = None, seed: int = 1
    ) -> CrossingDecider:
        """Return what one process decides with."""
        store, live = store or self.store(), settings or make_settings()
        services = make_services(self.clock, seed)
        reader = Reader(store, settings=live, services=services)
        return CrossingDecider(
            store,
            partial(reader.total, consistent=True),
            settings=live,
            services=services,
        )

    async def take(self, crossing: Crossing) -> None:
        """Take a crossing, as a channel."""
        self.delivered.append(crossing)

    async def look(self, decider: CrossingDecider, **options: Any) -> WatchState:
        """Let a process look at the counter once."""
        return (await decider.look(LOW, COUNTER, [self.take], **options)).state

    @property
    def numbers(self) -> list[int]:
        """The numbers of the crossings delivered."""
        return [crossing.number for crossing in self.delivered]


def made(place: Place, store: Store | None = None, **overrides: Any) -> Ledger:
    """Return a ledger at home over the place's table."""
    return Ledger(
        make_settings(**overrides),
        region=HOME,
        given=GivenConnections(store=store or place.store()),
        services=Services.of(clock=place.clock, randomness=seeded()),
    )


@asynccontextmanager
async def watching(place: Place, store: Store | None = None) -> AsyncIterator[Ledger]:
    """Open a ledger that watches low stock, by a function of the caller."""
    async with made(place, store) as ledger:
        ledger.watch(LOW.counters, below=10, rearm=20, call=place.take, name=LOW.name)
        yield ledger


async def read(ledger: Ledger, place: Place) -> Decimal:
    """Read the total, and let what follows in the background come to its end."""
    total = await ledger.total(COUNTER, max_age=0)
    await place.clock.run_pending()
    return total.value
