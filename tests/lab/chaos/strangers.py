"""Processes whose settings disagree with the table's contract, and operators who change its terms.

A process with another value than the contract's, or without one of its regions, is refused: what it
was to write is nowhere. One that is not refused has to obey the contract: what it wrote counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, cycle, product
from random import Random
from typing import Any

import anyio

from lab.chaos.operators import operate
from lab.faults.report import FaultProgress
from lab.faults.workload import Workload
from lab.harness.command import command_words
from lab.harness.config import without_terms, write_config
from lab.harness.processes import ManagedProcess
from ledger.demo.harness.checker import Outcome, Violation
from ledger.demo.harness.digit_tags import TaggedChange, amount
from ledger.demo.harness.table import TestTable

PAUSE_SECONDS = (0.5, 3.0)
COMPACTOR_SHARE = 0.4
COMMAND_SECONDS_MAX = 60.0
REFUSALS = (" in the settings, ", "add it to `regions`")
"""How `ContractConflict` names a value, or a region, in which settings differ from the contract."""
DISAGREEMENTS: tuple[Mapping[str, Any], ...] = (
    {"settle": 3600.0},
    {"retry_horizon": 600.0},
    {"observation_delay": 30.0},
    {"read_deadline": 10.0},
    {"shards": {"*": 8}},
    {"home": -1},
    {"regions": -1},
)
"""Settings in place of the contract's; the last two: another home, and without one region."""
CHANGED: Mapping[str, float] = {"settle": 1.2, "observation_delay": 1.2, "retry_horizon": 0.75}
"""The terms that operators change, by this factor and back, one after the other.

In this order, and by no more than the faults of requests leave room for.
"""


@dataclass(frozen=True, slots=True)
class Strangers:
    """Starts processes that disagree, and operators, one after the other while faults last."""

    table: TestTable
    workload: Workload
    progress: FaultProgress
    random: Random

    async def run(self) -> None:
        """Go on until no more faults are injected, and return once the last of them has ended."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._change_terms)
            tasks.start_soon(self._disagree)

    @property
    def _is_over(self) -> bool:
        return self.progress.seconds >= self.progress.options.seconds

    async def _change_terms(self) -> None:
        plain = without_terms(self.table.settings)
        config = write_config(plain, self.table.folder / "operator")
        for factors, name in cycle(product((CHANGED, dict.fromkeys(CHANGED, 1.0)), CHANGED)):
            if self._is_over:
                return
            value = f"{getattr(self.table.settings, name) * factors[name]:g}s"
            operator = ManagedProcess(
                "operator",
                command_words("ledger", "table", "set", name, value, "--config", str(config)),
                log=self.table.folder / "operator.log",
            )
            await operate(operator, self.progress, self.random)
            self.progress.calls["terms changed"] += 1

    async def _disagree(self) -> None:
        for number in count():
            await self.progress.clock.sleep(self.random.uniform(*PAUSE_SECONDS))
            if self._is_over:
                return
            region = self.random.choice(self.table.regions)
            other = self.random.choice([name for name in self.table.regions if name != region])
            values = self._values(self.random.choice(DISAGREEMENTS), other)
            settings = without_terms(self.table.settings).replace(**values)
            config = write_config(settings, self.table.folder / f"stranger-{number}")
            if self.random.random() < COMPACTOR_SHARE:
                words = ("compactor", "run", "--once", "--wait", "0", "--config", str(config))
                await self._start(number, words)
            else:
                [change] = self.workload.take(1)
                named = (change[0], str(amount(change[1])), "--region", region)
                await self._record(number, change, ("ledger", "record", *named), str(config))

    def _values(self, drawn: Mapping[str, Any], other: str) -> Mapping[str, Any]:
        if "home" in drawn:
            return {"home": self.table.regions[-1]}
        if "regions" not in drawn:
            return drawn
        regions = self.table.settings.regions
        left = {name: reach for name, reach in regions.items() if name != other}
        return {"regions": left, "home": next(iter(left))}

    async def _record(
        self, number: int, change: TaggedChange, words: tuple[str, ...], config: str
    ) -> None:
        """Record a change by a process that disagrees, and report what became of it."""
        checker, region = self.progress.checker, words[-1]
        checker.begin_call([change])
        outcome = await self._start(number, (*words, "--config", config))
        checker.end_call(region, [change], outcome, at=self.progress.seconds)

    async def _start(self, number: int, words: tuple[str, ...]) -> Outcome:
        """Run a command to its end; one that ends in an error of Python is a violation."""
        name = f"stranger-{number}"
        process = ManagedProcess(name, command_words(*words), log=self.table.folder / f"{name}.log")
        status: int | None = None
        async with process.started():
            with anyio.move_on_after(COMMAND_SECONDS_MAX):
                status = await process.wait()
        said = " ".join(process.last_words().split())
        if "Traceback" in said:
            self.progress.add(Violation("strangers", f"{' '.join(words)}: {said}"))
        if status == 0:
            self.progress.calls["strangers obeyed"] += 1
            return "acknowledged"
        is_refused = any(text in said for text in REFUSALS)
        self.progress.calls["strangers refused" if is_refused else "strangers failed"] += 1
        return "refused" if is_refused else "unknown"
