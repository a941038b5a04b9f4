"""Writers of one counter: what they send, what goes wrong with it, what they are told."""

from collections import Counter as Counts
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from statistics import quantiles

from ledger.core.errors import StoreError
from ledger.lab.compare.ground import Ground
from ledger.lab.simulator.randomness import stream
from ledger.primitives.counters import (
    METHODS,
    AddOutcome,
    Applied,
    Counter,
    Rejected,
    Unknown,
    new_token,
)
from ledger.runtime.metrics import summed
from ledger.runtime.tasks import run_all
from ledger.store.wrappers.faults import READS, Call, Fault, FaultyStore, Lost, NeverArrived

APPLIED_SHARE = 0.5
"""Of the writes without an answer: the answer was lost, not the request."""
PERCENTS = 100

Tell = Callable[[str], None]


class Losing:
    """Lets a share of one writer's writes go without an answer, as its own draws alone decide."""

    def __init__(self, randomness: Random, share: float) -> None:
        self.writes = 0
        self._random = randomness
        self._share = share

    def __call__(self, call: Call) -> Fault | None:
        """Draw what becomes of a call; reads go well."""
        if call.operation in READS:
            return None
        self.writes += 1
        is_lost, is_applied = self._random.random(), self._random.random()
        if is_lost >= self._share:
            return None
        return Lost() if is_applied < APPLIED_SHARE else NeverArrived()


@dataclass(slots=True)
class Told:
    """What callers were told, and how long it took."""

    applied: int = 0
    unknown: int = 0
    refused: int = 0
    rejected: Counts[str] = field(default_factory=Counts)
    seconds: list[float] = field(default_factory=list)

    @property
    def all_rejected(self) -> int:
        """How many changes were rejected, for whatever reason."""
        return sum(self.rejected.values())

    def milliseconds(self, percent: int) -> float:
        """Return within how long this many in a hundred calls were over."""
        if len(self.seconds) == 1:
            return 1e3 * self.seconds[0]
        return 1e3 * quantiles(self.seconds, n=PERCENTS, method="inclusive")[percent - 1]


@dataclass(slots=True)
class Writer:
    """One process that changes a counter: with a store, draws and misfortune of its own."""

    ground: Ground
    method: str
    counter: Counter
    losing: Losing
    randomness: Random
    told: Told

    async def add(self, change: int, token: str | None = None) -> bool:
        """Make one change and note what we are told; returns whether that is "applied"."""
        clock, told = self.ground.clock, self.told
        started = clock.monotonic()
        outcome: AddOutcome | None = None
        with suppress(StoreError):
            outcome = await self.counter.add(change, token=token or self.token())
        told.seconds.append(clock.monotonic() - started)
        match outcome:
            case None:
                told.refused += 1
            case Applied():
                told.applied += 1
            case Rejected(reason):
                told.rejected[reason] += 1
            case Unknown():
                told.unknown += 1
        return isinstance(outcome, Applied)

    def token(self) -> str:
        """Return a token for a change made now."""
        return new_token(self.ground.clock.now(), self.randomness)


@dataclass(frozen=True, slots=True)
class Cast:
    """The writers of one counter, made alike; `lost` as in the options."""

    ground: Ground
    method: str
    name: str
    seed: int
    lost: float = 0.0
    limits: tuple[tuple[str, int], ...] = ()
    told: Told = field(default_factory=Told)

    def writer(self, who: str, region: str | None = None, *, is_sure: bool = False) -> Writer:
        """Return a writer of a region, at home by default; nothing befalls one that `is_sure`."""
        where = region or self.ground.home
        label = f"{self.method}/{self.name}/{where}/{who}"
        losing = Losing(stream(self.seed, f"{label}/lost"), 0.0 if is_sure else self.lost)
        clock = self.ground.clock
        counter = METHODS[self.method].make(
            FaultyStore(self.ground.stores[where], losing, clock=clock),
            f"{self.name}-{self.method}",
            clock=clock,
            randomness=stream(self.seed, f"{label}/tags"),
            **dict(self.limits),
        )
        draws = stream(self.seed, f"{label}/tokens")
        told = Told() if is_sure else self.told
        return Writer(self.ground, self.method, counter, losing, draws, told)

    async def value(self, region: str | None = None) -> int:
        """Return the value that a region shows."""
        return int(await self.writer("reader", region, is_sure=True).counter.value())


async def share(writers: Sequence[Writer], changes: int, change: int = 1) -> None:
    """Let writers make so many changes between them, all at once, each one after the other."""

    async def work(writer: Writer, count: int) -> None:
        for _ in range(count):
            await writer.add(change)

    shares = list(_shares(changes, len(writers)))
    jobs = [partial(work, one, count) for one, count in zip(writers, shares, strict=True)]
    await run_all(jobs, at_once=len(jobs))


def _shares(changes: int, writers: int) -> Iterator[int]:
    for place in range(writers):
        yield changes // writers + (place < changes % writers)


@dataclass(frozen=True, slots=True)
class Spent:
    """What all stores of a ground have taken so far."""

    write_units: float
    read_units: float
    repeats: float

    @classmethod
    def of(cls, ground: Ground) -> "Spent":
        """Read the meters."""
        units = partial(summed, ground.registry, "ledger_consumed_units_total")
        repeats = summed(ground.registry, "ledger_retries_total")
        return cls(units(kind="write"), units(kind="read"), repeats)

    def since(self, before: "Spent") -> "Spent":
        """Return what was taken since then."""
        return Spent(
            self.write_units - before.write_units,
            self.read_units - before.read_units,
            self.repeats - before.repeats,
        )
