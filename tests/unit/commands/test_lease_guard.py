"""The guard of a leased command: both end with the parent, and with the parent's lease."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from ledger.commands import lease_guard

HANG_SECONDS = 60.0
SCRIPT = 'sleep 600 & echo "$$ $!" > {path}; wait'
"""A command with a child of its own, which says who both are."""


@dataclass
class Guarded:
    """A guard, the write end of its pipe, and the file in which its command says who runs."""

    guard: subprocess.Popen[bytes]
    pipe: int
    path: Path

    def tell(self, seconds: float) -> None:
        """Say how long the lease lasts."""
        os.write(self.pipe, lease_guard.SECONDS.pack(seconds))

    async def running(self) -> list[int]:
        """Return the ids of the command and its child, once both run."""
        await until(lambda: self.path.exists() and len(self.path.read_text().split()) == 2)
        return [int(word) for word in self.path.read_text().split()]

    def close(self) -> None:
        """End the pipe, as the death of the parent does."""
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1


@contextmanager
def guarded(command: list[str], path: Path) -> Iterator[Guarded]:
    """Start a guard as `ledger lease run` does; nothing of it is left in the end."""
    reading, writing = os.pipe()
    program = [sys.executable, "-I", "-S", lease_guard.__file__, str(reading), *command]
    guard = subprocess.Popen(program, pass_fds=(reading,), start_new_session=True)
    os.close(reading)
    one = Guarded(guard, writing, path)
    try:
        yield one
    finally:
        with suppress(ProcessLookupError):
            os.killpg(guard.pid, signal.SIGKILL)
        guard.wait(HANG_SECONDS)
        one.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what processes outside do."""
    with anyio.fail_after(HANG_SECONDS):
        while not condition():  # noqa: ASYNC110 (of another process there is no event)
            await anyio.sleep(0.01)


def is_gone(number: int) -> bool:
    """Return whether a process has ended; one that nobody waits for may stay as a zombie."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{number}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"


async def test_the_command_and_its_children_end_with_the_parent(tmp_path: Path) -> None:
    """However it ends: its end of the pipe is closed then."""
    path = tmp_path / "running"
    with guarded(["sh", "-c", SCRIPT.format(path=path)], path) as one:
        one.tell(600.0)
        numbers = await one.running()
        one.close()
        await until(lambda: all(map(is_gone, numbers)))
        assert one.guard.wait(HANG_SECONDS) == -signal.SIGKILL


async def test_they_end_with_the_lease_of_a_parent_that_stands_still(tmp_path: Path) -> None:
    """A parent that is stopped, or has no time, says nothing any more, and keeps its pipe open."""
    path = tmp_path / "running"
    with guarded(["sh", "-c", SCRIPT.format(path=path)], path) as one:
        one.tell(600.0)
        numbers = await one.running()
        one.tell(0.05)
        await until(lambda: all(map(is_gone, numbers)))


async def test_a_command_that_is_stopped_ends_with_the_parent_all_the_same(tmp_path: Path) -> None:
    """The guard goes on watching."""
    path = tmp_path / "running"
    with guarded(["sh", "-c", SCRIPT.format(path=path)], path) as one:
        numbers = await one.running()
        os.kill(numbers[0], signal.SIGSTOP)
        await anyio.sleep(0.1)
        one.close()
        await until(lambda: all(map(is_gone, numbers)))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does this")
async def test_the_command_ends_with_the_guard(tmp_path: Path) -> None:
    """Nobody would end it any more."""
    path = tmp_path / "running"
    with guarded(["sh", "-c", SCRIPT.format(path=path)], path) as one:
        command, _ = await one.running()
        one.guard.kill()
        await until(lambda: is_gone(command))


async def test_a_command_of_a_parent_that_is_gone_already_is_ended(tmp_path: Path) -> None:
    """It may die before the guard looks."""
    path = tmp_path / "running"
    with guarded(["sh", "-c", SCRIPT.format(path=path)], path) as one:
        one.close()
        assert one.guard.wait(HANG_SECONDS) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 3"], 3),
        (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM),
        (["/no/such/program"], 127),
        (["/etc/passwd"], 126),
    ],
)
def test_the_guard_exits_as_the_command_does(
    command: list[str], status: int, tmp_path: Path
) -> None:
    """As a shell would: its status, or 128 and the signal; or that it cannot be run."""
    with guarded(command, tmp_path) as one:
        assert one.guard.wait(HANG_SECONDS) == status
