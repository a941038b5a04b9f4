"""A run under faults, whatever takes part: it lives until its end, a broken promise or a signal."""

import signal
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from compactor.observation import lease_name
from lab.faults.counters import COMBINED, SHARDS
from lab.faults.end_checks import EndChecks
from lab.faults.nemesis import Nemesis
from lab.faults.report import Ending, FaultProgress, FaultReport
from lab.faults.workload import ReadMode, Workload, Writer
from lab.harness.compactor_process import clocked_compactor
from lab.harness.config import without_terms
from lab.harness.processes import ManagedProcess, ProcessEnded
from ledger.core import ids, keys
from ledger.core.entry import Item
from ledger.core.errors import ReadTooSlow, StoreError
from ledger.demo.harness.census import take_census
from ledger.demo.harness.checker import Violation
from ledger.demo.harness.digit_tags import digits
from ledger.demo.harness.options import REGIONS as ALL_REGIONS
from ledger.demo.harness.table import TestTable, open_table
from ledger.primitives.leases.lease_rules import lease_key, record_of
from ledger.runtime.clock import Clock
from ledger.runtime.signals import STOP_SIGNALS, stopped_by_signals
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings
from ledger.store.reads import Get, Query

REGIONS = ALL_REGIONS[:3]
COMPACTORS = ("compactor-0", "compactor-1")
MERGING: Mapping[str, Any] = {
    "lease": 4.0,
    "heartbeat": 0.5,
    "fold_min": 4,
    "fold_max": 24,
    "fold_age": 6.0,
    "prune_min": 6,
    "pending_max": 24,
    "scan_every": 3.0,
    "hint_every": 4,
}
CONTEXT_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run sets in its table: times, what the compactors do, and how often they do a pass."""

    times: Mapping[str, Any]
    merging: Mapping[str, Any]
    every: str


@dataclass(frozen=True, slots=True)
class Clients:
    """What writes and reads, and the processes that this needs."""

    read_modes: Sequence[ReadMode]
    writers: Mapping[str, Writer]
    processes: Sequence[ManagedProcess]


@dataclass(frozen=True, slots=True)
class Participants:
    """What takes part in a run."""

    table: TestTable
    clients: Clients
    compactors: Sequence[ManagedProcess]
    nemesis: Nemesis


class FaultRun(ABC):
    """One run."""

    watch_seconds = 1.0
    """Between two looks at what the table shows: each reads all of the home region."""

    def __init__(
        self, progress: FaultProgress, terms: Terms, *, regions: Sequence[str], clock: Clock
    ) -> None:
        self.progress = progress
        self._terms = terms
        self._regions = regions
        self._first_epoch = 0
        self._clock = clock

    @abstractmethod
    async def _open_clients(
        self, table: TestTable, transports: Sequence[Settings], stack: AsyncExitStack
    ) -> Clients:
        """Open what writes and reads; `transports` are settings of two, taken in turn."""

    @abstractmethod
    def _workload(self, participants: Participants, tasks: TaskGroup) -> Workload:
        """Return what writes and reads."""

    @abstractmethod
    async def _inject(self, participants: Participants, workload: Workload) -> None:
        """Inject faults; return when the last has ended."""

    async def _wait_ready(self) -> None:  # noqa: B027 (optional)
        """Wait until calls can be made."""

    async def _check_more(self) -> None:  # noqa: B027 (optional)
        """Check what else must hold at the end."""

    def _report(self, ending: Ending, context: tuple[str, ...]) -> FaultReport:
        """Return what the run found."""
        return FaultReport(self.progress, ending, context)

    async def run(self) -> FaultReport:
        """Run to the end, the first violation, or a signal to stop, and report.

        Raises:
            LedgerError: it could not go on; a broken promise is the verdict, not an error.
        """
        progress = self.progress
        ending: Ending = "interrupted"
        context: tuple[str, ...] = ()
        watched = (*STOP_SIGNALS, signal.SIGHUP)
        async with (
            stopped_by_signals(lambda _: progress.stop.set(), watched=watched),
            self._open() as participants,
        ):
            progress.started = self._clock.monotonic()
            async with background_tasks() as tasks:
                tasks.start_soon(self._cancel, tasks)
                tasks.start_soon(self._watch, participants)
                ending = await self._live(participants, tasks)
            progress.ended = self._clock.monotonic()
            if progress.wrong:
                context = await self._context(participants)
        return self._report(ending, context)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Participants]:
        """Open the table and all that takes part."""
        options, terms = self.progress.options, self._terms
        self.progress.phase = f"starting a global table of three regions on {options.engine}"
        opening = open_table(
            options,
            self._regions,
            **terms.times,
            compactor=terms.merging,
            shards=SHARDS,
            combine=COMBINED,
        )
        async with opening as table, AsyncExitStack() as stack:
            plain = without_terms(table.settings)
            transports = [plain.replace(transport=name) for name in options.transport.names]
            clients = await self._open_clients(table, transports, stack)
            compactors = [
                clocked_compactor(
                    name, settings, table.folder, every=terms.every, clock=self._clock
                )
                for name, settings in zip(COMPACTORS, transports, strict=True)
            ]
            processes = {process.name: process for process in (*clients.processes, *compactors)}
            nemesis = Nemesis(table.world, processes, self.progress, clock=self._clock)
            yield Participants(table, clients, compactors, nemesis)

    async def _live(self, participants: Participants, tasks: TaskGroup) -> Ending:
        """Write and read while faults are injected, then check the end."""
        table, merging = participants.table, anyio.CancelScope()
        for process in participants.clients.processes:
            tasks.start_soon(self._keep_running, process)
        tasks.start_soon(self._merge, participants.compactors, merging)
        workload = self._workload(participants, tasks)
        await self._wait_ready()
        workload.start()
        self.progress.phase = "injecting faults"
        await self._inject(participants, workload)

        async def stop_merging() -> None:
            merging.cancel()
            await self._clock.sleep(table.settings.request_timeout)

        try:
            checks = EndChecks(table, workload, self.progress, participants.clients.read_modes[0])
            await checks.run(stop_merging)
            await self._check_more()
            await self._look(participants)
        except (StoreError, ReadTooSlow) as error:
            self.progress.obstacle = str(error)
            return "unfinished"
        return "held"

    async def _merge(self, compactors: Sequence[ManagedProcess], scope: anyio.CancelScope) -> None:
        """Keep the compactors running until the scope is cancelled."""
        with scope:
            async with anyio.create_task_group() as tasks:
                for compactor in compactors:
                    tasks.start_soon(self._keep_running, compactor)

    async def _keep_running(self, process: ManagedProcess) -> None:
        """Keep a process running; one that ends by itself is a violation."""
        try:
            await process.run()
        except ProcessEnded as error:
            self.progress.add(Violation("processes", str(error)))

    async def _cancel(self, tasks: TaskGroup) -> None:
        await self.progress.stop.wait()
        tasks.cancel_scope.cancel()

    async def _watch(self, participants: Participants) -> None:
        while True:  # until cancelled
            await self._clock.sleep(self.watch_seconds)
            await self._look(participants)

    async def _look(self, participants: Participants) -> None:
        """Update what the table shows: faults injected, entries merged, leaders so far."""
        await participants.nemesis.count_faults()
        table = participants.table
        home = table.stores[table.regions[0]]
        try:
            census = await take_census(home)
            lease = await home.get(Get(lease_key(lease_name(table.settings))))
        except StoreError:
            return  # faults hit this read as well
        self.progress.merged, self.progress.entries = census.merged, census.entries.total()
        if lease is not None and home.region == table.settings.home:
            epoch = record_of(lease).epoch
            self._first_epoch = self._first_epoch or epoch
            self.progress.leaders = epoch - self._first_epoch + 1

    async def _context(self, participants: Participants) -> tuple[str, ...]:
        """Return the latest faults, and what every region shows of the first wrong counter."""
        table, counter = participants.table, self.progress.wrong[0].counter
        lines = list(self.progress.events)
        with anyio.move_on_after(CONTEXT_SECONDS_MAX):
            # Links stay cut: what has not arrived yet is part of what was seen.
            await to_thread.run_sync(table.world.set_faults, ())
            for region, store in table.stores.items():
                for shard in range(table.settings.shards_max(counter) if counter else 0):
                    page = await store.query(Query(keys.partition_key(counter, shard)))
                    lines += [f"{region} shows {describe_item(item)}" for item in page.items]
        return tuple(lines)


def describe_item(item: Item) -> str:
    """Return what an entry or a net change of a tagged counter counts; any other item as it is."""
    partition, sort_key = item["pk"]["S"], item["sk"]["S"]
    try:
        counted = ", ".join(map(str, sorted(digits(int(item["change"]["N"])))))
        if not sort_key.startswith(keys.NET_PREFIX):
            return f"{partition} {sort_key}: change {counted}"
        named = ", ".join(map(str, ids.unpack_all(item["merged"]["B"]))) or "none"
        version = item["version"]["S"]
    except (KeyError, ValueError):
        return f"{partition} {sort_key}: {item}"
    return f"{partition} {sort_key} version {version}: changes {counted}; merged ids: {named}"
