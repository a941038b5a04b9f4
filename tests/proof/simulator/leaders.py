"""The compactors of a scenario: leaders, rivals and zombies.

Several run during each busy period: some contend for the one lease, and a rival may hold a lease
of another name, so that two lead at once. A crashed compactor is replaced; one that is stalled when
the others stop resumes later with what it was doing.
"""

from contextlib import suppress
from random import Random

import anyio

from compactor.job import Compactor
from ledger.core.errors import ContractConflict, LeaseLost
from ledger.runtime.services import Services
from ledger.settings import Settings
from proof.simulator.forger import signing, with_keys
from proof.simulator.planned import BusyPeriod
from proof.simulator.process import RELIABLE, Process
from proof.simulator.randomness import stream
from proof.simulator.store import SimStore
from proof.simulator.supervisor import REGISTRY, Supervisor

ZOMBIE_SECONDS = 60.0
AT_HOME_SHARE = 0.8
REST_PAUSE_SECONDS = 10.0
REST_ROUNDS_MAX = 400
"""Longer than a change of home takes, which may have begun shortly before."""


class Leaders:
    """Runs the compactors of one world; `file` is what their settings file says from now on."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.file = supervisor.scenario.files.right
        self._supervisor = supervisor
        self._scenario = supervisor.scenario
        self._world = supervisor.world
        self._compactors: dict[str, Process] = {}
        self._is_resting = False

    def start(self) -> None:
        """Start everything that the scenario plans."""
        for period in self._scenario.busy:
            self._supervisor.start(self._lead, period)

    def rest(self) -> None:
        """Crash every compactor; from now on only `merge_all` merges."""
        self._is_resting = True
        self._crash_compactors()

    def stop_at_home(self, randomness: Random) -> None:
        """Crash for good the compactors that run in the home region: nearly all of them."""
        for process in self._compactors.values():
            if randomness.random() < AT_HOME_SHARE:
                process.on_crash = lambda: None
                process.crash()

    async def merge_all(self) -> None:
        """Merge until nothing is left to merge.

        One more search then compares an index, and finds rights sent to where nothing is spent.
        """
        process = self._supervisor.process("last", RELIABLE)
        await self._merge_until_small(self._compactor(process, self.file))
        auditor = self._supervisor.auditor
        if auditor.index.is_kept or not auditor.is_small():
            await self._merge_until_small(self._searching(process))

    async def search(self) -> None:
        """Make one pass that searches, as an operator does whose command waits for it."""
        process = self._supervisor.process("searcher", RELIABLE)
        await self._make_pass(self._searching(process))

    async def _make_pass(self, compactor: Compactor) -> None:
        with suppress(LeaseLost):  # another home is in force
            await compactor.run_once()

    async def _merge_until_small(self, compactor: Compactor) -> None:
        for _ in range(REST_ROUNDS_MAX):
            await self._make_pass(compactor)
            await anyio.sleep(REST_PAUSE_SECONDS)
            if self._supervisor.auditor.is_small() and not self._world.in_flight:
                return

    def _file(self, process: Process) -> Settings:
        """Return what the file of a process says, which may begin with any region."""
        file = self.file
        if file is self._scenario.files.right:
            chance = stream(self._scenario.seed, f"{process.name} wrong file")
            file = self._scenario.files.draw(chance)
        if self._scenario.contract is None:
            return file
        regions = list(file.regions.items())
        stream(self._scenario.seed, f"{process.name} file").shuffle(regions)
        return file.replace(regions=dict(regions))

    def _searching(self, process: Process) -> Compactor:
        return self._compactor(process, self.file.replace(compactor={"scan_every": 0.0}))

    def _compactor(self, process: Process, settings: Settings) -> Compactor:
        faults = self._scenario.compactor_faults
        return Compactor(
            with_keys(settings, self._scenario.seed),
            registry=REGISTRY,
            stores={
                region: signing(
                    SimStore(process, region, faults), self._scenario.seed, process.name
                )
                for region in self._scenario.regions
            },
            services=Services.of(
                clock=process.clock,
                randomness=stream(self._scenario.seed, f"{process.name} compactor"),
                registry=REGISTRY,
            ),
            owner=process.name,
            contract=self._scenario.contract is not None,
            archive=self._supervisor.archive(process, faults),
        )

    async def _lead(self, period: BusyPeriod) -> None:
        """Run the compactors of a busy period: some for one lease, perhaps a rival for another."""
        await anyio.sleep(period.begins)
        if self._is_resting:
            return
        names = [
            (f"compactor-{number}", "compactor") for number in range(self._scenario.compactors)
        ]
        names += [("rival", "rival")] if self._scenario.rivals else []
        for name, lease in names:
            self._supervisor.start(self._compact, name, lease, period.ends)

    async def _compact(self, name: str, lease: str, until: float) -> None:
        """Run a compactor until a moment; one that crashes is replaced."""
        if self._is_resting or self._world.loop.time() >= until:
            return
        process = self._supervisor.process(name, *self._scenario.compactor_reliabilities)
        process.on_crash = lambda: self._supervisor.start(
            self._supervisor.restart, self._compact, name, lease, until
        )
        self._compactors[process.name] = process
        compactor = self._compactor(process, self._file(process).replace(compactor={"name": lease}))
        stop = anyio.Event()
        self._stop_at(until, process, stop)

        refusals: list[ContractConflict] = []

        def refused(error: Exception) -> None:
            if isinstance(error, ContractConflict):
                self._world.note(lambda: f"{process.name}: {error}")
                refusals.append(error)
                stop.set()

        await compactor.run_every(self._scenario.pass_every, stop=stop, on_error=refused)
        if refusals:  # started again with another file
            await self._supervisor.restart(self._compact, name, lease, until)

    def _stop_at(self, moment: float, process: Process, stop: anyio.Event) -> None:
        """Stop a compactor at a moment, or, if it is stalled then, some time after it wakes."""

        def end() -> None:
            if process.local > self._world.loop.time():
                self._stop_at(process.local + ZOMBIE_SECONDS, process, stop)
            else:
                stop.set()

        self._world.loop.call_at(moment, end)

    def _crash_compactors(self) -> None:
        for process in self._compactors.values():
            process.on_crash = lambda: None
            process.crash()
        self._compactors.clear()
