"""The workload: writers and readers of every region, which report calls and reads to a checker."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from ledger.core.errors import ReadTooSlow, StoreError
from ledger.core.values import Entry
from ledger.lab.chaos.calls import Call, CallResult, Kind, changes_of
from ledger.lab.chaos.counters import Counters
from ledger.lab.chaos.processes import WriterProcess
from ledger.lab.chaos.report import ChaosProgress
from ledger.lab.harness.checker import Outcome, TaggedChecker
from ledger.lab.harness.tagged import TaggedChange
from ledger.ledger import Ledger
from ledger.runtime.clock import Clock
from ledger.settings import Settings

WRITERS_PER_REGION = 4
WRITE_PAUSE_SECONDS = 0.5
BACKLOG_ENTRIES_MAX = 1_000
"""Above this many entries in the home region nothing new is written, so that merging keeps up."""
CHANGES_AT_ONCE_MAX = 6
KINDS: Mapping[Kind | Literal["burst"], int] = {
    "record": 4,
    "keyed": 6,
    "many": 2,
    "together": 2,
    "burst": 1,
}
"""How often each kind of call is made; a burst is some `record` of one counter at once."""
REPEATS_MAX = 3
RETRIES_MAX = 3
REPEATED_WITHIN_HORIZONS = 3.0
"""A keyed call is repeated up to this many retry horizons later: most often too late."""
LATE_REPEATS_MAX = 20
READ_PAUSE_SECONDS = 0.1
FOLLOWED_SECONDS = (0.0, 0.5, 1.5, 3.0, 6.0)
"""When a counter is read again in every region after a new net change, while that spreads."""
FOLLOWED_AT_ONCE_MAX = 12
CACHED_SECONDS = 1.5
EVENTUAL_SECONDS = 1.0
"""How far an eventually consistent read may be behind: AWS promises no more than "usually"."""


@dataclass(frozen=True, slots=True)
class ReadMode:
    """A way of reading: the maximum age of its totals, and how stale what they rest on may be."""

    kind: str
    ledgers: Mapping[str, Ledger]
    max_age: float
    staleness: float


class Workload:
    """The calls and reads of one run; no reads are begun while `is_reading` is unset."""

    def __init__(
        self,
        checker: TaggedChecker,
        progress: ChaosProgress,
        *,
        settings: Settings,
        writers: Mapping[str, WriterProcess],
        read_modes: Sequence[ReadMode],
        clock: Clock,
        tasks: TaskGroup,
    ) -> None:
        self.is_reading = True
        self._checker = checker
        self._progress = progress
        self._settings = settings
        self._writers = writers
        self._read_modes = read_modes
        self._clock = clock
        self._tasks = tasks
        self._random = Random(f"chaos work {progress.options.seed}")  # noqa: S311 (repeatable)
        self._counters = Counters(self._random)
        self._numbers = itertools.count()
        self._keyed: list[tuple[TaggedChange, datetime]] = []
        self._versions: set[str] = set()
        self._followed = 0
        self._busy = 0
        self._is_over = False

    def start(self) -> None:
        """Start to write and to read in every region."""
        for region in self._writers:
            for _ in range(WRITERS_PER_REGION):
                self._tasks.start_soon(self._write_on, region)
            for mode in self._read_modes:
                self._tasks.start_soon(self._read_on, region, mode)

    async def stop_writing(self) -> None:
        """Begin no more calls, and wait until each that was begun has ended."""
        self._is_over = True
        while self._busy:
            await self._clock.sleep(READ_PAUSE_SECONDS)

    # Writing.

    async def _write_on(self, region: str) -> None:
        while True:
            await self._clock.sleep(self._random.expovariate(1 / WRITE_PAUSE_SECONDS))
            if self._is_over:
                return
            if self._progress.entries > BACKLOG_ENTRIES_MAX:
                continue
            [kind] = self._random.choices(list(KINDS), list(KINDS.values()))
            several = self._random.randint(1, CHANGES_AT_ONCE_MAX)
            if kind == "burst":
                async with anyio.create_task_group() as tasks:
                    for change in self._counters.take_of_one(several):
                        tasks.start_soon(self._write, region, "record", (change,))
            else:
                is_single = kind in {"record", "keyed"}
                changes = self._counters.take(1 if is_single else several)
                await self._write(region, kind, changes)

    async def _write(self, region: str, kind: Kind, changes: tuple[TaggedChange, ...]) -> None:
        if kind != "keyed":
            await self._ask(region, kind, changes)
            return
        at = self._clock.now()
        self._keyed.append((changes[0], at))
        for _ in range(self._random.randrange(REPEATS_MAX + 1)):
            delay = self._random.random() * self._settings.retry_horizon * REPEATED_WITHIN_HORIZONS
            where = self._random.choice(list(self._writers))
            self._busy += 1
            self._tasks.start_soon(self._repeat_later, delay, where, changes, at)
        await self._ask(region, kind, changes, at=at)

    async def _repeat_later(
        self, delay: float, region: str, changes: tuple[TaggedChange, ...], at: datetime
    ) -> None:
        await self._clock.sleep(delay)
        await self._repeat(region, changes, at)
        self._busy -= 1

    async def _repeat(self, region: str, changes: tuple[TaggedChange, ...], at: datetime) -> None:
        """Repeat a keyed call, and check whether it may end as it did."""
        age = self._age(at)
        outcome = await self._ask(region, "keyed", changes, at=at)
        self._check_repeat(region, changes[0], outcome, age)

    async def repeat_late(self) -> None:
        """Repeat some keyed calls in every region, now that it is too late for all of them."""
        some = self._random.sample(self._keyed, min(LATE_REPEATS_MAX, len(self._keyed)))
        for change, at in some:
            for region in self._writers:
                await self._repeat(region, (change,), at)

    async def _ask(
        self,
        region: str,
        kind: Kind,
        changes: tuple[TaggedChange, ...],
        *,
        at: datetime | None = None,
        entries: tuple[Entry, ...] = (),
        together: bool = False,
    ) -> Outcome | None:
        """Make a call in a region and report its outcome; None if its process died."""
        key = None if at is None else f"key {changes[0][0]} {changes[0][1]}"
        number = next(self._numbers)
        call = Call(number, kind, changes, key, at, entries, together)
        self._busy += 1
        self._progress.calls[kind] += 1
        self._checker.begin_call(changes)
        result = await self._writers[region].call(call)
        self._take(region, call, result)
        self._busy -= 1
        return result.outcome if result else None

    def _take(self, region: str, call: Call, result: CallResult | None) -> None:
        at = self._progress.seconds
        if result is None:
            self._progress.calls["without answer"] += 1
            self._checker.end_call(region, call.changes, "unknown", at=at)
            return
        if result.error:
            text = f"{call.kind} of {call.changes} in {region}: {result.error}"
            self._progress.add(self._checker.violation("errors", text, call.changes[0][0]))
        # Without entries the outcome is that of every change.
        left = set(changes_of(result.entries) or call.changes)
        unknown = [change for change in call.changes if change in left]
        durable = [change for change in call.changes if change not in left]
        self._checker.end_call(region, unknown, result.outcome, at=at)
        self._checker.end_call(region, durable, "acknowledged", at=at)
        if result.entries and call.kind != "retry":
            self._busy += 1
            self._tasks.start_soon(self._retry, region, result)

    async def _retry(self, region: str, result: CallResult) -> None:
        """Write the entries of an unknown outcome again, in this region or in others."""
        changes = changes_of(result.entries)
        for _ in range(self._random.randrange(RETRIES_MAX + 1)):
            await self._clock.sleep(self._random.random() * self._settings.retry_horizon)
            where = self._random.choice((region, *self._writers))
            oldest = min(result.entries, key=lambda entry: entry.id)
            age = self._age(oldest.at)
            outcome = await self._ask(
                where, "retry", changes, entries=result.entries, together=result.together
            )
            self._check_repeat(where, changes_of([oldest])[0], outcome, age)
        self._busy -= 1

    def _check_repeat(
        self, region: str, change: TaggedChange, outcome: Outcome | None, age: float
    ) -> None:
        if outcome is not None:
            self._progress.repeats[outcome] += 1
            horizon = self._settings.retry_horizon
            violation = self._checker.check_repeat(
                region, change, outcome, age=age, horizon=horizon
            )
            self._progress.add(violation)

    def _age(self, at: datetime | None) -> float:
        return (self._clock.now() - at).total_seconds() if at else 0.0

    # Reading.

    async def _read_on(self, region: str, mode: ReadMode) -> None:
        while True:  # until cancelled
            await self._clock.sleep(self._random.expovariate(1 / READ_PAUSE_SECONDS))
            if self.is_reading:
                await self.read(region, mode, self._counters.to_read())

    async def read(self, region: str, mode: ReadMode, counter: str) -> None:
        """Read a counter and check its total, if it can be read."""
        progress, checker = self._progress, self._checker
        read = checker.begin_read(
            mode.kind, region, counter, at=progress.seconds, staleness=mode.staleness
        )
        try:
            total = await mode.ledgers[region].total(counter, max_age=mode.max_age)
        except (StoreError, ReadTooSlow):
            progress.unread += 1
            return
        except Exception as error:  # noqa: BLE001 (a total that cannot be read is a violation)
            text = f"{mode.kind} read of {counter} in {region}: {error!r}"
            progress.add(checker.violation("errors", text, counter))
            return
        progress.add(checker.end_read(read, total.value, at=progress.seconds))
        if not self._versions.issuperset(total.versions):
            self._versions.update(total.versions)
            self._tasks.start_soon(self._follow, counter)

    async def _follow(self, counter: str) -> None:
        """Read a counter some more times in every region, unless enough others are followed."""
        if self._followed >= FOLLOWED_AT_ONCE_MAX:
            return
        self._followed += 1
        for pause in FOLLOWED_SECONDS:
            await self._clock.sleep(self._random.uniform(0.0, pause))
            for region in self._writers if self.is_reading else ():
                await self.read(region, self._read_modes[0], counter)
        self._followed -= 1
