"""Reads in every region while merging goes on, under lag and disorder: the usual merge and ours.

Probes (`ledger.demo.harness.probes`) tell of each single read whether it is right. The usual merge,
one transaction that deletes entries and puts their net, is the mutant: it shows that wrong
totals would be noticed here.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from lab.bench import usual_merge
from support.engines import DYNOXIDE, REGIONS
from support.worlds import merge_all, open_ledgers

from compactor import Compactor
from ledger import Ledger, OutcomeUnknown
from ledger.demo.harness.digit_tags import CHANGES_MAX
from ledger.demo.harness.probes import Probe
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.connections import open_stores

HOME, *AWAY = REGIONS
PROBES = 10
NAIVE_FOLD = 9
LAG, JITTER = 0.05, 0.3
TIMES = {"settle": 4.0, "retry_horizon": 1.5, "observation_delay": 1.0, "read_deadline": 0.9}
READS_MIN = 50

Merge = Callable[[LocalGlobalTable, Settings, Sequence[Probe]], Awaitable[None]]


@dataclass
class Watch:
    """What readers saw: reads, and wrong ones, by region."""

    reads: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: str = ""

    def judged(self, region: str, complaint: str | None) -> None:
        """Count a read."""
        self.reads[region] += 1
        if complaint is not None:
            self.wrong[region] += 1
            self.first = self.first or complaint

    def sentence(self) -> str:
        """Say it in one line."""
        away, wrong = sum(self.reads[one] for one in AWAY), sum(self.wrong[one] for one in AWAY)
        return (
            f"away from home {wrong} of {away} reads wrong ({wrong / away:.1%}),"
            f" at home {self.wrong[HOME]} of {self.reads[HOME]}"
        )


async def write_probes(ledgers: dict[str, Ledger]) -> list[Probe]:
    """Write probes full, each from all regions in turn."""
    probes = [Probe(f"probe-{number}") for number in range(PROBES)]
    for probe in probes:
        for number in range(CHANGES_MAX):
            assert probe.next_change() is not None
            for region in REGIONS:  # nothing is read before all has replicated
                probe.acknowledge(region, number)
    for place, region in enumerate(REGIONS):
        changes = [
            (probe.counter, 10**number)
            for probe in probes
            for number in range(place, CHANGES_MAX, len(REGIONS))
        ]
        try:
            await ledgers[region].record_many(changes)
        except OutcomeUnknown as error:  # a busy machine did not answer in time
            await ledgers[region].retry(error.entries)
    return probes


async def read_on(watch: Watch, ledger: Ledger, probes: Sequence[Probe]) -> None:
    """Read and judge every probe in turn until cancelled; all of each must always be counted."""
    while True:
        for probe in probes:
            read = probe.begin_read(ledger.region)
            total = await ledger.total(probe.counter, max_age=0)
            watch.judged(ledger.region, probe.end_read(read, total.value))


async def watch_merge(merge: Merge, engine: str) -> Watch:
    """Write, replicate, then read in all regions while merging goes on until all is merged."""
    starting = LocalGlobalTable.start(regions=REGIONS, lag=LAG, jitter=JITTER, engine=engine)
    async with starting as world:
        settings = world.settings(**TIMES, compactor={"fold_min": 1})
        async with open_ledgers(settings) as ledgers:
            probes = await write_probes(ledgers)
            await world.wait_replicated()
            watch = Watch()
            async with anyio.create_task_group() as tasks:
                for ledger in ledgers.values():
                    tasks.start_soon(read_on, watch, ledger, probes)
                await merge(world, settings, probes)
                tasks.cancel_scope.cancel()
            for ledger in ledgers.values():
                for probe in probes:
                    total = await ledger.total(probe.counter, max_age=0)
                    assert (total.value, total.entries) == (probe.expected_total(), 0)
    return watch


async def usual(world: LocalGlobalTable, settings: Settings, probes: Sequence[Probe]) -> None:
    """Merge as usually described, a few entries of each counter at a time."""
    async with open_stores(settings) as stores:
        merge = partial(
            usual_merge.merge_once, stores[HOME], settle=0, most=NAIVE_FOLD, clock=SystemClock()
        )
        for _ in range(CHANGES_MAX // NAIVE_FOLD):
            for probe in probes:
                assert await merge(probe.counter) == NAIVE_FOLD
            await world.wait_replicated()


async def ours(world: LocalGlobalTable, settings: Settings, probes: Sequence[Probe]) -> None:
    """Merge with the compactor, down to one net item for each counter."""
    await anyio.sleep(settings.settle)
    assert await merge_all(world, Compactor(settings)) >= len(probes)


@pytest.mark.parametrize("engine", [DYNOXIDE, pytest.param("memory", marks=pytest.mark.slow)])
async def test_the_usual_merge_shows_wrong_totals(
    engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Deletes and net in one transaction: right at home, wrong in other regions for a while."""
    watch = await watch_merge(usual, engine)
    with capsys.disabled():
        print(f"\n  {engine}, usual merge: {watch.sentence()}; first: {watch.first}")
    assert watch.wrong[HOME] == 0
    assert all(watch.wrong[region] > 0 for region in AWAY)


@pytest.mark.parametrize("engine", [DYNOXIDE, pytest.param("memory", marks=pytest.mark.slow)])
async def test_our_merge_shows_none(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The compactor, under the same lag and disorder: every read in every region is right."""
    watch = await watch_merge(ours, engine)
    with capsys.disabled():
        print(f"\n  {engine}, compactor: {watch.sentence()}")
    assert not watch.wrong
    assert all(watch.reads[region] >= READS_MIN for region in REGIONS)
