"""What goes wrong, and when: a `FaultSchedule`, drawn up front from a seed alone.

The kinds of fault come in rounds, each round in an order of its own: every kind comes before any
comes again, so that even a short run meets all of them, and a longer one meets them in ever other
company. After each round comes a time without new faults: merging needs every region at once, and
without merging no total can be wrong.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import permutations
from random import Random

from ledger.demo.harness.report import counts_text
from ledger.local.front.faults import PASSING, Fault, FaultRule

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
SUSPENSION_SECONDS = (2.0, 7.0)
"""A writer's: longer than a cached total may be old, too short for its last id to be forgotten.

The local table takes what is sent long after it was signed; AWS would not.
"""
CLOCK_OFF_SECONDS = ((2.5, 6.0), (6.0, 900.0))
"""As often some seconds, by which a late repeat seems timely, as up to some minutes."""
CLOCK_LASTS_SECONDS = (2.0, 6.0)
LOSS_SHARE = (0.25, 0.45)
"""Of the run: when the home begins to be lost."""
LEAVING_SECONDS = 3.0
DELAY_SECONDS = (2.0, 6.0)
"""Several observation delays: what is written later often arrives earlier."""
PROBABILITIES = (0.1, 0.3, 0.6)
_STATEMENTS = "BatchExecuteStatement"
_TRANSACTIONS = frozenset(
    {"TransactWriteItems", "PutItem", "UpdateItem", "DeleteItem", _STATEMENTS}
)
_BATCHES = frozenset({"BatchWriteItem", "BatchGetItem", _STATEMENTS})
_OPERATIONS: dict[Fault, frozenset[str]] = {
    Fault.CONFLICT: _TRANSACTIONS,
    Fault.UNPROCESSED: _BATCHES,
}

Link = tuple[str, str]


class Profile(StrEnum):
    """Which faults a run has beside the usual: of all kinds, or more of one kind."""

    MIXED = "mixed"
    SUSPENSION = "suspension"
    SKEW = "skew"
    LOST_HOME = "lost-home"
    SETTINGS = "settings"


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds at one moment: links cut, faults, and the jitter if it is not the usual.

    `clocks` are regions with the seconds that their clocks are ahead, below 0 behind.
    """

    cut: frozenset[Link] = frozenset()
    rules: tuple[FaultRule, ...] = ()
    jitter: float | None = None
    clocks: tuple[tuple[str, float], ...] = ()


NO_FAULTS = Conditions()


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """Conditions of the table that hold from `at` until `ends`, or a process that is away then.

    A process is stalled or suspended until the fault ends; or killed, and started again when the
    fault ends; or, if it is to be `ahead`, started again at once with its clock wrong until then.
    """

    at: float
    ends: float
    kind: str
    where: str
    conditions: Conditions = NO_FAULTS
    process: str = ""
    ahead: float = 0.0

    def __str__(self) -> str:
        return f"{self.kind} {self.where} for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class Loss:
    """The home is lost for good at a moment of the run, and another region is to be home."""

    at: float
    home: str
    target: str


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """All that goes wrong within `seconds`, in the order of time."""

    seed: int
    seconds: float
    faults: tuple[ScheduledFault, ...] = field(repr=False)
    loss: Loss | None = None

    def __str__(self) -> str:
        counts = counts_text(Counter(fault.kind for fault in self.faults))
        return f"schedule of seed {self.seed}: {self.seconds:g} s, {counts}"

    def turns(self) -> list[float]:
        """Return the moments of the run at which a fault begins or ends, in order."""
        moments = {moment for fault in self.faults for moment in (fault.at, fault.ends)}
        return sorted(moment for moment in moments if moment <= self.seconds)

    def conditions(self, moment: float) -> Conditions:
        """Return what holds from a moment on."""
        now = [fault.conditions for fault in self.faults if fault.at <= moment < fault.ends]
        return Conditions(
            cut=frozenset().union(*(fault.cut for fault in now)),
            rules=tuple(rule for fault in now for rule in fault.rules),
            jitter=max((fault.jitter for fault in now if fault.jitter is not None), default=None),
            clocks=tuple(clock for fault in now for clock in fault.clocks),
        )


def draw(
    seed: int,
    seconds: float,
    *,
    regions: Sequence[str],
    compactors: Sequence[str],
    writers: Sequence[str],
    profile: Profile = Profile.MIXED,
) -> FaultSchedule:
    """Draw the schedule of a seed; the same arguments give the same one."""
    random = Random(f"chaos {seed}")  # noqa: S311 (repeatable, nothing secret)
    processes = {"compactor": compactors, "writer": writers}
    scheduler = FaultScheduler(random, seconds, regions, processes)
    faults = scheduler.rounds(ROUNDS[profile])
    if profile is not Profile.LOST_HOME:
        return FaultSchedule(seed, seconds, tuple(faults))
    loss, leaving = scheduler.lose_home()
    faults = sorted((*faults, *leaving), key=lambda fault: fault.at)
    return FaultSchedule(seed, seconds, tuple(faults), loss)


@dataclass(frozen=True, slots=True)
class FaultScheduler:
    """Draws one fault of a kind that begins at a moment and is over within `seconds`."""

    random: Random
    seconds: float
    regions: Sequence[str]
    processes: Mapping[str, Sequence[str]]
    gap_seconds: tuple[float, float] = GAP_SECONDS

    def rounds(self, kinds: Sequence[Callable[..., ScheduledFault]]) -> list[ScheduledFault]:
        """Draw faults of these kinds, round after round, until the time is over."""
        faults: list[ScheduledFault] = []
        at = FIRST_SECONDS
        while at < self.seconds:
            for draw_one in self.random.sample(kinds, len(kinds)):
                if at < self.seconds:
                    faults.append(draw_one(self, at=at))
                    at += self.random.uniform(*self.gap_seconds)
            at += self.random.uniform(*RECOVERY_SECONDS)
        return faults

    def cut(self, *, at: float) -> ScheduledFault:
        """Cut a link in one direction."""
        source, target = self.random.sample(self.regions, 2)
        conditions = Conditions(cut=frozenset({(source, target)}))
        return ScheduledFault(at, self._ends(at), "cut", f"{source} -> {target}", conditions)

    def isolation(self, *, at: float) -> ScheduledFault:
        """Cut a region off."""
        ends, region = self._ends(at), self.random.choice(self.regions)
        links = frozenset(link for link in permutations(self.regions, 2) if region in link)
        return ScheduledFault(at, ends, "isolation", f"of {region}", Conditions(cut=links))

    def delay(self, *, at: float) -> ScheduledFault:
        """Delay replication: what is written takes up to `jitter` seconds more to arrive."""
        ends, jitter = self._ends(at), self.random.uniform(*DELAY_SECONDS)
        conditions = Conditions(jitter=jitter)
        return ScheduledFault(at, ends, "lag", f"of up to {jitter:.1f} s", conditions)

    def fault(self, *, kind: Fault, at: float) -> ScheduledFault:
        """Make some requests fail, in one region or in all."""
        region = self.random.choice((*self.regions, None))
        regions = frozenset() if region is None else frozenset({region})
        operations = _OPERATIONS.get(kind, frozenset())
        rule = FaultRule(kind, self.random.choice(PROBABILITIES), operations, regions)
        return _failing(at, self._ends(at), rule)

    def outage(self, *, at: float) -> ScheduledFault:
        """Make every request to a region fail."""
        kind = self.random.choice((Fault.ERROR_500, Fault.THROTTLE, Fault.HANG))
        rule = FaultRule(kind, 1.0, regions=frozenset({self.random.choice(self.regions)}))
        return _failing(at, min(at + self.random.uniform(*DURATION_SECONDS), self.seconds), rule)

    def kill(self, *, kind: str, at: float) -> ScheduledFault:
        """Kill a process of a kind."""
        ends = at + self.random.uniform(*RESTART_SECONDS)
        name = self.random.choice(self.processes[kind])
        return ScheduledFault(at, ends, f"kill {kind}", name, process=name)

    def restart(self, *, kind: str, at: float) -> ScheduledFault:
        """Ask a process of a kind to end, and start it again once it has."""
        ends = at + self.random.uniform(*RESTART_SECONDS)
        name = self.random.choice(self.processes[kind])
        return ScheduledFault(at, ends, f"restart {kind}", name, process=name)

    def stall(self, *, kind: str, at: float) -> ScheduledFault:
        """Suspend a process of a kind for a while."""
        ends = min(at + self.random.uniform(*STALL_SECONDS), self.seconds)
        name = self.random.choice(self.processes[kind])
        return ScheduledFault(at, ends, f"stall {kind}", name, process=name)

    def suspend(self, *, kind: str, at: float) -> ScheduledFault:
        """Suspend a process of a kind as a virtual machine is: its monotonic clocks stand still."""
        ends = min(at + self.random.uniform(*SUSPENSION_SECONDS), self.seconds)
        name = self.random.choice(self.processes[kind])
        return ScheduledFault(at, ends, f"suspend {kind}", name, process=name)

    def wrong_clock(self, *, kind: str, at: float) -> ScheduledFault:
        """Let the clock of a process be wrong from its next start on."""
        ahead, ends = self._wrong(at)
        name = self.random.choice(self.processes[kind])
        where = f"of {name} by {ahead:+.1f} s"
        return ScheduledFault(at, ends, f"clock of a {kind}", where, process=name, ahead=ahead)

    def wrong_date(self, *, at: float) -> ScheduledFault:
        """Let the clock of a region be wrong."""
        (ahead, ends), region = self._wrong(at), self.random.choice(self.regions)
        conditions = Conditions(clocks=((region, ahead),))
        return ScheduledFault(at, ends, "clock", f"of {region} by {ahead:+.1f} s", conditions)

    def lose_home(self) -> tuple[Loss, list[ScheduledFault]]:
        """Lose the home: what it writes last arrives in other regions in part, then it is gone."""
        home, *others = self.regions
        begins = self.seconds * self.random.uniform(*LOSS_SHARE)
        gone = begins + LEAVING_SECONDS
        leaving = []
        for region in others:
            at, link = self.random.uniform(begins, gone), frozenset({(home, region)})
            leaving.append(
                ScheduledFault(at, self.seconds, "cut", f"{home} -> {region}", Conditions(cut=link))
            )
        links = frozenset(link for link in permutations(self.regions, 2) if home in link)
        rule = FaultRule(Fault.ERROR_500, 1.0, regions=frozenset({home}))
        conditions = Conditions(cut=links, rules=(rule,))
        leaving.append(ScheduledFault(gone, self.seconds, "loss", f"of {home}", conditions))
        return Loss(gone, home, self.random.choice(others)), leaving

    def _wrong(self, at: float) -> tuple[float, float]:
        """Return by how much a clock is wrong, and until when."""
        seconds = self.random.uniform(*self.random.choice(CLOCK_OFF_SECONDS))
        lasts = self.random.uniform(*CLOCK_LASTS_SECONDS)
        return self.random.choice((-1, 1)) * seconds, min(at + lasts, self.seconds)

    def _ends(self, at: float) -> float:
        is_long = self.random.random() < LONG_SHARE
        duration = self.random.uniform(*(LONG_SECONDS if is_long else DURATION_SECONDS))
        return min(at + duration, self.seconds)


def _failing(at: float, ends: float, rule: FaultRule) -> ScheduledFault:
    where = ", ".join(sorted(rule.regions)) or "all regions"
    conditions = Conditions(rules=(rule,))
    return ScheduledFault(at, ends, rule.kind, f"{rule.probability:.0%} in {where}", conditions)


KILLED_WRITER = partial(FaultScheduler.kill, kind="writer")
USUAL: Sequence[Callable[..., ScheduledFault]] = (
    *[FaultScheduler.cut] * 2,
    FaultScheduler.isolation,
    *[FaultScheduler.delay] * 2,
    FaultScheduler.outage,
    *[partial(FaultScheduler.kill, kind="compactor")] * 2,
    *[partial(FaultScheduler.stall, kind="compactor")] * 2,
    KILLED_WRITER,
    *(partial(FaultScheduler.fault, kind=kind) for kind in PASSING),
)
_SUSPENSION = (
    partial(FaultScheduler.suspend, kind="compactor"),
    *[partial(FaultScheduler.suspend, kind="writer")] * 2,
)
_SKEW = (
    FaultScheduler.wrong_date,
    partial(FaultScheduler.wrong_clock, kind="compactor"),
    partial(FaultScheduler.wrong_clock, kind="writer"),
)
ROUNDS: Mapping[Profile, Sequence[Callable[..., ScheduledFault]]] = {
    Profile.MIXED: (*USUAL, *_SUSPENSION, *_SKEW),
    Profile.SUSPENSION: (*USUAL, *_SUSPENSION * 3),
    Profile.SKEW: (*USUAL, *_SKEW * 3),
    Profile.LOST_HOME: USUAL,
    Profile.SETTINGS: USUAL,
}
"""The faults of one round."""
SERVICE_ROUND: Sequence[Callable[..., ScheduledFault]] = (
    *(fault for fault in USUAL if fault is not KILLED_WRITER),
    *[partial(FaultScheduler.kill, kind="instance")] * 2,
    *[partial(FaultScheduler.restart, kind="instance")] * 2,
    partial(FaultScheduler.stall, kind="instance"),
)
"""Those where instances of the service take the place of writers."""
