"""Shards grow in the midst of writing, reading and merging, on the local global table.

The number is a value of the table's contract. Some processes begin under it, the others learn of it
while they run. Every read of the former is judged change by change; at the end the compactor merges
each shard.
"""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest
from support.engines import DYNOXIDE, REGIONS
from support.worlds import counted_items, is_net, merge_all

from compactor import Compactor
from ledger import Ledger
from ledger.core import keys
from ledger.demo.harness.digit_tags import CHANGES_MAX
from ledger.demo.harness.probes import Probe
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.connections import open_stores
from ledger.writes.entry_plan import Change

pytestmark = pytest.mark.slow

TIMES = {
    "settle": 4.0,
    "retry_horizon": 3.0,
    "observation_delay": 0.6,
    "read_deadline": 0.5,
    "contract_life": 4.0,
}
GROWS_AFTER_SECONDS = 3.0
PROBES = 2
FEW, MANY = 2, 6


class Growing:
    """Ledgers of every region, begun before and after the announcement, and probes to write."""

    def __init__(
        self, world: LocalGlobalTable, since: datetime, times: Mapping[str, float]
    ) -> None:
        shards = [{"count": FEW}, {"count": MANY, "since": since}]
        self.since = since
        self._grow = partial(
            world.settings,
            **times,
            compactor={"fold_min": 1, "prune_min": 1},
            shards={"hot-*": shards},
        )
        before = world.settings(**times, shards={"hot-*": FEW})
        self.old = Settings(table=before.table, regions=before.regions)
        self.new = before
        self.probes = [Probe(f"hot-{number}") for number in range(PROBES)]
        self.wrong: list[str] = []
        self.reads: Counter[str] = Counter()
        self.by_old: dict[str, Ledger] = {}
        self.by_new: dict[str, Ledger] = {}

    async def write(self) -> None:
        """Write every change by a process of either kind, and repeat it by one of the other.

        Half of them are made before the shards grow, unless the machine is too busy for that.
        """
        for number in range(CHANGES_MAX):
            if number == CHANGES_MAX // 2:
                await self.grown()
            region = REGIONS[number % len(REGIONS)]
            pair = self.by_old[region], self.by_new[region]
            async with anyio.create_task_group() as tasks:
                for place, probe in enumerate(self.probes):
                    first, second = pair if (number + place) % 2 else pair[::-1]
                    tasks.start_soon(self._write_one, probe, region, first, second)

    def announce(self) -> None:
        """Let the contract hold the larger number from its date on."""
        self.new = self._grow()

    async def grown(self) -> None:
        """Wait until the shards have grown."""
        await anyio.sleep(max(0.0, (self.since - SystemClock().now()).total_seconds()))

    async def _write_one(self, probe: Probe, region: str, first: Ledger, second: Ledger) -> None:
        following = probe.next_change()
        assert following is not None
        number, change = following
        at = SystemClock().now()
        for ledger in (first, second):
            await ledger.record(probe.counter, change, key=f"change-{number}", at=at)
        probe.acknowledge(region, number)

    async def read_on(self, region: str) -> None:
        """Read and judge every probe in turn until cancelled."""
        while True:
            for probe in self.probes:
                read = probe.begin_read(region)
                total = await self.by_new[region].total(probe.counter, max_age=0)
                self.reads[region] += 1
                complaint = probe.end_read(read, total.value)
                if complaint is not None:
                    self.wrong.append(complaint)

    async def shards_shown(self, *, nets: bool) -> Mapping[int, int]:
        """Return how many entries, or nets, each shard number holds in the home region."""
        async with open_stores(self.new) as stores:
            items = await counted_items(stores[REGIONS[0]])
        places = [keys.counter_of(item["pk"]["S"]) for item in items if is_net(item) == nets]
        return Counter(place[1] for place in places if place)


@asynccontextmanager
async def growing(
    engine: str, times: Mapping[str, float] = TIMES
) -> AsyncIterator[tuple[Growing, LocalGlobalTable]]:
    """Open a world in which the shards grow in a moment."""
    starting = LocalGlobalTable.start(regions=REGIONS, lag=0.05, jitter=0.2, engine=engine)
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(starting)
        since = SystemClock().now() + timedelta(seconds=GROWS_AFTER_SECONDS)
        one = Growing(world, since, times)

        async def open_all(ledgers: dict[str, Ledger], settings: Settings) -> None:
            for region in REGIONS:
                ledger = Ledger.open(settings, region=region)
                ledgers[region] = await stack.enter_async_context(ledger)

        await open_all(one.by_old, one.old)
        await anyio.to_thread.run_sync(one.announce)
        await open_all(one.by_new, one.new)
        yield one, world


async def lived(one: Growing, world: LocalGlobalTable) -> None:
    """Write and read while the shards grow, until everything is everywhere."""
    async with anyio.create_task_group() as tasks:
        for region in REGIONS:
            tasks.start_soon(one.read_on, region)
        await one.write()
        await world.wait_replicated()
        tasks.cancel_scope.cancel()


@pytest.mark.slow  # in CI the simulated worlds grow shards
@pytest.mark.parametrize("engine", ["memory", DYNOXIDE])
async def test_totals_stay_exact_while_shards_grow(engine: str) -> None:
    """Every read in every region is right, the new shards are used, and each is merged."""
    async with growing(engine) as (one, world):
        await lived(one, world)
        assert one.wrong == []
        assert all(one.reads[region] >= PROBES for region in REGIONS)
        used = await one.shards_shown(nets=False)
        assert set(used) == set(range(MANY))
        assert sum(used.values()) == PROBES * CHANGES_MAX
        assert await merge_all(world, Compactor(one.new)) >= MANY
        nets = await one.shards_shown(nets=True)
        assert set(nets) == set(range(MANY))
        for region in REGIONS:
            for probe in one.probes:
                total = await one.by_new[region].total(probe.counter, max_age=0)
                assert (total.value, total.entries) == (probe.expected_total(), 0)
                assert total.merged == CHANGES_MAX


@contextmanager
def by_now(clock: SystemClock) -> Iterator[None]:
    """Let shards grow by the time of writing, not by the entry's own."""
    shards_now = Settings.shards_now

    def grown(self: Settings, counter: str, _at: datetime) -> int:
        return shards_now(self, counter, clock.now())

    patch: Any = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(Settings, "shards_at", grown)
        yield


@pytest.mark.parametrize("mutant", [False, True], ids=["by the entry's date", "by now"])
async def test_a_repeat_after_the_growth_counts_once(*, mutant: bool) -> None:
    """Made before the growth, repeated after it by a process that began later: counted once.

    Were shards to grow by the time of writing, most repeats would lie in another shard as well.
    """
    patient = {**TIMES, "settle": 40.0, "retry_horizon": 30.0}  # on a busy machine, too
    async with growing("memory", patient) as (one, _):
        before = one.since - timedelta(milliseconds=1)
        made, region = min(before, SystemClock().now()), REGIONS[1]

        async def write(ledger: Ledger) -> None:
            calls = [
                Change("hot-0", Decimal(1), key=f"key-{number}", at=made) for number in range(12)
            ]
            await ledger.record_many(calls)

        await write(one.by_old[region])
        await one.grown()
        if mutant:
            with by_now(SystemClock()):
                await write(one.by_new[region])
        else:
            await write(one.by_new[region])
        total = await one.by_new[region].total("hot-0", max_age=0)
        assert (total.value > 12) if mutant else (total.value == 12)
