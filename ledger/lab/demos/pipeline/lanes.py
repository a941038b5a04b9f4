"""The demo's lanes as the run holds them: a file, the process that reads it, and how far it is."""

import json
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.report import PipelineDemoProgress
from ledger.lab.demos.pipeline.worker import Job
from ledger.lab.harness.processes import ManagedProcess, module_words
from ledger.pipeline.sources.dead_letters import letter_of


class Sent(NamedTuple):
    """Messages that were appended to a lane at once: up to where, how many, and when."""

    upto: int
    messages: int
    at: float


class LaneProcess(ManagedProcess):
    """One lane: its file, and its worker's process, whose reports go to the progress."""

    def __init__(self, job: Job, progress: PipelineDemoProgress) -> None:
        self._file = Path(job.file)
        self._file.touch()
        words = module_words("ledger.lab.demos.pipeline.worker", json.dumps(asdict(job)))
        log = self._file.with_suffix(".log")
        super().__init__(f"the worker of {job.region}/{job.lane}", words, log=log)
        self.work: Counter[str] = Counter()
        self.memory_bytes = 0
        self._dead = Path(job.dead)
        self._progress = progress
        self._waiting: deque[Sent] = deque()
        self._bytes = 0

    def append(self, lines: Sequence[bytes], at: float) -> None:
        """Append messages to the lane."""
        content = b"".join(lines)
        self._bytes += len(content)
        self._waiting.append(Sent(self._bytes, len(lines), at))
        with self._file.open("ab", buffering=0) as file:
            file.write(content)

    async def follow(self) -> None:
        """Follow what the worker reports until it has ended.

        Raises:
            LedgerError: it failed, or ended early.
        """
        async for line in self.lines():
            message = json.loads(line)
            if "failed" in message:
                raise LedgerError(f"{self.name}: {message['failed']}")
            if "work" in message:
                self.work, self.memory_bytes = Counter(message["work"]), message["memory_bytes"]
                return
            self._count(message["counted"], message["at"])
        await self.check_killed()

    def dead_letters(self) -> int:
        """Return how many dead letters there are; one that was written twice is one."""
        if not self._dead.exists():
            return 0
        lines = self._dead.read_text("utf-8").splitlines()
        return len({letter_of(line).position for line in lines})

    def _count(self, upto: int, at: float) -> None:
        """Record that the totals show the lane up to here."""
        while self._waiting and self._waiting[0].upto <= upto:
            sent = self._waiting.popleft()
            self._progress.count(sent.messages, sent_at=sent.at, at=at)
