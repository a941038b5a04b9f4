"""A writer's process as the run sees it: calls go there, results come back."""

from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio

from lab.faults.calls import CALL, RESULT, Call, CallResult
from lab.harness.config import write_config
from lab.harness.process_clock import ProcessClock
from lab.harness.processes import ManagedProcess, module_words
from ledger.core.errors import LedgerError, StoreError
from ledger.runtime.clock import Clock
from ledger.settings import Settings


class WriterProcess(ManagedProcess):
    """A process that makes calls in one region; a call during which it dies has no result."""

    def __init__(self, region: str, settings: Settings, folder: Path, *, clock: Clock) -> None:
        name = f"writer-{region}"
        config = write_config(settings, folder / name)
        words = module_words("lab.chaos.writer", str(config), region)
        super().__init__(
            name,
            words,
            log=folder / f"{name}.log",
            clock=ProcessClock(folder / f"{name}.clock", clock=clock),
        )
        self._numbers = count()
        self._up = anyio.Event()
        self._waiting: dict[int, anyio.Event] = {}
        self._results: dict[int, CallResult] = {}

    async def call(self, call: Call) -> CallResult | None:
        """Make a call once the process runs; None if it died before it could answer."""
        while not self._up.is_set():
            await self._up.wait()
        if self._is_retired:
            return None
        numbered = replace(call, number=next(self._numbers))
        answered = self._waiting[numbered.number] = anyio.Event()
        await self.send(CALL.dump_json(numbered))  # if it has died, the end of its output shows it
        await answered.wait()
        return self._results.pop(numbered.number, None)

    def retire(self) -> None:
        """Kill the process for good; no call has a result any more."""
        super().retire()
        self._up.set()

    async def total(self, counter: str, *, max_age: float) -> CallResult:
        """Read a total in the process.

        Raises:
            StoreError: it could not be read, or the process died.
            LedgerError: it ended with an error that no read should end with.
        """
        result = await self.call(Call("total", ((counter, 0),), max_age=max_age))
        if result is not None and result.error:
            raise LedgerError(result.error)
        if result is None or result.outcome != "acknowledged":
            raise StoreError(f"{self.name} did not answer")
        return result

    async def attend(self) -> None:
        """Take results until the process dies; then every call that waits is without one."""
        self._up.set()
        try:
            async for line in self.lines():
                result = RESULT.validate_json(line)
                if answered := self._waiting.pop(result.number, None):
                    self._results[result.number] = result
                    answered.set()
        finally:
            if not self._is_retired:
                self._up = anyio.Event()
            waiting, self._waiting = self._waiting, {}
            for event in waiting.values():
                event.set()
