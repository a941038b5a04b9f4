"""The load of a soak: calls offered at a fixed rate, however long they take.

A latency counts from when its call was due, so a stall shows in every call that it kept waiting.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

from lab.faults.calls import Call
from lab.faults.workload import Workload
from lab.soak.report import SoakProgress
from ledger.demo.harness.checker import Outcome, Violation

WRITE_SHARE = 0.5
UNDER_WAY_MAX = 400
"""Calls of a region under way; further ones are counted, not made."""


class OfferedWorkload(Workload):
    """Offers so many calls a second in each region, writes and reads."""

    def __init__(self, progress: SoakProgress, *, rate: float, **others: Any) -> None:
        super().__init__(progress, **others)
        self._soak = progress
        self._rate = rate
        self._under_way = Counter[str]()
        self.beside: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def start(self) -> None:
        """Start to offer calls in every region, and what goes on `beside` them."""
        for work in self.beside:
            self._tasks.start_soon(work)
        for region in self._writers:
            self._tasks.start_soon(self._offer, region)

    async def call(self, region: str, call: Call) -> Outcome | None:
        """Make a call; in a rolling restart alone none may be refused for good.

        One that was not answered in time is judged by its attempts.
        """
        is_calm, began = self._soak.is_calm, self._progress.clock.monotonic()
        outcome = await super().call(region, call)
        said = "without answer" if outcome is None else outcome
        self._soak.interval.outcomes[said] += 1
        if is_calm and outcome == "refused" and not self._soak.was_late(began):
            text = f"{call.kind} of {call.changes} in {region} ended as {said}"
            self._soak.add(Violation("rolling restart", text, call.changes[0][0]))
        return outcome

    async def _offer(self, region: str) -> None:
        clock = self._progress.clock
        began, number = clock.monotonic(), 0
        while True:  # until cancelled
            due = began + number / self._rate
            number += 1
            await clock.sleep(max(0.0, due - clock.monotonic()))
            if self._under_way[region] >= UNDER_WAY_MAX:
                self._soak.interval.calls["not offered"] += 1
            elif self._random.random() < WRITE_SHARE:
                if not self._is_over:
                    work = partial(self._write, region)
                    self._start(partial(self._timed, "write", region, due, work))
            elif self.is_reading:
                mode = self._random.choice(self._read_modes)
                work = partial(self.read, region, mode, self._counters.to_read(mode.recent))
                self._tasks.start_soon(self._timed, "read", region, due, work)

    async def _timed(
        self, kind: str, region: str, due: float, work: Callable[[], Awaitable[None]]
    ) -> None:
        self._under_way[region] += 1
        await work()
        self._under_way[region] -= 1
        interval = self._soak.interval
        interval.calls[kind] += 1
        interval.latencies[kind].add(self._progress.clock.monotonic() - due)
