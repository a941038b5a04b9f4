"""What goes wrong, and when: a `FaultSchedule`, drawn up front from a seed alone.

The kinds of fault come in rounds, each round in an order of its own: every kind comes before any
comes again, so that even a short run meets all of them, and a longer one meets them in ever other
company. After each round comes a time without new faults: merging needs every region at once, and
without merging no total can be wrong.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from ledger.local.front.faults import Fault, FaultRule

FIRST_SECONDS = 0.5
GAP_SECONDS = (0.4, 1.0)
RECOVERY_SECONDS = (5.0, 9.0)
DURATION_SECONDS = (0.5, 4.0)
LONG_SECONDS = (4.0, 10.0)
"""Longer than `settle`: an entry is folded only once it has arrived everywhere."""
LONG_SHARE = 0.2
RESTART_SECONDS = (0.1, 2.0)
STALL_SECONDS = (0.5, 12.0)
"""Up to several leases: another compactor has taken over when the stalled one resumes."""
DELAY_SECONDS = (2.0, 6.0)
"""Several observation delays: what is written later often arrives earlier."""
PROBABILITIES = (0.1, 0.3, 0.6)
_TRANSACTIONS = frozenset({"TransactWriteItems", "PutItem", "UpdateItem", "DeleteItem"})
_BATCHES = frozenset({"BatchWriteItem", "BatchGetItem"})
_OPERATIONS: dict[Fault, frozenset[str]] = {
    Fault.CONFLICT: _TRANSACTIONS,
    Fault.UNPROCESSED: _BATCHES,
}

Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LinkCut:
    """A link, or without `target` every link of a region, lets nothing through."""

    at: float
    ends: float
    source: str
    target: str | None = None

    def links(self, regions: Iterable[str]) -> set[Link]:
        """Return the links that are cut."""
        if self.target is not None:
            return {(self.source, self.target)}
        others = [region for region in regions if region != self.source]
        return {(self.source, other) for other in others} | {
            (other, self.source) for other in others
        }

    def __str__(self) -> str:
        where = f"{self.source} -> {self.target}" if self.target else f"all of {self.source}"
        return f"cut {where} for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class ReplicationDelay:
    """What is written takes up to `jitter` seconds more to arrive elsewhere."""

    at: float
    ends: float
    jitter: float

    def __str__(self) -> str:
        return f"lag of up to {self.jitter:.1f} s for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class RequestFault:
    """Some requests fail; all of them where a region is out."""

    at: float
    ends: float
    rule: FaultRule

    def __str__(self) -> str:
        where = ", ".join(sorted(self.rule.regions)) or "all regions"
        share = f"{self.rule.probability:.0%}"
        return f"{self.rule.kind} for {share} in {where} for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class ProcessFault:
    """A process is killed, and restarted after some seconds; or suspended that long."""

    at: float
    kind: Literal["kill", "stall"]
    process: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.kind} {self.process}, back after {self.seconds:.1f} s"


ScheduledFault = LinkCut | ReplicationDelay | RequestFault | ProcessFault


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds at one moment: links cut, faults, and the jitter if it is not the usual."""

    cut: frozenset[Link] = frozenset()
    rules: tuple[FaultRule, ...] = ()
    jitter: float | None = None


NO_FAULTS = Conditions()


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """All that goes wrong within `seconds`, in the order of time."""

    seed: int
    seconds: float
    regions: tuple[str, ...]
    faults: tuple[ScheduledFault, ...] = field(repr=False)

    @property
    def lasting(self) -> list[LinkCut | ReplicationDelay | RequestFault]:
        """The faults of the table, as against those of processes."""
        return [one for one in self.faults if not isinstance(one, ProcessFault)]

    def turns(self) -> list[float]:
        """Return the moments at which the conditions change, in order."""
        return sorted({moment for fault in self.lasting for moment in (fault.at, fault.ends)})

    def conditions(self, moment: float) -> Conditions:
        """Return what holds from a moment on."""
        now = [fault for fault in self.lasting if fault.at <= moment < fault.ends]
        cuts = [fault.links(self.regions) for fault in now if isinstance(fault, LinkCut)]
        jitters = [fault.jitter for fault in now if isinstance(fault, ReplicationDelay)]
        return Conditions(
            cut=frozenset().union(*cuts),
            rules=tuple(fault.rule for fault in now if isinstance(fault, RequestFault)),
            jitter=max(jitters, default=None),
        )


def draw(
    seed: int,
    seconds: float,
    *,
    regions: Sequence[str],
    compactors: Sequence[str],
    writers: Sequence[str],
) -> FaultSchedule:
    """Draw the schedule of a seed; the same arguments give the same one."""
    random = Random(f"chaos {seed}")  # noqa: S311 (repeatable, nothing secret)
    scheduler = FaultScheduler(random, seconds, regions, compactors, writers)
    faults: list[ScheduledFault] = []
    at = FIRST_SECONDS
    while at < seconds:
        for draw_one in random.sample(ROUND, len(ROUND)):
            if at < seconds:
                faults.append(draw_one(scheduler, at))
                at += random.uniform(*GAP_SECONDS)
        at += random.uniform(*RECOVERY_SECONDS)
    return FaultSchedule(seed, seconds, tuple(regions), tuple(faults))


@dataclass(frozen=True, slots=True)
class FaultScheduler:
    """Draws one fault of a kind that begins at a moment and is over within `seconds`."""

    random: Random
    seconds: float
    regions: Sequence[str]
    compactors: Sequence[str]
    writers: Sequence[str]

    def cut(self, at: float) -> LinkCut:
        """Cut a link in one direction."""
        source, target = self.random.sample(self.regions, 2)
        return LinkCut(at, self._ends(at), source, target)

    def isolation(self, at: float) -> LinkCut:
        """Cut a region off."""
        return LinkCut(at, self._ends(at), self.random.choice(self.regions))

    def delay(self, at: float) -> ReplicationDelay:
        """Delay replication."""
        return ReplicationDelay(at, self._ends(at), self.random.uniform(*DELAY_SECONDS))

    def fault(self, kind: Fault, at: float) -> RequestFault:
        """Make some requests fail, in one region or in all."""
        region = self.random.choice((*self.regions, None))
        regions = frozenset() if region is None else frozenset({region})
        operations = _OPERATIONS.get(kind, frozenset())
        rule = FaultRule(kind, self.random.choice(PROBABILITIES), operations, regions)
        return RequestFault(at, self._ends(at), rule)

    def outage(self, at: float) -> RequestFault:
        """Make every request to a region fail."""
        kind = self.random.choice((Fault.ERROR_500, Fault.THROTTLE, Fault.HANG))
        rule = FaultRule(kind, 1.0, regions=frozenset({self.random.choice(self.regions)}))
        ends = min(at + self.random.uniform(*DURATION_SECONDS), self.seconds)
        return RequestFault(at, ends, rule)

    def kill_compactor(self, at: float) -> ProcessFault:
        """Kill a compactor."""
        return self._kill(at, self.compactors)

    def kill_writer(self, at: float) -> ProcessFault:
        """Kill a writer."""
        return self._kill(at, self.writers)

    def stall_compactor(self, at: float) -> ProcessFault:
        """Suspend a compactor for a while."""
        seconds = min(self.random.uniform(*STALL_SECONDS), self.seconds - at)
        return ProcessFault(at, "stall", self.random.choice(self.compactors), seconds)

    def _kill(self, at: float, processes: Sequence[str]) -> ProcessFault:
        seconds = self.random.uniform(*RESTART_SECONDS)
        return ProcessFault(at, "kill", self.random.choice(processes), seconds)

    def _ends(self, at: float) -> float:
        is_long = self.random.random() < LONG_SHARE
        duration = self.random.uniform(*(LONG_SECONDS if is_long else DURATION_SECONDS))
        return min(at + duration, self.seconds)


Draw = Callable[[FaultScheduler, float], ScheduledFault]


def _request_fault(kind: Fault) -> Draw:
    return lambda scheduler, at: scheduler.fault(kind, at)


ROUND: tuple[Draw, ...] = (
    FaultScheduler.cut,
    FaultScheduler.cut,
    FaultScheduler.isolation,
    FaultScheduler.delay,
    FaultScheduler.delay,
    FaultScheduler.outage,
    FaultScheduler.kill_compactor,
    FaultScheduler.kill_compactor,
    FaultScheduler.stall_compactor,
    FaultScheduler.stall_compactor,
    FaultScheduler.kill_writer,
    *map(_request_fault, Fault),
)
"""The faults of one round."""
