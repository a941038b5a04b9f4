"""Instances of the service as they run in production: `ledger serve`, a process each."""

import re
from dataclasses import dataclass
from pathlib import Path

import anyio

from lab.harness.command import command_words
from lab.harness.processes import ManagedProcess, ProcessEnded

RESTART_SECONDS = 1.0
"""After a start that failed, as where the table could not be reached."""
_ANNOUNCED = re.compile(r"is served at http://127\.0\.0\.1:([0-9]+)")


@dataclass(slots=True)
class Life:
    """An instance from the moment it listens until its process ends.

    `is_ready` and `is_leaving` are what it last said to a load balancer.
    """

    name: str
    port: int
    is_ready: bool = False
    is_leaving: bool = False
    ready_at: float = 0.0
    """When it was asked, by the clock, and said that it was ready."""
    is_asked_to_end: bool = False
    is_killed: bool = False


class Instance(ManagedProcess):
    """An instance, kept running: killed, or asked to end, it is started again."""

    def __init__(
        self, name: str, region: str, *, config: Path, tokens: Path, drain_seconds: float
    ) -> None:
        words = command_words(
            "ledger", "serve", "--config", str(config), "--region", region, "--port", "0",
            "--tokens", str(tokens), "--drain", f"{drain_seconds:g}s",
        )  # fmt: skip
        super().__init__(name, words, log=config.parent / f"{name}.log")
        self.life: Life | None = None
        self.failed_starts = 0

    def kill(self, restart_seconds: float) -> bool:
        """Kill the process, as `ManagedProcess` does."""
        is_hit = super().kill(restart_seconds)
        if is_hit and self.life is not None:
            self.life.is_killed = True
        return is_hit

    def restart(self, restart_seconds: float) -> bool:
        """Ask the process to end, as `ManagedProcess` does."""
        is_hit = super().restart(restart_seconds)
        if is_hit and self.life is not None:
            self.life.is_asked_to_end = True
        return is_hit

    async def attend(self) -> None:
        """Wait until the instance listens, or its process has ended."""
        self.life = None
        if (port := await self.announced(_ANNOUNCED)) is not None:
            self.life = Life(self.name, int(port))

    async def check_killed(self) -> None:
        """Wait for the end of the process; a start that failed is tried again.

        Raises:
            ProcessEnded: it ended by itself, or asked to end it failed.
        """
        status = await self.wait()
        life, self.life = self.life, None
        if life is None and not self.is_killed:
            self.failed_starts += 1
            await anyio.sleep(RESTART_SECONDS)
        elif not self.is_killed:
            raise ProcessEnded(f"{self.name} ended by itself: {self.last_words()}")
        elif life is not None and life.is_asked_to_end and not life.is_killed and status:
            raise ProcessEnded(
                f"{self.name} was asked to end, and did with status {status}: {self.last_words()}"
            )
