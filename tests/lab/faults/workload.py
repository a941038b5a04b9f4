"""The workload: writers and readers of every region, which report calls and reads to a checker."""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from random import Random
from typing import Literal, Protocol

import anyio
from anyio.abc import TaskGroup

from lab.faults.calls import Call, CallResult, Kind, changes_of
from lab.faults.counters import RECENT_COUNTERS, Counters
from lab.faults.report import FaultProgress
from ledger.core.errors import ReadTooSlow, StoreError
from ledger.demo.harness.checker import Outcome
from ledger.demo.harness.digit_tags import TaggedChange
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
    "list": 2,
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


class Reading(Protocol):
    """A total as it was read."""

    @property
    def value(self) -> Decimal:
        """The total."""

    @property
    def versions(self) -> tuple[str, ...]:
        """The net changes that it rests on."""


class Reader(Protocol):
    """What reads totals in one region."""

    async def total(self, counter: str, *, max_age: float) -> Reading:
        """Return a total that is at most so old."""


class Writer(Protocol):
    """What makes calls in one region."""

    async def call(self, call: Call) -> CallResult | None:
        """Make a call; None if it can have no result."""


@dataclass(frozen=True, slots=True)
class ReadMode:
    """A way of reading: the maximum age of its totals, and how stale what they rest on may be.

    Most often one of the latest so many counters is read, by so many readers in each region.
    """

    kind: str
    ledgers: Mapping[str, Reader]
    max_age: float
    staleness: float
    recent: int = RECENT_COUNTERS
    readers: int = 1


class Workload:
    """The calls and reads of one run; no reads are begun while `is_reading` is unset."""

    def __init__(
        self,
        progress: FaultProgress,
        *,
        settings: Settings,
        writers: Mapping[str, Writer],
        read_modes: Sequence[ReadMode],
        tasks: TaskGroup,
    ) -> None:
        self.is_reading = True
        self._progress = progress
        self._checker = progress.checker
        self._clock = progress.clock
        self._horizon = settings.retry_horizon
        # An archive answers what is repeated later.
        self._answered = math.inf if settings.archive else self._horizon
        self._writers = dict(writers)
        self._read_modes = read_modes
        self._tasks = tasks
        self._random = Random(f"chaos work {progress.options.seed}")  # noqa: S311 (repeatable)
        self._counters = Counters(self._random)
        self._keyed: list[Call] = []
        self._versions: set[str] = set()
        self._followed = 0
        self._busy = 0
        self._is_over = False

    def start(self) -> None:
        """Start to write and to read in every region."""
        for region in self._writers:
            for _ in range(WRITERS_PER_REGION):
                self._start(partial(self._write_on, region))
            for mode in self._read_modes:
                for _ in range(mode.readers):
                    self._tasks.start_soon(self._read_on, region, mode)

    def take(self, changes: int) -> tuple[TaggedChange, ...]:
        """Return this many changes that were not made before, to be made by others."""
        return self._counters.take(changes)

    def counter_to_read(self) -> str:
        """Return a counter to be read by others."""
        return self._counters.to_read()

    def lose(self, region: str) -> None:
        """Write and read no more in a region."""
        del self._writers[region]

    async def stop_writing(self) -> None:
        """Begin no more calls, and wait until each that was begun has ended."""
        self._is_over = True
        while self._busy:
            await self._clock.sleep(READ_PAUSE_SECONDS)

    def _start(self, write: Callable[[], Awaitable[None]]) -> None:
        """Start to write beside the rest; `stop_writing` waits for its end."""
        self._busy += 1

        async def run() -> None:
            await write()
            self._busy -= 1

        self._tasks.start_soon(run)

    # Writing.

    async def _write_on(self, region: str) -> None:
        while True:
            await self._clock.sleep(self._random.expovariate(1 / WRITE_PAUSE_SECONDS))
            if self._is_over or region not in self._writers:
                return
            if self._progress.entries <= BACKLOG_ENTRIES_MAX:
                await self._write(region)

    async def _write(self, region: str) -> None:
        """Make a call of a kind that is drawn, or a burst of them."""
        [kind] = self._random.choices(list(KINDS), list(KINDS.values()))
        several = self._random.randint(1, CHANGES_AT_ONCE_MAX)
        if kind == "burst":
            async with anyio.create_task_group() as tasks:
                for change in self._counters.take_of_one(several):
                    tasks.start_soon(self.call, region, Call("record", (change,)))
        elif kind in {"keyed", "list"}:
            changes = self._counters.take(1 if kind == "keyed" else several)
            await self._write_keyed(region, Call(kind, changes, at=self._clock.now()))
        else:
            changes = self._counters.take(1 if kind == "record" else several)
            await self.call(region, Call(kind, changes))

    async def _write_keyed(self, region: str, call: Call) -> None:
        """Make a keyed call, which is repeated later in any region."""
        self._keyed.append(call)
        for _ in range(self._random.randrange(REPEATS_MAX + 1)):
            delay = self._random.random() * self._horizon * REPEATED_WITHIN_HORIZONS
            where = self._random.choice(list(self._writers))
            self._start(partial(self._repeat, where, call, delay))
        await self.call(region, call)

    async def repeat_late(self) -> None:
        """Repeat some keyed calls in every region, now that it is too late for all of them."""
        for call in self._random.sample(self._keyed, min(LATE_REPEATS_MAX, len(self._keyed))):
            for region in tuple(self._writers):
                await self._repeat(region, call)

    async def _repeat(self, region: str, call: Call, delay: float = 0.0) -> None:
        """Repeat a call after a while, and check whether it may end as it did."""
        await self._clock.sleep(delay)
        change, at = call.oldest
        age = (self._clock.now() - at).total_seconds() if at else 0.0
        outcome = await self.call(region, call)
        if outcome is not None:
            self._progress.repeats[outcome] += 1
            self._progress.add(
                self._checker.check_repeat(region, change, outcome, age=age, horizon=self._answered)
            )

    async def call(self, region: str, call: Call) -> Outcome | None:
        """Make a call in a region and report its outcome; None if its process died."""
        if region not in self._writers:
            return None
        self._progress.calls[call.kind] += 1
        self._checker.begin_call(call.changes)
        result = await self._writers[region].call(call)
        at = self._progress.seconds
        if result is None:
            self._progress.calls["without answer"] += 1
            self._checker.end_call(region, call.changes, "unknown", at=at)
            return None
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
            self._start(partial(self._retry, region, result))
        return result.outcome

    async def _retry(self, region: str, result: CallResult) -> None:
        """Write the entries of an unknown outcome again, in this region or in others."""
        changes = changes_of(result.entries)
        call = Call("retry", changes, entries=result.entries, together=result.together)
        for _ in range(self._random.randrange(RETRIES_MAX + 1)):
            delay = self._random.random() * self._horizon
            await self._repeat(self._random.choice((region, *self._writers)), call, delay)

    # Reading.

    async def _read_on(self, region: str, mode: ReadMode) -> None:
        while region in self._writers:
            await self._clock.sleep(self._random.expovariate(1 / READ_PAUSE_SECONDS))
            if self.is_reading and region in self._writers:
                await self.read(region, mode, self._counters.to_read(mode.recent))

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
            if region not in self._writers:
                return
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
            for region in tuple(self._writers) if self.is_reading else ():
                await self.read(region, self._read_modes[0], counter)
        self._followed -= 1
