"""Processes that are killed with signal 9 at a chosen request of theirs."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import yaml
from support.commands import command_line, environment

from ledger.local import Fault
from ledger.settings import Settings

PROCESS_SECONDS_MAX = 60.0
POLL_SECONDS = 0.02


@dataclass(slots=True)
class Trap:
    """Kills a process as its n-th request of some kind arrives; `fault` is what becomes of it.

    With no fault the request is carried out, and the process dead before it can know.
    """

    operations: frozenset[str] = frozenset()
    countdown: int = 0
    fault: Fault | None = None
    process: int = 0
    seen: int = 0
    sprung: Event = field(default_factory=Event)

    def set(self, *operations: str, at: int, fault: Fault | None = None) -> None:
        """Set the trap for the process that is started next."""
        self.operations, self.countdown, self.fault = frozenset(operations), at, fault
        self.process = 0
        self.sprung.clear()

    def __call__(self, _region: str, operation: str, _body: Mapping[str, Any]) -> Fault | None:
        """Choose the fault of a request; a hook of the local global table."""
        if operation not in self.operations:
            return None
        self.seen += 1
        if not self.process:
            return None
        self.countdown -= 1
        if self.countdown > 0:
            return None
        os.kill(self.process, signal.SIGKILL)
        self.process = 0
        self.sprung.set()
        return self.fault


@dataclass(slots=True)
class Running:
    """A process under test and its log."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """Return what it has written so far, output and errors."""
        return self.log.read_text(encoding="utf-8")

    async def says(self, text: str) -> None:
        """Wait until its log has this text."""
        with anyio.fail_after(PROCESS_SECONDS_MAX):
            while text not in self.said():
                assert self.process.poll() is None, self.said()
                await anyio.sleep(POLL_SECONDS)

    async def ends(self) -> int:
        """Wait for its end and return its status."""
        with anyio.fail_after(PROCESS_SECONDS_MAX):
            while self.process.poll() is None:  # noqa: ASYNC110 (the kernel sends no event)
                await anyio.sleep(POLL_SECONDS)
        return self.process.returncode

    async def kill(self) -> None:
        """Kill it with signal 9."""
        self.process.kill()
        await self.ends()


@asynccontextmanager
async def running(words: Sequence[str], folder: Path, name: str = "log") -> AsyncIterator[Running]:
    """Start a process in a folder; it is killed at the end of the block, if it runs still."""
    log = folder / name
    process = _start(words, folder, log)
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()


async def all_ended(folder: Path) -> None:
    """Wait until no process has a command line that names a folder."""
    with anyio.fail_after(PROCESS_SECONDS_MAX):
        while _processes_of(folder):  # noqa: ASYNC110 (the kernel sends no event)
            await anyio.sleep(POLL_SECONDS)


def _processes_of(folder: Path) -> list[str]:
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(file.read_text(encoding="utf-8", errors="replace").replace("\0", " "))
        except OSError:
            continue  # it has just ended
    return [line for line in lines if str(folder) in line]


def _start(words: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen(
            words,
            cwd=folder,
            env=environment(folder, PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def write_settings(settings: Settings, path: Path) -> Path:
    """Write settings to a file."""
    path.write_text(yaml.safe_dump(settings.model_dump(mode="json")), encoding="utf-8")
    return path


def compactor_words(config: Path, *arguments: str) -> list[str]:
    """Return the words that start `compactor run`."""
    return command_line("compactor", "run", *arguments, "--config", str(config))
