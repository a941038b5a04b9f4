"""The process of one round of a case, as its parent sees it: what it measured is its last line."""

from collections.abc import AsyncIterator
from pathlib import Path

from pydantic import TypeAdapter

from lab.bench.measurement import Measured
from lab.bench.rounds import Task
from lab.harness.processes import ManagedProcess, module_words
from ledger.core.errors import LedgerError

STOP_SECONDS_MAX = 20.0
"""For an interrupted round to end its processes and remove its files; a compactor may take 15."""


def case_process(name: str, task: Task, *, log: Path, core: int | None = None) -> ManagedProcess:
    """Return a process that does a task."""
    words = module_words("lab.bench.child", TypeAdapter(Task).dump_json(task).decode())
    return ManagedProcess(name, words, log=log, core=core, stop_seconds=STOP_SECONDS_MAX)


async def measured_by(process: ManagedProcess, lines: AsyncIterator[bytes]) -> Measured:
    """Return what a process measures, once it ends; `lines` are those that it prints.

    Raises:
        LedgerError: it failed.
    """
    output = [line async for line in lines]
    if status := await process.wait():
        last = (process.last_words() or f"status {status}").splitlines()[-1]
        raise LedgerError(f"case {process.name!r} failed: {last}")
    return TypeAdapter(Measured).validate_json(output[-1])
