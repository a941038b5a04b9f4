"""Processes to be struck: killed with signal 9 and started again, or stopped and continued."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from ledger.lab.chaos.calls import ANSWER, CALL, Answer, Call
from ledger.lab.harness.compactor_process import compactor_words, write_config
from ledger.settings import Settings

ANSWER_BYTES_MAX = 1024 * 1024
LOG_TAIL_CHARACTERS = 2_000


class Victim:
    """A process that is started again, some seconds later, whenever it has been killed.

    One that ends by itself is a complaint, and stays dead. Its log goes to a file of its own.
    """

    def __init__(
        self, name: str, words: Sequence[str], folder: Path, *, complain: Callable[[str], None]
    ) -> None:
        self.name = name
        self.kind = name.partition("-")[0]
        self.starts = 0
        self._words = words
        self._log = folder / f"{name}.log"
        self._complain = complain
        self._process: Process | None = None
        self._back_seconds: float | None = None
        self._is_stopped = False

    async def run(self) -> None:
        """Keep it running until cancelled."""
        while True:
            self._back_seconds = None
            async with self._started() as process:
                await self._live(process)
                await process.wait()
            if not self._was_killed():
                self._complain(f"{self.name} ended by itself: {self._last_words()}")
                return
            await anyio.sleep(self._back_seconds or 0.0)

    def kill(self, back_seconds: float) -> bool:
        """Kill it, to be back after some seconds; whether it was there."""
        if self._process is None or self._was_killed():
            return False
        self._back_seconds = back_seconds
        self._process.kill()
        return True

    def stall(self) -> bool:
        """Stop it in the midst of whatever it does; whether it ran."""
        if self._process is None or self._was_killed() or self._is_stopped:
            return False
        self._is_stopped = True
        os.kill(self._process.pid, signal.SIGSTOP)
        return True

    def wake(self) -> None:
        """Let it go on if it is stopped."""
        if self._process is not None and self._is_stopped and not self._was_killed():
            os.kill(self._process.pid, signal.SIGCONT)
        self._is_stopped = False

    def _was_killed(self) -> bool:
        return self._back_seconds is not None

    async def _live(self, process: Process) -> None:
        """Do what is to be done while it runs."""

    @asynccontextmanager
    async def _started(self) -> AsyncIterator[Process]:
        # Shielded: cancelled between its start and here, nobody would be left to end it.
        with self._log.open("ab") as log, anyio.CancelScope(shield=True):
            # A session of its own: Ctrl-C at the terminal is the parent's business.
            process = await anyio.open_process(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1
        self._process, self._is_stopped = process, False
        try:
            yield process
        finally:
            self._process = None
            with anyio.CancelScope(shield=True):
                if process.returncode is None:
                    process.kill()
                await process.aclose()

    def _last_words(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace").strip()[
            -LOG_TAIL_CHARACTERS:
        ]


class Writer(Victim):
    """A process that makes calls in one region; a call that it dies of has no answer."""

    def __init__(
        self, region: str, settings: Settings, folder: Path, *, complain: Callable[[str], None]
    ) -> None:
        content = json.dumps(settings.model_dump(mode="json"))
        words = [sys.executable, "-m", "ledger.lab.chaos.writer", content, region]
        super().__init__(f"writer-{region}", words, folder, complain=complain)
        self.region = region
        self._up = anyio.Event()
        self._input: ByteSendStream | None = None
        self._sending = anyio.Lock()
        self._waiting: dict[int, anyio.Event] = {}
        self._answers: dict[int, Answer] = {}

    async def call(self, call: Call) -> Answer | None:
        """Make a call once the process runs; None if it died before it could answer."""
        while self._input is None:
            await self._up.wait()
        answered = self._waiting[call.number] = anyio.Event()
        try:
            async with self._sending:
                if self._input is not None:
                    await self._input.send(CALL.dump_json(call) + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass  # it has died, and soon the end of its output tells so
        await answered.wait()
        return self._answers.pop(call.number, None)

    async def _live(self, process: Process) -> None:
        """Take answers until the process dies; all calls that it owes one are without."""
        assert process.stdin is not None, "it was asked for as a pipe"  # noqa: S101 (narrowing)
        assert process.stdout is not None, "it was asked for as a pipe"  # noqa: S101 (narrowing)
        self._input = process.stdin
        self._up.set()
        lines = BufferedByteReceiveStream(process.stdout)
        try:
            while True:
                answer = ANSWER.validate_json(await lines.receive_until(b"\n", ANSWER_BYTES_MAX))
                self._answers[answer.number] = answer
                self._waiting.pop(answer.number).set()
        except (anyio.IncompleteRead, anyio.EndOfStream, anyio.ClosedResourceError):
            pass  # dead
        finally:
            self._input, self._up = None, anyio.Event()
            waiting, self._waiting = self._waiting, {}
            for event in waiting.values():
                event.set()


def compactor(
    name: str, settings: Settings, folder: Path, *, every: str, complain: Callable[[str], None]
) -> Victim:
    """Return a compactor as it runs in production, with a settings file of its own."""
    place = folder / name
    place.mkdir()
    words = compactor_words(write_config(settings, place), every=every)
    return Victim(name, words, folder, complain=complain)
