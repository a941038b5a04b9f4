"""The demo's lanes as the run holds them: files, the processes that read them, how far they are."""

import json
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import anyio

from lab.harness.processes import ManagedProcess, module_words
from lab.pipeline_demo.report import PipelineDemoProgress
from lab.pipeline_demo.worker import Job
from ledger.core.errors import LedgerError
from ledger.pipeline.sources.dead_letters import letter_of


class Sent(NamedTuple):
    """Messages that were appended to a lane at once: up to where, how many, and when."""

    upto: int
    messages: int
    at: float


class LaneFile:
    """One lane: its file, what is appended to it, and what of that is counted."""

    def __init__(self, job: Job, progress: PipelineDemoProgress) -> None:
        self.job = job
        self._file = Path(job.file)
        self._file.touch()
        self._dead = Path(job.dead)
        self._progress = progress
        self._waiting: deque[Sent] = deque()
        self._bytes = 0

    def append(self, lines: Sequence[bytes], at: float) -> None:
        """Append messages to the lane, which are due at a time of the monotonic clock."""
        content = b"".join(lines)
        self._bytes += len(content)
        self._waiting.append(Sent(self._bytes, len(lines), at))
        with self._file.open("ab", buffering=0) as file:
            file.write(content)

    def count(self, upto: int, at: float) -> None:
        """Record that the totals show the lane up to here."""
        while self._waiting and self._waiting[0].upto <= upto:
            sent = self._waiting.popleft()
            self._progress.count(sent.messages, sent_at=sent.at, at=at)

    def dead_letters(self) -> int:
        """Return how many dead letters there are; one that was written twice is one."""
        if not self._dead.exists():
            return 0
        with self._dead.open(encoding="utf-8") as lines:
            return len({letter_of(line).position for line in lines})


class LanesProcess(ManagedProcess):
    """The worker's process of one or more lanes of a region; its reports go to the lanes.

    `ready` is set once it has its connections.
    """

    def __init__(self, lanes: Sequence[LaneFile]) -> None:
        jobs = [lane.job for lane in lanes]
        words = module_words("lab.pipeline_demo.worker", json.dumps([asdict(job) for job in jobs]))
        names = ", ".join(job.lane for job in jobs)
        log = Path(jobs[0].file).with_suffix(".log")
        super().__init__(f"the worker of {jobs[0].region}/{names}", words, log=log)
        self.work: Counter[str] = Counter()
        self.memory_bytes = 0
        self.ready = anyio.Event()
        self._lanes = lanes

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
            if "ready" in message:
                self.ready.set()
                continue
            self._lanes[message["lane"]].count(message["counted"], message["at"])
        await self.check_killed()
