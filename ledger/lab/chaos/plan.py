"""What goes wrong, and when: drawn up front from a seed and from nothing else; pure.

The kinds of trouble are dealt like cards: each turns up before any turns up again, so that even a
short run meets all of them, and a longer one meets them in ever other company. After each deck
comes a fair spell: merging needs every region at once, and there is no wrong total without merging.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from ledger.local.front.faults import Fault, FaultRule

FIRST_SECONDS = 0.5
GAP_SECONDS = (0.4, 1.0)
FAIR_SECONDS = (5.0, 9.0)
LASTS_SECONDS = (0.5, 4.0)
LONG_SECONDS = (4.0, 10.0)
"""Longer than it takes an entry to settle: it is folded only once it has arrived everywhere."""
LONG_SHARE = 0.2
BACK_SECONDS = (0.1, 2.0)
STALL_SECONDS = (0.5, 12.0)
"""Up to several leases: another has taken over when the stalled one wakes."""
LATE_SECONDS = (2.0, 6.0)
"""Several holds: what is written later often arrives earlier."""
CHANCES = (0.1, 0.3, 0.6)
_TRANSACTIONS = frozenset({"TransactWriteItems", "PutItem", "UpdateItem", "DeleteItem"})
_BATCHES = frozenset({"BatchWriteItem", "BatchGetItem"})
_WHERE: dict[Fault, frozenset[str]] = {Fault.CONFLICT: _TRANSACTIONS, Fault.UNPROCESSED: _BATCHES}

Link = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Cut:
    """A time in which a link, or without `target` every link of a region, lets nothing through."""

    at: float
    ends: float
    source: str
    target: str | None = None

    def links(self, regions: Iterable[str]) -> set[Link]:
        """Return the links that are cut."""
        if self.target is not None:
            return {(self.source, self.target)}
        others = [region for region in regions if region != self.source]
        return {(self.source, one) for one in others} | {(one, self.source) for one in others}

    def __str__(self) -> str:
        where = f"{self.source} -> {self.target}" if self.target else f"all of {self.source}"
        return f"cut {where} for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class Late:
    """A time in which whatever is written takes up to `jitter` seconds more to arrive elsewhere."""

    at: float
    ends: float
    jitter: float

    def __str__(self) -> str:
        return f"lag of up to {self.jitter:.1f} s for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class Trouble:
    """A time in which a fault befalls some requests; with certainty where a region is out."""

    at: float
    ends: float
    rule: FaultRule

    def __str__(self) -> str:
        where = ", ".join(sorted(self.rule.regions)) or "all regions"
        share = f"{self.rule.probability:.0%}"
        return f"{self.rule.kind} for {share} in {where} for {self.ends - self.at:.1f} s"


@dataclass(frozen=True, slots=True)
class Strike:
    """A blow to a process: killed, and started again after some seconds; or stopped that long."""

    at: float
    blow: Literal["kill", "stall"]
    victim: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.blow} {self.victim}, back after {self.seconds:.1f} s"


Event = Cut | Late | Trouble | Strike


@dataclass(frozen=True, slots=True)
class Weather:
    """What holds at one moment: links cut, faults, and the jitter if it is not the usual."""

    cut: frozenset[Link] = frozenset()
    rules: tuple[FaultRule, ...] = ()
    jitter: float | None = None


CALM = Weather()


@dataclass(frozen=True, slots=True)
class Plan:
    """All that goes wrong within `seconds`, in the order of time."""

    seed: int
    seconds: float
    regions: tuple[str, ...]
    events: tuple[Event, ...] = field(repr=False)

    def turns(self) -> list[float]:
        """Return the moments at which the weather changes, in order."""
        lasting = [event for event in self.events if not isinstance(event, Strike)]
        return sorted({moment for event in lasting for moment in (event.at, event.ends)})

    def weather(self, moment: float) -> Weather:
        """Return what holds from a moment on."""
        now = [
            event
            for event in self.events
            if not isinstance(event, Strike) and event.at <= moment < event.ends
        ]
        cuts = [event.links(self.regions) for event in now if isinstance(event, Cut)]
        jitters = [event.jitter for event in now if isinstance(event, Late)]
        return Weather(
            cut=frozenset().union(*cuts),
            rules=tuple(event.rule for event in now if isinstance(event, Trouble)),
            jitter=max(jitters, default=None),
        )

    def strikes(self) -> list[Strike]:
        """Return the blows in the order of time."""
        return [event for event in self.events if isinstance(event, Strike)]


def draw(
    seed: int,
    seconds: float,
    *,
    regions: Sequence[str],
    compactors: Sequence[str],
    writers: Sequence[str],
) -> Plan:
    """Draw the plan of a seed; the same arguments give the same plan."""
    random = Random(f"chaos {seed}")  # noqa: S311 (repeatable, nothing secret)
    dealer = _Dealer(random, seconds, regions, compactors, writers)
    events: list[Event] = []
    at = FIRST_SECONDS
    while at < seconds:
        for card in random.sample(CARDS, len(CARDS)):
            if at < seconds:
                events.append(card(dealer, at))
                at += random.uniform(*GAP_SECONDS)
        at += random.uniform(*FAIR_SECONDS)
    return Plan(seed, seconds, tuple(regions), tuple(events))


class _Dealer:
    """Draws one event of a kind, beginning at a moment."""

    def __init__(
        self,
        random: Random,
        seconds: float,
        regions: Sequence[str],
        compactors: Sequence[str],
        writers: Sequence[str],
    ) -> None:
        self._random = random
        self._seconds = seconds
        self._regions = regions
        self._compactors = compactors
        self._writers = writers

    def cut(self, at: float) -> Cut:
        """Cut a link in one direction."""
        source, target = self._random.sample(self._regions, 2)
        return Cut(at, self._ends(at), source, target)

    def island(self, at: float) -> Cut:
        """Cut a region off."""
        return Cut(at, self._ends(at), self._random.choice(self._regions))

    def late(self, at: float) -> Late:
        """Let replication take long."""
        return Late(at, self._ends(at), self._random.uniform(*LATE_SECONDS))

    def fault(self, kind: Fault, at: float) -> Trouble:
        """Let some requests fail, in one region or in all."""
        region = self._random.choice((*self._regions, None))
        regions = frozenset() if region is None else frozenset({region})
        rule = FaultRule(kind, self._random.choice(CHANCES), _WHERE.get(kind, frozenset()), regions)
        return Trouble(at, self._ends(at), rule)

    def outage(self, at: float) -> Trouble:
        """Let every request to a region fail."""
        kind = self._random.choice((Fault.ERROR_500, Fault.THROTTLE, Fault.HANG))
        rule = FaultRule(kind, 1.0, regions=frozenset({self._random.choice(self._regions)}))
        return Trouble(at, min(at + self._random.uniform(*LASTS_SECONDS), self._seconds), rule)

    def kill_compactor(self, at: float) -> Strike:
        """Kill a compactor."""
        return self._kill(at, self._compactors)

    def kill_writer(self, at: float) -> Strike:
        """Kill a writer."""
        return self._kill(at, self._writers)

    def stall_compactor(self, at: float) -> Strike:
        """Stop a compactor for a while."""
        seconds = min(self._random.uniform(*STALL_SECONDS), self._seconds - at)
        return Strike(at, "stall", self._random.choice(self._compactors), seconds)

    def _kill(self, at: float, victims: Sequence[str]) -> Strike:
        seconds = self._random.uniform(*BACK_SECONDS)
        return Strike(at, "kill", self._random.choice(victims), seconds)

    def _ends(self, at: float) -> float:
        is_long = self._random.random() < LONG_SHARE
        lasts = self._random.uniform(*(LONG_SECONDS if is_long else LASTS_SECONDS))
        return min(at + lasts, self._seconds)


Card = Callable[[_Dealer, float], Event]


def _fault_card(kind: Fault) -> Card:
    return lambda dealer, at: dealer.fault(kind, at)


CARDS: tuple[Card, ...] = (
    _Dealer.cut,
    _Dealer.cut,
    _Dealer.island,
    _Dealer.late,
    _Dealer.late,
    _Dealer.outage,
    _Dealer.kill_compactor,
    _Dealer.kill_compactor,
    _Dealer.stall_compactor,
    _Dealer.stall_compactor,
    _Dealer.kill_writer,
    *map(_fault_card, Fault),
)
