"""The demo's workers as the run holds them: a process for each lane, and how far it is."""

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from ledger.core.errors import LedgerError
from ledger.lab.demos.pipeline.worker import Job
from ledger.lab.harness.latency import LatencyRecorder
from ledger.lab.harness.processes import ManagedProcess, module_words


class Sent(NamedTuple):
    """Messages that were appended to a lane at once: up to where, how many, and when."""

    upto: int
    messages: int
    at: float


class LaneWorker(ManagedProcess):
    """One lane: its file, its worker's process, and what the worker has reported."""

    def __init__(self, job: Job, latencies: LatencyRecorder) -> None:
        words = module_words("ledger.lab.demos.pipeline.worker", json.dumps(asdict(job)))
        log = Path(job.file).with_suffix(".log")
        super().__init__(f"the worker of {job.region}/{job.lane}", words, log=log)
        self.job = job
        self.counted = 0
        self.counted_at = 0.0
        self.result: dict[str, Any] = {}
        self._latencies = latencies
        self._waiting: deque[Sent] = deque()
        self._file = Path(job.file)
        self._bytes = 0

    def append(self, lines: Sequence[bytes], at: float) -> None:
        """Append messages to the lane."""
        content = b"".join(lines)
        self._bytes += len(content)
        self._waiting.append(Sent(self._bytes, len(lines), at))
        with self._file.open("ab", buffering=0) as file:
            file.write(content)

    async def complete(self) -> None:
        """Signal the end of the records to the worker."""
        await self.send(b"end")

    async def follow(self, changed: Callable[[], None]) -> None:
        """Follow what the worker reports until it has ended.

        Raises:
            LedgerError: it failed, or ended early.
        """
        async for line in self.lines():
            message = json.loads(line)
            if "failed" in message:
                raise LedgerError(f"{self.name}: {message['failed']}")
            if "counted" in message:
                self._count(message["counted"], message["at"])
            self.result = message.get("ended", {})
            changed()
            if self.result:
                return
        await self.check_killed()

    def _count(self, upto: int, at: float) -> None:
        """Record that the totals show the lane up to here."""
        while self._waiting and self._waiting[0].upto <= upto:
            sent = self._waiting.popleft()
            self.counted += sent.messages
            self._latencies.add(at - sent.at, sent.messages)
        self.counted_at = at
