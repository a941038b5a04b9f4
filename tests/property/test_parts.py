"""Changes that share items, while callers give up, writers end, and answers are lost.

Whatever happens: what is there, once all is known, are the changes that were acknowledged, each
once, under the id that its caller was given.
"""

from collections.abc import Awaitable, Sequence
from decimal import Decimal
from io import StringIO

import anyio
import anyio.abc
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from support.ledgers import seeded

from compactor.job import Compactor
from ledger.commands.export import _entries, _JsonLines, counters_in
from ledger.core import amounts
from ledger.core.errors import NotSent, OutcomeUnknown, RetryHorizonPassed, StoreError
from ledger.core.values import Entry
from ledger.reads.archive.places.memory import MemoryPlace
from ledger.runtime.tasks import background_tasks
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Seeded
from ledger.store.wrappers.forwarder import READS
from ledger.testing import MemoryGlobalTable
from ledger.writes.entry_plan import Change

REGIONS = ("us-east-1", "eu-west-1")
COUNTERS = ("c1", "c2")
ROUNDS = 12
CALLS_MAX = 10
PASSES_MAX = 200
WAITS_MAX = 500
URL = "file:///archive"
Named = tuple[str, str, Decimal]


def named(entry: Entry) -> Named:
    """Return what makes a change: its counter, its id and its amount."""
    return entry.counter, entry.id, entry.change


class SmallWorld:
    """Two regions with an archive, and a ledger of each, whose writes fail and which may end.

    `there` are amounts that were acknowledged, `nowhere` those that were refused; `given` are the
    entries of callers. Of any other amount nobody knows.
    """

    def __init__(self, seed: int) -> None:
        self.random = seeded(seed)
        self.place = MemoryPlace(URL)
        self.table = MemoryGlobalTable(
            REGIONS,
            seed=seed,
            page_items_max=3,
            combine=["c*"],
            archive=[URL],
            writer={"in_flight": self.random.choice([1, 8])},
            compactor={"fold_min": 1, "scan_every": 0},
        )
        self.are_faulty = True
        self.stores = {region: self._failing(region, seed + 1) for region in REGIONS}
        self.asked: set[Decimal] = set()
        self.there: set[Decimal] = set()
        self.nowhere: set[Decimal] = set()
        self.given: list[Entry] = []
        self.unknown: list[list[Entry]] = []
        self.calls = 0

    def _failing(self, region: str, seed: int) -> FaultyStore:
        drawn = Seeded(seed, share=0.5)

        def decide(call: FaultCall) -> Fault | None:
            return drawn(call) if self.are_faulty and call.operation not in READS else None

        return FaultyStore(self.table.store(region), decide, clock=self.table.clock)

    async def hold(
        self,
        region: str,
        *,
        task_status: anyio.abc.TaskStatus[tuple[Ledger, anyio.Event, anyio.CancelScope]],
    ) -> None:
        """Open a ledger of a region; it ends at an event, or is killed by a scope."""
        ledger = Ledger(
            self.table.settings,
            region=region,
            services=self.table._services(),
            given=GivenConnections(
                store=self.stores[region],
                stream=self.table._world.streams[region],
                contract=True,
                archive=[self.place],
            ),
        )
        end = anyio.Event()
        with anyio.CancelScope() as scope:
            async with ledger:
                task_status.started((ledger, end, scope))
                await end.wait()

    def amount(self) -> Decimal:
        """Return an amount that no other change has."""
        amount = Decimal(len(self.asked) + 1).scaleb(-2) * self.random.choice([1, -1])
        self.asked.add(amount)
        return amount

    async def record(self, ledger: Ledger, patience: float | None) -> None:
        """Record a change; its caller gives up after so many seconds of the clock."""
        amount = self.amount()
        call = ledger.record(self.random.choice(COUNTERS), amount)
        if patience is None:
            await self.ask([amount], call)
            return
        async with background_tasks() as tasks:

            async def call_and_end() -> None:
                await self.ask([amount], call)
                tasks.cancel_scope.cancel()

            tasks.start_soon(call_and_end)
            await self.table.clock.sleep(patience)

    async def record_many(self, ledger: Ledger) -> None:
        """Record a list of changes without keys."""
        listed = [Change(self.random.choice(COUNTERS), self.amount()) for _ in range(6)]
        await self.ask([Decimal(one.change) for one in listed], ledger.record_many(listed))

    async def retry(self, ledger: Ledger) -> None:
        """Repeat one call of those whose outcome is unknown."""
        entries = self.unknown.pop(self.random.randrange(len(self.unknown)))
        await self.ask([entry.change for entry in entries], ledger.retry(entries), entries)

    async def ask(
        self,
        asked: Sequence[Decimal],
        call: Awaitable[Entry | list[Entry]],
        again: list[Entry] | None = None,
    ) -> None:
        """Make a call, and note what its caller knows then."""
        self.calls += 1
        try:
            found = await call
        except OutcomeUnknown as error:
            self.unknown.append(list(error.entries))
            self.there.update({*asked} - {entry.change for entry in error.entries})
        except RetryHorizonPassed:
            return
        except (StoreError, NotSent):
            if again is not None:
                self.unknown.append(again)
            elif len(asked) == 1:
                self.nowhere.update(asked)
        else:
            entries = [found] if isinstance(found, Entry) else found
            assert [entry.change for entry in entries] == list(asked)
            self.given += entries
            self.there.update(asked)
        finally:
            self.calls -= 1

    async def land(self) -> None:
        """Let the requests land that are still on their way."""
        for store in self.stores.values():
            while store.in_flight:
                await store.land()

    async def end_calls(self) -> None:
        """Let time pass until every call has an outcome."""
        for _ in range(WAITS_MAX):
            if not self.calls:
                return
            await self.table.pass_time(1)
        raise AssertionError(f"{self.calls} calls do not end")

    async def merge(self) -> None:
        """Replicate and merge everything by the compactor."""
        await self.table.settle()
        for number in range(PASSES_MAX):
            job = Compactor(
                self.table.settings,
                stores=dict(self.table._world.replicas),
                services=self.table._services(),
                owner=f"one-{number}",
                contract=True,
                archive=[self.place],
            )
            report = await self.table._while_time_passes(job.run_once)
            assert report.is_success, report.sentence()
            self.table.replicate()
            if report.is_idle:
                return
        raise AssertionError(f"merging did not end in {PASSES_MAX} passes")

    def check(self, entries: Sequence[Entry]) -> None:
        """Check that these are all changes, each once, and each as its caller was given it."""
        found = [named(entry) for entry in entries]
        changes = {change for _, _, change in found}
        assert len(changes) == len(found)
        assert len({(counter, name) for counter, name, _ in found}) == len(found)
        assert self.there <= changes <= self.asked - self.nowhere
        assert {named(entry) for entry in self.given} <= {*found}


async def history(ledger: Ledger) -> list[Entry]:
    """Return the histories of all counters; each after any of its changes is the rest of it."""
    entries = []
    for counter in COUNTERS:
        listed = [entry async for entry in ledger.history(counter)]
        assert [entry.id for entry in listed] == sorted(entry.id for entry in listed)
        for place in range(0, len(listed), 5):
            rest = ledger.history(counter, after=listed[place].id)
            assert [entry.id async for entry in rest] == [one.id for one in listed[place + 1 :]]
        total = await ledger.total(counter)
        assert total.value == amounts.total(entry.change for entry in listed)
        entries += listed
    return entries


async def feed(ledger: Ledger) -> list[Entry]:
    """Return all entries that reached the ledger's region."""
    entries, cursor, quiet = list[Entry](), None, 0
    while quiet < len(COUNTERS) + 2:
        page = await ledger.feed_page("c", after=cursor, limit=7)
        entries += page.entries
        cursor, quiet = page.cursor, 0 if page.entries or page.more else quiet + 1
    return entries


async def export(ledger: Ledger) -> list[Entry]:
    """Return what the command exports, read from its lines."""
    text = StringIO()
    lines = _JsonLines(text)
    async for entry in _entries(ledger, await counters_in(ledger.store)):
        lines.take(entry)
    lines.end()
    rows = map(orjson.loads, text.getvalue().splitlines())
    return [Entry(one["counter"], one["id"], Decimal(one["change"])) for one in rows]


class OpenLedgers:
    """The ledger of each region that is open, and what ends it."""

    def __init__(self, world: SmallWorld, tasks: anyio.abc.TaskGroup) -> None:
        self._world = world
        self._tasks = tasks
        self._open: dict[str, tuple[Ledger, anyio.Event, anyio.CancelScope]] = {}

    async def start(self, region: str) -> None:
        """Open the next ledger of a region."""
        self._open[region] = await self._tasks.start(self._world.hold, region)

    def of(self, region: str) -> Ledger:
        """Return the ledger of a region."""
        return self._open[region][0]

    async def end(self, region: str) -> None:
        """Close a ledger or kill its task, whatever its calls wait for; open the next."""
        _, end, scope = self._open[region]
        if self._world.random.random() < 0.5:
            end.set()
        else:
            scope.cancel()
        await self.start(region)


async def do_round(world: SmallWorld, ledgers: OpenLedgers, tasks: anyio.abc.TaskGroup) -> None:
    """Make some calls in one region, together or in quick succession, and something else."""
    random, region = world.random, world.random.choice(REGIONS)
    for _ in range(random.randrange(CALLS_MAX)):
        patience = random.choice([None, None, None, 0.01, 0.03, 2.0])
        tasks.start_soon(world.record, ledgers.of(region), patience)
        await world.table.pass_time(random.choice([0, 0, 0.01, 0.05]))
    match random.randrange(6):
        case 0:
            tasks.start_soon(world.record_many, ledgers.of(region))
        case 1 | 2 if world.unknown:
            tasks.start_soon(world.retry, ledgers.of(random.choice(REGIONS)))
        case 3:
            await ledgers.end(region)
        case 4:
            await world.land()
        case _:
            world.table.replicate(random.randrange(9))
    await world.table.pass_time(random.choice([0, 0.02, 0.2, 5]))


async def live(seed: int) -> None:
    """Let a small world live, and check what is there at its end."""
    world = SmallWorld(seed)
    async with background_tasks() as tasks:
        ledgers = OpenLedgers(world, tasks)
        for region in REGIONS:
            await ledgers.start(region)
        for _ in range(ROUNDS):
            await do_round(world, ledgers, tasks)
        world.are_faulty = False
        await world.end_calls()
        while world.unknown:
            await world.retry(ledgers.of(world.random.choice(REGIONS)))
        await world.land()
        world.table.replicate()
        for region in REGIONS:
            world.check(await history(ledgers.of(region)))
        await world.merge()
        for region in REGIONS:
            for read in (history, feed, export):
                world.check(await read(ledgers.of(region)))


@settings(deadline=None)
@given(st.integers(0, 2**32))
async def test_the_changes_that_are_there_are_those_that_were_acknowledged(seed: int) -> None:
    """In every region's history, feed, archive and export, each once, under its caller's id."""
    await live(seed)
