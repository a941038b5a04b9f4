"""Processes under control: killed ones are restarted, suspended ones resume, ends are reported."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from lab.harness.processes import ManagedProcess, ProcessEnded

WAIT_SECONDS_MAX = 30.0
MEGABYTE = 1_000_000
NOTES = "import sys, time; open(sys.argv[1], 'a').write('x')\n"
LIVES = f"{NOTES}time.sleep(60)"
ENDS_WITH_PARENT = """
import time
from lab.harness.command import end_with_parent
end_with_parent()
print("ready", flush=True)
time.sleep(600)
"""
LEAVES_A_CHILD = """
import os, subprocess, sys
pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], **pipes)
child.stdout.readline()
os._exit(9)
"""
COUNTS = "import sys, time\nwhile True: open(sys.argv[1], 'a').write('x'); time.sleep(0.01)"


@asynccontextmanager
async def running(process: ManagedProcess) -> AsyncIterator[None]:
    """Keep a process running."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(process.run)
        yield
        tasks.cancel_scope.cancel()


async def until_noted(path: Path, times: int, process: ManagedProcess, starts: int) -> None:
    """Wait until a process was started and has noted itself this often."""
    with anyio.fail_after(WAIT_SECONDS_MAX):
        while noted(path) < times or process.starts < starts:  # noqa: ASYNC110 (others do it)
            await anyio.sleep(0.01)


def noted(path: Path) -> int:
    """Return how often a process has noted itself."""
    return path.stat().st_size if path.exists() else 0


def a_process(folder: Path, script: str) -> ManagedProcess:
    """Return a process that runs a script which notes itself in `folder/notes`."""
    words = [sys.executable, "-c", script, str(folder / "notes")]
    return ManagedProcess("compactor-0", words, log=folder / "log")


async def test_what_is_killed_comes_back(tmp_path: Path) -> None:
    """It is started again after its time, and that is not an error."""
    process = a_process(tmp_path, LIVES)
    assert not process.kill(0.0), "nothing runs yet"
    async with running(process):
        for times in (1, 2, 3):
            await until_noted(tmp_path / "notes", times, process, times)
            assert process.kill(0.01)
            assert not process.kill(0.01), "it is dead"
            assert not process.suspend()
        await until_noted(tmp_path / "notes", 4, process, 4)
    assert process.starts == 4


async def test_what_is_asked_to_end_comes_back(tmp_path: Path) -> None:
    """By SIGTERM, which it may take its time for; its memory is known while it runs."""
    process = a_process(tmp_path, LIVES)
    assert not process.restart(0.0), "nothing runs yet"
    assert process.resident_bytes() is None
    async with running(process):
        await until_noted(tmp_path / "notes", 1, process, 1)
        assert (process.resident_bytes() or 0) > MEGABYTE
        assert process.restart(0.0)
        assert not process.restart(0.0), "it is ending"
        await until_noted(tmp_path / "notes", 2, process, 2)


async def test_what_ends_by_itself_is_told(tmp_path: Path) -> None:
    """The error has its last words, and it is not started again."""
    process = a_process(tmp_path, "raise SystemExit('no more')")
    with anyio.fail_after(WAIT_SECONDS_MAX), pytest.raises(ProcessEnded) as ended:
        await process.run()
    assert str(ended.value) == "compactor-0 ended by itself: no more"
    assert process.starts == 1


async def test_what_is_stopped_stands_still_until_it_wakes(tmp_path: Path) -> None:
    """It notes nothing while stopped, and goes on where it was: it is not started again."""
    notes, process = tmp_path / "notes", a_process(tmp_path, COUNTS)
    async with running(process):
        await until_noted(notes, 1, process, 1)
        assert process.suspend()
        assert not process.suspend(), "it is stopped already"
        with anyio.fail_after(WAIT_SECONDS_MAX):
            # The signal needs a moment: then the size stays what it is.
            size = -1
            while size != noted(notes):
                size = noted(notes)
                await anyio.sleep(0.2)
        process.resume()
        await until_noted(notes, size + 1, process, 1)
        assert process.starts == 1


async def test_what_is_stopped_can_be_killed(tmp_path: Path) -> None:
    """A stopped process dies at once, and its successor is not stopped."""
    process = a_process(tmp_path, LIVES)
    async with running(process):
        await until_noted(tmp_path / "notes", 1, process, 1)
        assert process.suspend()
        assert process.kill(0.0)
        process.resume()
        await until_noted(tmp_path / "notes", 2, process, 2)


@pytest.mark.slow
def test_a_command_ends_with_the_run_that_started_it() -> None:
    """However the run ends: nothing of it goes on for ever, as a compactor would."""
    words = [sys.executable, "-c", LEAVES_A_CHILD, ENDS_WITH_PARENT]
    # It waits for the end of all that hold the error output: the child, too.
    ended = subprocess.run(words, check=False, stderr=subprocess.PIPE, timeout=WAIT_SECONDS_MAX)
    assert ended.returncode == 9
