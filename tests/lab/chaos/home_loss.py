"""The home is lost for good, and given up by an operator; the rest goes on without it."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from anyio import to_thread

from compactor.home_takeover import without_lost
from lab.chaos.operators import operate
from lab.faults.report import FaultProgress
from lab.faults.schedule import Loss
from lab.faults.workload import Workload
from lab.harness.command import command_words
from lab.harness.config import write_config
from lab.harness.processes import ManagedProcess
from ledger.administration.table import connect
from ledger.core.errors import StoreError
from ledger.demo.harness.table import TestTable
from ledger.runtime.foreign import FOREIGN

TRIES_MAX = 60
PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class HomeLoss:
    """What happens once the home is lost: its writer ends, its replica goes, it is given up."""

    loss: Loss
    table: TestTable
    workload: Workload
    writer: ManagedProcess
    compactors: Sequence[ManagedProcess]
    progress: FaultProgress

    async def run(self) -> None:
        """Lose the home at its moment, and return once another region is home.

        Raises:
            StoreError: the replica could not be removed.
        """
        table, loss, clock = self.table, self.loss, self.progress.clock
        await to_thread.run_sync(self._unprotect)
        await clock.sleep(max(0.0, loss.at - self.progress.seconds))
        self.writer.retire()
        self.workload.lose(loss.home)
        self.progress.checker.lose(loss.home)
        table.lose(loss.home, home=loss.target)
        await self._remove()
        self.progress.note(f"{loss.home} is removed from the replicas")
        before = write_config(table.settings, table.folder / "operator")
        remaining = without_lost(table.settings, loss.target, [loss.home])
        for compactor in self.compactors:
            write_config(remaining, table.folder / compactor.name)
            compactor.kill(0.0)
        words = ("take-home", loss.target, "--lost", loss.home, "--confirm", loss.home)
        operator = ManagedProcess(
            "operator",
            command_words("compactor", *words, "--config", str(before)),
            log=table.folder / "operator.log",
        )
        random = Random(f"chaos operator {self.progress.options.seed}")  # noqa: S311 (repeatable)
        await operate(operator, self.progress, random)

    def _unprotect(self) -> None:
        client = connect(self.table.settings)[self.loss.home]
        client.update_table(TableName=self.table.settings.table, DeletionProtectionEnabled=False)

    async def _remove(self) -> None:
        """Remove the lost region from the table's replicas, through one that is left."""
        client = connect(self.table.settings)[self.loss.target]

        def remove() -> None:
            client.update_table(
                TableName=self.table.settings.table,
                ReplicaUpdates=[{"Delete": {"RegionName": self.loss.home}}],
            )

        for _ in range(TRIES_MAX):
            try:
                await to_thread.run_sync(remove)
            except FOREIGN as error:
                if "no other replica" in str(error):
                    return  # a try whose answer was lost
                await self.progress.clock.sleep(PAUSE_SECONDS)
            else:
                return
        raise StoreError(f"{self.loss.home} could not be removed from the replicas")
