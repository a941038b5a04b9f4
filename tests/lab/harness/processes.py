"""Child processes of the laboratory: started, suspended, killed, restarted, spoken to in lines."""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import ledger
from lab.harness.process_clock import ProcessClock
from ledger.core.errors import LedgerError

LINE_BYTES_MAX = 1024 * 1024
LOG_TAIL_CHARACTERS = 2_000
POLL_SECONDS = 0.05


class ProcessEnded(LedgerError):
    """A process ended although it was not asked to."""


class ManagedProcess:
    """A child process under control of a run.

    Its input and output are pipes that carry lines; its standard error goes to `log`. It has a
    session of its own: Ctrl-C at the terminal reaches its parent only. With `core` it runs on that
    core alone, with `clock` by those clocks.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        *,
        log: Path,
        stop_seconds: float = 0.0,
        core: int | None = None,
        clock: ProcessClock | None = None,
    ) -> None:
        self.name = name
        self.starts = 0
        self.clock = clock
        self._words = words if clock is None else clock.words(words)
        self._log = log
        self._log_begins = 0
        """Where in the log the process that runs began to write."""
        self._stop_seconds = stop_seconds
        self._core = core
        self._process: Process | None = None
        self._restart_seconds: float | None = None
        self._is_suspended = False
        self._is_retired = False
        self._sending = anyio.Lock()

    @asynccontextmanager
    async def started(self) -> AsyncIterator[None]:
        """Run the process until the block ends.

        It is then asked to end, and killed if it does not within `stop_seconds`.
        """
        # Shielded: if cancelled between its start and here, nothing would end it.
        with self._log.open("ab") as log, anyio.CancelScope(shield=True):
            self._log_begins = log.tell()
            process = await anyio.open_process(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=child_environment(),
                start_new_session=True,
            )
        if self._core is not None:
            os.sched_setaffinity(process.pid, {self._core})
        self.starts += 1
        self._process, self._is_suspended, self._restart_seconds = process, False, None
        try:
            yield
        finally:
            self._process = None
            with anyio.CancelScope(shield=True):
                await _stop(process, self._stop_seconds)

    async def run(self) -> None:
        """Keep the process running until cancelled or retired; start it again once it was killed.

        Raises:
            ProcessEnded: it ended by itself.
        """
        while not self._is_retired:
            async with self.started():
                await self.attend()
                await self.check_killed()
            await anyio.sleep(self._restart_seconds or 0.0)

    async def attend(self) -> None:
        """Do what has to be done while the process runs; by default, nothing."""

    async def wait(self) -> int:
        """Wait for the end of the process, and return its status; 0 if it does not run."""
        return 0 if self._process is None else await self._process.wait()

    async def check_killed(self) -> None:
        """Wait for the end of the process, and return if `kill` was its cause.

        Raises:
            ProcessEnded: it ended by itself.
        """
        await self.wait()
        if not self.is_killed:
            raise ProcessEnded(f"{self.name} ended by itself: {self.last_words()}")

    @property
    def is_killed(self) -> bool:
        """Whether it was killed and has not been started again."""
        return self._restart_seconds is not None

    def check_running(self) -> None:
        """Return if the process runs.

        Raises:
            ProcessEnded: it has ended by itself.
        """
        if self._process is not None and self._process.returncode is not None:
            raise ProcessEnded(f"{self.name} ended by itself: {self.last_words()}")

    def kill(self, restart_seconds: float) -> bool:
        """Kill the process, to be restarted after some seconds; return whether it was running."""
        if self._process is None or self.is_killed:
            return False
        self._restart_seconds = restart_seconds
        self._process.kill()
        if self.clock is not None:
            self.clock.go_on()
        return True

    def restart(self, restart_seconds: float) -> bool:
        """Ask the process to end (SIGTERM), to be started again some seconds after its end.

        Return whether it was running.
        """
        if self._process is None or self.is_killed or self._is_suspended:
            return False
        self._restart_seconds = restart_seconds
        self._process.terminate()
        return True

    def retire(self) -> None:
        """Kill the process for good."""
        self._is_retired = True
        self.kill(0.0)

    def set_clock(self, ahead_seconds: float) -> None:
        """Let its time of day be so far ahead from now on, below 0 behind, if it has a clock."""
        if self.clock is not None:
            self.clock.set_ahead(ahead_seconds)

    def suspend(self, *, with_clock: bool = False) -> bool:
        """Stop the process wherever it is, or with its clocks; return whether it was running."""
        if self._process is None or self.is_killed or self._is_suspended:
            return False
        self._is_suspended = True
        os.kill(self._process.pid, signal.SIGSTOP)
        if with_clock and self.clock is not None:
            self.clock.stop()
        return True

    def resume(self) -> None:
        """Continue the process if it is suspended."""
        if self.clock is not None:
            self.clock.go_on()
        if self._process is not None and self._is_suspended and not self.is_killed:
            os.kill(self._process.pid, signal.SIGCONT)
        self._is_suspended = False

    async def send(self, line: bytes) -> bool:
        """Send the process a line; return whether it could be sent."""
        async with self._sending:
            if self._process is None or self._process.stdin is None:
                return False
            try:
                await self._process.stdin.send(line + b"\n")
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                return False
        return True

    async def lines(self) -> AsyncIterator[bytes]:
        """Yield each line that the process prints, until it ends."""
        if self._process is None or self._process.stdout is None:
            return
        output = BufferedByteReceiveStream(self._process.stdout)
        with suppress(anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                yield await output.receive_until(b"\n", LINE_BYTES_MAX)

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used since it was started.

        Raises:
            ProcessEnded: it does not run.
            OSError: the kernel does not say, as on systems other than Linux.
        """
        if self._process is None:
            raise ProcessEnded(f"{self.name} does not run")
        figures = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
        user, system = figures.rpartition(")")[2].split()[11:13]  # see proc_pid_stat(5)
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int | None:
        """Return its resident memory; None if it does not run, or the kernel does not say."""
        if self._process is None:
            return None
        try:
            figures = Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii")
        except OSError:
            return None
        return int(figures.split()[1]) * resource.getpagesize()

    async def announced(self, pattern: re.Pattern[str]) -> str | None:
        """Return what its standard error names since its start; None if it ends before."""
        while (
            found := pattern.search(self._said()[self._log_begins :].decode(errors="replace"))
        ) is None:
            with anyio.move_on_after(POLL_SECONDS):
                await self.wait()
                return None
        return found[1]

    def last_words(self) -> str:
        """Return the end of its standard error."""
        return self._said().decode(errors="replace").strip()[-LOG_TAIL_CHARACTERS:]

    def _said(self) -> bytes:
        return self._log.read_bytes()


def spare_cores() -> tuple[int | None, int | None]:
    """Return two cores for two processes that must not disturb each other; None without two."""
    if not hasattr(os, "sched_getaffinity"):  # not Linux
        return None, None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[-1], allowed[0]) if len(allowed) > 1 else (None, None)


def module_words(module: str, *arguments: str) -> list[str]:
    """Return the words that run a module in a Python of its own."""
    return [sys.executable, "-m", module, *arguments]


def child_environment() -> dict[str, str]:
    """Return the environment of a child process: it imports this very package."""
    package_parent = str(Path(ledger.__file__).parent.parent)
    search = os.pathsep.join(filter(None, (package_parent, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": search}


async def _stop(process: Process, seconds: float) -> None:
    if process.returncode is None and seconds:
        process.terminate()
        with anyio.move_on_after(seconds):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()
