"""Processes that are killed, suspended and woken."""

import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support.commands import environment

SAID_CHARACTERS = 1_500


@dataclass
class Worker:
    """One process of a lane."""

    process: subprocess.Popen[bytes]
    log: Path
    log_from: int = 0
    """Where in the log it began."""
    wakes_at: float = 0.0
    """When it is let go on after a stop; 0 while it runs."""

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def said(self) -> str:
        """Return the last that it wrote."""
        return self.said_since_start()[-SAID_CHARACTERS:]

    def said_since_start(self) -> str:
        """Return all that was written to its log since it began."""
        return self.log.read_bytes()[self.log_from :].decode(errors="replace")

    def stop(self, until: float) -> None:
        """Suspend it until some time."""
        self.process.send_signal(signal.SIGSTOP)
        self.wakes_at = until

    def wake(self) -> None:
        """Let it go on."""
        if self.wakes_at and self.is_alive:
            self.process.send_signal(signal.SIGCONT)
        self.wakes_at = 0.0

    def kill(self) -> None:
        """Kill it with signal 9."""
        self.process.kill()
        self.process.wait()


def started(words: Sequence[str], folder: Path, name: str) -> Worker:
    """Start a process in a folder; what it says goes to a log of this name."""
    log = folder / f"{name}.log"
    with log.open("ab") as output:
        begins = output.tell()
        process = subprocess.Popen(
            words,
            cwd=folder,
            env=environment(folder, PYTHONUNBUFFERED="1", COLUMNS="2000"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Worker(process, log, begins)
