"""Entries archived on files, read back as history, and verified: what the archive alone costs.

The table is in memory and takes no part in what is timed: each round writes the entries of one fold
of each counter, and only giving them their segments, putting the objects and reading them back
counts. So the memory is the archive's, beside that of one round's entries.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from tempfile import TemporaryDirectory

from prometheus_client import CollectorRegistry

from compactor.archive_object import ArchiveObject
from compactor.archiver import Archiver, PendingSegment
from compactor.merge_plan import MergeRules, plan_merge
from compactor.metrics import CompactorMetrics
from compactor.observation import CollectionViews, ReadExtent, observe
from compactor.pass_terms import rules_of
from lab.bench.measurement import Measured, Meter, peak_memory
from lab.bench.rounds import Round
from lab.bench.stub_pages import REGION
from ledger.administration.archive.check import ArchiveCheck, ArchiveFault
from ledger.core.entry import entry_id, entry_item, key_of, net_item
from ledger.core.errors import LedgerError
from ledger.core.ids import SUFFIX_BITS
from ledger.core.values import Entry, NetChange
from ledger.reads.archive.metrics import ArchiveMetrics
from ledger.reads.archive.places.opening import ReplicatedPlace, metered_places, open_places
from ledger.reads.archive.reader import ArchiveReader
from ledger.reads.history import HistoryRange, history
from ledger.runtime.clock import SystemClock
from ledger.runtime.gc import tune_gc
from ledger.runtime.metrics import summed
from ledger.runtime.services import Services
from ledger.settings import Settings
from ledger.store.memory import MemoryStore

STAGES = ("archive", "history", "verify")
FIGURES = ("s", "CPU s", "peak MB")
SEED = 1
SINCE = timedelta(days=30)
APART = timedelta(milliseconds=1)
VERSION_BITS = 128
MEGABYTE = 2**20
PAGE_ITEMS = 10_000


@dataclass(slots=True)
class Run:
    """One run: a table in memory, its archive, and what the stages took."""

    counters: tuple[str, ...]
    size: int
    has_notes: bool
    places: ReplicatedPlace
    archiver: Archiver
    rules: MergeRules
    clock: SystemClock = field(default_factory=SystemClock)
    random: Random = field(default_factory=lambda: Random(SEED))  # noqa: S311 (repeatable)
    store: MemoryStore = field(
        default_factory=lambda: MemoryStore(REGION, page_items_max=PAGE_ITEMS)
    )
    extra: dict[str, float] = field(default_factory=dict)

    async def stage(self, name: str, run: Callable[[Meter], Awaitable[Measured]]) -> Measured:
        """Measure one stage."""
        with peak_memory() as peak:
            found = await run(Meter())
        values = (found.seconds, found.cpu_seconds, peak[0] / MEGABYTE)
        self.extra |= {
            f"{name}: {figure}": value for figure, value in zip(FIGURES, values, strict=True)
        }
        return found

    async def archive(self, folds: int, meter: Meter) -> Measured:
        """Archive so many folds of each counter; what comes before and after them is not timed."""
        seconds, cpu_seconds, found = 0.0, 0.0, meter.end()
        at = self.clock.now() - SINCE
        for _ in range(folds):
            held = []
            for counter in self.counters:
                at = self._write(counter, at)
                held.append(await self._decided(counter))
            meter.begin()
            await self._put(held)
            found = meter.end()
            seconds, cpu_seconds = seconds + found.seconds, cpu_seconds + found.cpu_seconds
        return replace(found, seconds=seconds, cpu_seconds=cpu_seconds)

    def _write(self, counter: str, at: datetime) -> datetime:
        """Put the entries of a fold in the table, in place of those that were folded before."""
        net = [item for item in self.store.table.items() if "version" in item]
        self.store.table.partitions.pop(counter, None)
        for item in net:
            self.store.table.set(key_of(item), item)
        for _ in range(self.size):
            at += APART
            suffix = self.random.getrandbits(SUFFIX_BITS)
            note = f"order {self.random.getrandbits(32)}" if self.has_notes else None
            entry = Entry(counter, str(entry_id(at, suffix)), Decimal(1), REGION, note)
            item = entry_item(entry)
            self.store.table.set(key_of(item), item)
        return at

    async def _decided(self, counter: str) -> tuple[CollectionViews, NetChange]:
        stores = {REGION: self.store}
        observed = await observe(
            stores, counter, home=REGION, clock=self.clock, extent=ReadExtent(with_items=True)
        )
        version = f"{self.random.getrandbits(VERSION_BITS):032x}"
        plan = plan_merge(observed.observation, self.rules, now=self.clock.now(), version=version)
        if plan.fold is None or plan.folded != self.size:
            raise LedgerError(
                f"{plan.folded} of {self.size} entries are to be folded: {plan.waits}"
            )
        return observed, plan.fold

    async def _put(self, held: list[tuple[CollectionViews, NetChange]]) -> None:
        made: list[ArchiveObject | None] = []
        for observed, fold in held:
            archived, one = self.archiver.add(observed, fold, self.rules)
            made.append(one)
            item = net_item(archived, observed.observation.partition)
            self.store.table.set(key_of(item), item)
        for one in made:
            if one is not None:
                await self.archiver.put(one)

    async def history(self, work: int, meter: Meter) -> Measured:
        """Read every entry of every counter, in order."""
        reader, sum_, count = ArchiveReader(self.places), 0, 0
        for counter in self.counters:
            entries = history(
                self.store,
                HistoryRange(counter),
                consistent=True,
                archive=reader,
            )
            async for entry in entries:
                count, sum_ = count + 1, sum_ + int(entry.change)
        if (count, sum_) != (work, work):
            raise LedgerError(f"the history has {count:,} of {work:,} entries")
        return meter.end()

    async def verify(self, work: int, meter: Meter) -> Measured:
        """Check each byte, each link and each sum."""
        wrong: list[ArchiveFault] = []
        check = ArchiveCheck({REGION: self.store}, REGION, self.places, wrong.append)
        await check.run(self.counters)
        if wrong or (check.entries, check.left_over) != (work, 0):
            raise LedgerError(f"verified {check.entries:,} of {work:,} entries: {wrong[:1]}")
        return meter.end()


async def stages(round_: Round) -> Measured:
    """Archive, read back and verify; work and seconds are those of archiving.

    Raises:
        LedgerError: an entry is missing, or the archive is not whole.
    """
    options = round_.options
    counters = tuple(f"kept-{number}" for number in range(options["counters"]))
    size, work = options["size"], options["entries"]
    folds = work // (size * len(counters))
    work = folds * size * len(counters)
    tune_gc()
    with TemporaryDirectory(prefix="ledger-bench-") as folder:
        url, clock = f"file://{folder}", SystemClock()
        async with open_places([url], clock=clock) as opened:
            registry = CollectorRegistry()
            places = metered_places(
                opened.places, region=REGION, metrics=ArchiveMetrics.of(registry), clock=clock
            )
            metrics = CompactorMetrics.of(registry)
            archiver = Archiver(
                places,
                urls=(url,),
                services=Services.of(
                    clock=clock,
                    randomness=Random(SEED),  # noqa: S311 (repeatable)
                ),
                metrics=metrics,
                waiting=PendingSegment(metrics),
            )
            settings = Settings(
                home=REGION,
                regions={REGION: {}},
                archive=[url],
                compactor={"fold_max": size, "fold_min": 1},
            )
            run = Run(
                counters,
                size,
                options["has_notes"],
                ReplicatedPlace(places),
                archiver,
                rules_of(settings),
            )
            found = await run.stage("archive", lambda meter: run.archive(folds, meter))
            size_of_all = summed(registry, "compactor_archive_bytes_total")
            requests = requests_of(registry)
            await run.stage("history", lambda meter: run.history(work, meter))
            read = requests_of(registry)
            await run.stage("verify", lambda meter: run.verify(work, meter))
    return replace(
        found,
        work=work,
        calls=folds,
        requests=int(sum(requests.values())),
        extra={
            **run.extra,
            "bytes of an entry": size_of_all / work,
            "objects": summed(registry, "compactor_archive_objects_total"),
            "history: requests": read["get"] - requests["get"],
        },
    )


def requests_of(registry: CollectorRegistry) -> dict[str, float]:
    """Return the requests to the archive's places so far, by operation."""
    name = "ledger_archive_requests_total"
    return {operation: summed(registry, name, operation=operation) for operation in ("put", "get")}
