"""Operators: a command is run again until it ends well; a process that is retired stays away."""

import sys
from pathlib import Path
from random import Random

import anyio
import pytest
from lab.chaos import operators
from lab.chaos.operators import operate
from lab.chaos.run import ChaosOptions
from lab.chaos.writer_process import WriterProcess
from lab.faults.calls import Call
from lab.faults.report import FaultProgress
from lab.harness.processes import ManagedProcess

from ledger.demo.harness.checker import TaggedChecker
from ledger.settings import Settings
from ledger.testing.clock import ManualClock

WAIT_SECONDS_MAX = 30.0
RANDOM = Random(1)  # noqa: S311 (repeatable)
THIRD_TIME = """
import sys
from pathlib import Path
file = Path(sys.argv[1])
runs = len(file.read_text()) if file.exists() else 0
file.write_text("x" * (runs + 1))
sys.exit("not yet" if runs < 2 else 0)
"""
WAITS_FOR_LEAVE = """
import sys, time
from pathlib import Path
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
"""


def a_progress() -> FaultProgress:
    """Return the progress of a run whose waits take no time."""
    return FaultProgress(ChaosOptions(), TaggedChecker(), ManualClock(instant=True))


@pytest.mark.parametrize(("tries_max", "violations"), [(3, []), (2, ["operators"])])
async def test_a_command_is_run_until_it_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries_max: int, violations: list[str]
) -> None:
    """One that never does is a violation."""
    monkeypatch.setattr(operators, "KILL_SHARE", 0.0)
    monkeypatch.setattr(operators, "TRIES_MAX", tries_max)
    words = [sys.executable, "-c", THIRD_TIME, str(tmp_path / "runs")]
    progress = a_progress()
    await operate(ManagedProcess("operator", words, log=tmp_path / "log"), progress, RANDOM)
    assert (tmp_path / "runs").read_text() == "x" * tries_max
    assert [violation.rule for violation in progress.wrong] == violations


async def test_a_command_is_killed_and_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many times at most; the kills are counted."""
    monkeypatch.setattr(operators, "KILL_SHARE", 1.0)
    monkeypatch.setattr(operators, "KILL_SECONDS", (0.0, 0.0))
    leave = tmp_path / "leave"
    words = [sys.executable, "-c", WAITS_FOR_LEAVE, str(leave)]
    progress = a_progress()
    command = ManagedProcess("operator", words, log=tmp_path / "log")
    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(operate, command, progress, RANDOM)
            while progress.process_faults.total() < operators.KILLS_MAX:  # noqa: ASYNC110 (no event)
                await anyio.sleep(0.01)
            leave.touch()  # before that it cannot end, however slow the machine is
    assert progress.process_faults == {"kill operator": operators.KILLS_MAX}
    assert not progress.wrong


async def test_a_writer_that_is_retired_answers_no_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither one that waits for its process nor a later one; the process is not started again."""
    settings = Settings(home="us-east-1", regions={"us-east-1": {}})
    writer = WriterProcess("us-east-1", settings, tmp_path, clock=ManualClock(instant=True))
    monkeypatch.setattr(writer, "_words", [sys.executable, "-c", "import sys; sys.stdin.read()"])
    results: list[object] = []

    async def call() -> None:
        results.append(await writer.call(Call("record", (("a", 0),))))

    with anyio.fail_after(WAIT_SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)  # before the process runs
            tasks.start_soon(writer.run)
            while not writer.starts:  # noqa: ASYNC110 (a process's start sets no event)
                await anyio.sleep(0.01)
            writer.retire()
        await call()
    assert results == [None, None]
    assert writer.starts == 1
