"""Real bank changes from three regions: every account is exact before, during and after merging.

Half of the changes are written and checked before anything is merged. The other half is written
while the compactor merges behind and the home region is cut off from another for a while. What
has replicated where at such a moment is not known, so those reads are checked by probes
(`ledger.demo.harness.probes`): counters whose totals tell which changes they count.
"""

import csv
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from random import Random

import anyio
import pytest
from support.engines import ENGINES, REGIONS
from support.worlds import counted_items, cut, is_net, merge_all, open_ledgers

from compactor import Compactor, CompactorReport
from ledger import Ledger
from ledger.demo.harness.probes import Probe
from ledger.local import LocalGlobalTable
from ledger.runtime.tasks import run_all
from ledger.store.connections import open_stores

SAMPLE = Path(str(files("ledger.demo") / "bank-changes.csv"))
WHOLE = Path(__file__).parents[3] / "shared" / "data" / "bank-changes.csv"
WHOLE_ROWS, WHOLE_ACCOUNTS = 20_000, 986
CHUNK = 10
PAUSE_SECONDS = 0.1
PROBES = 6
READS_AT_ONCE = 16
CUT_FROM, CUT_TO = 0.2, 0.8
TIMES = {"settle": 8.0, "retry_horizon": 4.0, "observation_delay": 0.5, "read_deadline": 0.4}
MERGING = {"fold_min": 1, "lease": 20.0, "heartbeat": 1.0}

BankChange = tuple[str, Decimal]


@dataclass
class Bank:
    """The accounts, their exact sums worked out apart, and every read that was wrong."""

    changes: Sequence[BankChange]
    ledgers: dict[str, Ledger]
    world: LocalGlobalTable
    seed: int = 7
    reads: int = 0
    wrong: list[str] = field(default_factory=list)
    written: int = 0
    merged: anyio.Event = field(default_factory=anyio.Event)
    merged_while_writing: int = 0
    probes: list[Probe] = field(default_factory=lambda: [Probe(f"p{n}") for n in range(PROBES)])

    def __post_init__(self) -> None:
        self.more = anyio.Event()
        self.random = Random(self.seed)  # noqa: S311 (chooses what is read, nothing secret)

    def judged(self, complaint: str | None) -> None:
        """Count a read that was checked."""
        self.reads += 1
        if complaint is not None:
            self.wrong.append(complaint)

    async def write(self, changes: Sequence[BankChange], *, probing: bool) -> None:
        """Write changes from all regions at once, each its share."""
        async with anyio.create_task_group() as tasks:
            for place, region in enumerate(REGIONS):
                share = changes[place :: len(REGIONS)]
                tasks.start_soon(partial(self._write_region, region, share, probing=probing))

    async def _write_region(
        self, region: str, changes: Sequence[BankChange], *, probing: bool
    ) -> None:
        for start in range(0, len(changes), CHUNK):
            chunk = changes[start : start + CHUNK]
            await self.ledgers[region].record_many(chunk)
            self.written += len(chunk)
            self.more.set()
            if probing:
                await self._write_probe(region)
                await anyio.sleep(PAUSE_SECONDS)  # so that there is time to merge meanwhile

    async def _write_probe(self, region: str) -> None:
        probe = self.random.choice(self.probes)
        following = probe.next_change()
        if following is not None:
            number, change = following
            await self.ledgers[region].record(probe.counter, change)
            probe.acknowledge(region, number)

    async def until_written(self, changes: float) -> None:
        """Wait until this many changes are written; the test's own time limit is the bound."""
        while self.written < changes:
            self.more = anyio.Event()
            await self.more.wait()

    async def read_probes(self, region: str) -> None:
        """Read and judge probes of a region until told to stop by cancelling."""
        while True:
            probe = self.random.choice(self.probes)
            read = probe.begin_read(region)
            total = await self.ledgers[region].total(probe.counter, max_age=0)
            self.judged(probe.end_read(read, total.value))
            await anyio.sleep(0.01)

    async def read_accounts(self, region: str, truth: dict[str, Decimal]) -> None:
        """Read accounts at random until cancelled: all has replicated, so each is the truth."""
        accounts = list(truth)
        while True:
            await self.check(region, self.random.choice(accounts), truth)
            await anyio.sleep(0.005)

    async def check(self, region: str, account: str, truth: dict[str, Decimal]) -> None:
        """Read an account that has wholly replicated."""
        total = await self.ledgers[region].total(account, max_age=0)
        wrong = f"{account} in {region}: {total.value} instead of {truth[account]}"
        self.judged(wrong if total.value != truth[account] else None)

    async def check_all(self, truth: dict[str, Decimal]) -> None:
        """Read every account in every region."""
        reads = [partial(self.check, region, one, truth) for region in REGIONS for one in truth]
        await run_all(reads, at_once=READS_AT_ONCE)
        assert not self.wrong


def read_changes(path: Path) -> list[BankChange]:
    """Read account and exact amount of every line."""
    with path.open(encoding="utf-8", newline="") as file:
        return [(row["account"], Decimal(row["change"])) for row in csv.DictReader(file)]


def sums(changes: Sequence[BankChange]) -> dict[str, Decimal]:
    """Return the exact sum of each account."""
    amounts: dict[str, list[Decimal]] = defaultdict(list)
    for account, change in changes:
        amounts[account].append(change)
    return {account: sum(of, Decimal(0)) for account, of in amounts.items()}


async def partition(bank: Bank, start: int, more: int) -> None:
    """Cut the home region off from another while the middle part of the changes is written."""
    here, there = REGIONS[:2]
    await bank.until_written(start + more * CUT_FROM)
    cut(bank.world, here, there)
    await bank.until_written(start + more * CUT_TO)
    assert len(bank.world.status()["paused"]) == 2
    bank.world.heal_all()


async def run_bank(changes: Sequence[BankChange], engine: str) -> Bank:
    """Write, merge and check; see the module."""
    half = len(changes) // 2
    starting = LocalGlobalTable.spawn(regions=REGIONS, lag=0.05, jitter=0.25, seed=7, engine=engine)
    async with starting as world:
        settings = world.settings(**TIMES, compactor=MERGING)
        compactor = Compactor(settings)
        async with open_ledgers(settings) as ledgers:
            bank = Bank(changes, ledgers, world)
            await bank.write(changes[:half], probing=False)
            await world.wait_replicated()
            await bank.check_all(sums(changes[:half]))  # before merging

            await write_and_merge(bank, compactor, changes[half:])
            await world.wait_replicated()
            truth = sums(changes) | {probe.counter: probe.expected_total() for probe in bank.probes}
            await bank.check_all(truth)

            async with anyio.create_task_group() as tasks:  # during merging
                for region in REGIONS:
                    tasks.start_soon(bank.read_accounts, region, truth)
                await merge_all(world, compactor)
                tasks.cancel_scope.cancel()
            await bank.check_all(truth)  # after merging

            async with open_stores(settings) as stores:
                for store in stores.values():
                    items = await counted_items(store)
                    assert all(map(is_net, items))
                    nets = Counter(item["pk"]["S"] for item in items)
                    assert nets == Counter(truth.keys())
    return bank


async def write_and_merge(bank: Bank, compactor: Compactor, changes: Sequence[BankChange]) -> None:
    """Write with a partition that heals, reading and merging all the while."""
    stop = anyio.Event()
    most = len(changes) * 9 // 10

    def note(report: CompactorReport) -> None:
        assert not report.unreadable
        assert not report.problems
        bank.merged_while_writing += report.merged
        if report.merged:
            bank.merged.set()

    async with anyio.create_task_group() as background:
        for region in REGIONS:
            background.start_soon(bank.read_probes, region)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(compactor.run_every, 0.2, stop=stop, on_report=note))
            tasks.start_soon(partition, bank, bank.written, most)
            await bank.write(changes[:most], probing=True)
            await bank.merged.wait()  # on a fast machine all is written before anything has settled
            await bank.write(changes[most:], probing=True)
            stop.set()
        background.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine",
    ["memory", pytest.param("dynoxide", marks=[pytest.mark.engines("dynoxide"), pytest.mark.slow])],
)
async def test_the_sample_is_exact(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """3,021 changes of the shipped sample: no wrong read, one net item for each account."""
    bank = await run_bank(read_changes(SAMPLE), engine)
    tell(bank, engine, capsys)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ENGINES)
async def test_the_whole_file_is_exact(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All 20,000 changes of 986 accounts: no wrong read, one net item for each account."""
    changes = read_whole_file()
    assert (len(changes), len(sums(changes))) == (WHOLE_ROWS, WHOLE_ACCOUNTS)
    bank = await run_bank(changes, engine)
    tell(bank, engine, capsys)


def read_whole_file() -> list[BankChange]:
    """Read the file that LEDGER_BANK_FILE names, or the one beside the repository."""
    path = Path(os.environ.get("LEDGER_BANK_FILE", WHOLE))
    if not path.is_file():
        pytest.skip(f"the whole file is not at {path}: name it with LEDGER_BANK_FILE")
    return read_changes(path)


def tell(bank: Bank, engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Print the figures, and check that there was something to see."""
    assert not bank.wrong
    assert bank.merged_while_writing > 0
    with capsys.disabled():
        print(
            f"\n  {engine}: {len(bank.changes):,} changes, {bank.reads:,} reads checked,"
            f" none wrong; {bank.merged_while_writing:,} merged while writing"
        )
