"""What a seed stands for: a small world, its weather, its people and their plans; drawn at once.

Small worlds find more in the same time: two or three regions, one to three counters, up to 36
changes each. Durations are in virtual seconds, which cost nothing; requests do. So life comes in
busy times, a few minutes each with quiet between them: compactors run, readers read now and then
and often once a net change has come, and most changes are made shortly before or in them.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from ledger.lab.simulator.clocks import START
from ledger.lab.simulator.foci import FOCI, Focus, Kind
from ledger.lab.simulator.process import Health
from ledger.lab.simulator.store import Weather
from ledger.lab.simulator.world import Lag
from ledger.settings import Settings

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-2")
ANY_TIME_SHARE = 0.2
CROWD_SHARE = 0.5
GROWING_SHARE = 0.3
"""Of worlds in which a counter's shards become more."""
KEYS_MAX = (1, 4, 50_000, 50_000)
COMBINED: tuple[tuple[str, ...], ...] = ((), ("counter-0",), ("counter-*",))


@dataclass(frozen=True, slots=True)
class Act:
    """Some changes to be recorded at a moment, `repeats` (delay, region) calling the same again."""

    at: float
    region: str
    kind: Kind
    changes: tuple[tuple[str, int], ...]
    repeats: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Cut:
    """A time in which a link holds everything back, or (no `target`) a region is down."""

    begins: float
    ends: float
    source: str
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Busy:
    """A time in which compactors run and readers read often."""

    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that is decided before a run begins."""

    seed: int
    focus: str
    regions: tuple[str, ...]
    settings: Settings
    span: float
    busy: tuple[Busy, ...]
    acts: tuple[Act, ...]
    cuts: tuple[Cut, ...]
    lag: Lag
    staleness: float
    page_items_max: int
    weather: Weather
    compactor_weather: Weather
    app_health: Health
    compactor_healths: tuple[Health, ...]
    compactors: int
    rivals: bool
    pass_every: float
    read_every: float
    reads_per_net: int
    move_at: float | None


def stream(seed: int, name: str) -> Random:
    """Return randomness of its own for one part of a run: what one draws moves no other."""
    return Random(f"{seed}/{name}")  # noqa: S311 (nothing secret: it must be repeatable)


def draw(seed: int) -> Scene:
    """Return the scene of a seed."""
    chance, sharing = stream(seed, "scene"), stream(seed, "sharing")
    focus = FOCI[seed % len(FOCI)]
    regions = tuple(chance.sample(REGIONS, k=chance.choice((2, 3, 3))))
    busy = _busy(chance)
    span = busy[-1].ends
    rough = focus.rough * chance.random() ** 2
    moves = chance.random() < focus.moves
    return Scene(
        seed=seed,
        focus=focus.name,
        regions=regions,
        settings=_settings(chance, sharing, stream(seed, "finding"), focus, regions).replace(
            read_keys_max=stream(seed, "reading").choice(KEYS_MAX),
            shards=_shards(stream(seed, "shards"), span),
        ),
        span=span,
        busy=busy,
        acts=_crowded(sharing, _acts(chance, focus, regions, busy)),
        cuts=_cuts(chance, focus, regions, span),
        lag=Lag(
            usual_seconds=chance.choice(focus.usual_seconds),
            late_share=chance.choice(focus.late_share),
            late_seconds=chance.choice(focus.late_seconds),
        ),
        staleness=chance.choice(focus.staleness),
        page_items_max=chance.choice(focus.page_items),
        weather=_weather(chance, rough, trip_seconds=chance.choice(focus.trips)),
        compactor_weather=_weather(
            chance, rough, trip_seconds=0.05, late_folds=chance.choice(focus.late_folds)
        ),
        app_health=Health(chance.choice(focus.app_healths), focus.app_crashes, focus.app_stalls),
        compactor_healths=tuple(
            Health(steps, focus.crashes, focus.stalls) for steps in focus.healths
        ),
        compactors=chance.choice(focus.compactors),
        rivals=not moves and chance.random() < focus.rivals,
        pass_every=chance.choice(focus.pass_every),
        read_every=chance.choice((15.0, 30.0)),
        reads_per_net=focus.reads_per_net,
        move_at=chance.uniform(0.3, 0.9) * span if moves else None,
    )


def _settings(
    chance: Random, sharing: Random, finding: Random, focus: Focus, regions: tuple[str, ...]
) -> Settings:
    return Settings(
        home=regions[0],
        regions={name: {} for name in regions},
        settle=chance.choice((700.0, 900.0)),
        consistent_reads=chance.random() < focus.consistent,
        compactor={
            "lease": focus.lease,
            "heartbeat": focus.heartbeat,
            "fold_max": chance.choice(focus.fold_max),
            "fold_min": chance.choice(focus.fold_min),
            "fold_age": chance.choice((900.0, 1500.0)),
            "prune_min": chance.choice(focus.prune_min),
            "scan_segments": 1,
            "scan_every": finding.choice((0.0, 0.0, 60.0, 1800.0)),
            "hint_every": finding.choice((1, 1, 3)),
        },
        writer={
            "linger": sharing.choice((0.002, 0.5)),
            "in_flight": sharing.choice((1, 8)),
            "queue_max": sharing.choice((3, 10_000)),
        },
        combine=sharing.choice(COMBINED),
    )


def _shards(chance: Random, span: float) -> dict[str, Any]:
    """Return how many shards counters have: for some a number that grows while they are in use."""
    shards: dict[str, Any] = {"counter-2": chance.choice((1, 2))}
    if chance.random() < GROWING_SHARE:
        since = START + timedelta(seconds=chance.uniform(0.1, 0.9) * span)
        before = chance.choice((1, 1, 2))
        after = before + chance.choice((1, 2))
        shards["counter-0"] = [{"count": before}, {"count": after, "since": since}]
    return shards


def _weather(
    chance: Random, rough: float, *, trip_seconds: float, late_folds: float = 0.0
) -> Weather:
    def share(most: float) -> float:
        return chance.choice((0.0, rough * most))

    return Weather(
        trip_seconds=trip_seconds,
        slow=share(0.3),
        lost=share(0.1),
        never_arrived=share(0.05),
        late=share(0.1),
        throttled=share(0.05),
        unreachable=share(0.03),
        scattered=share(0.3),
        late_transactions=late_folds,
    )


def _busy(chance: Random) -> tuple[Busy, ...]:
    times, begins = [], chance.uniform(50.0, 300.0)
    for _ in range(chance.choice((5, 6, 7))):
        ends = begins + chance.uniform(100.0, 250.0)
        times.append(Busy(begins, ends))
        begins = ends + chance.uniform(100.0, 500.0)
    return tuple(times)


def _moment(chance: Random, busy: tuple[Busy, ...]) -> float:
    """Draw when something is done: before or in a busy time, early ones preferred."""
    if chance.random() < ANY_TIME_SHARE:
        return chance.random() * busy[-1].ends
    one = busy[min(chance.randrange(len(busy)), chance.randrange(len(busy)))]
    return chance.uniform(max(0.0, one.begins - 100.0), one.ends)


def _acts(
    chance: Random, focus: Focus, regions: tuple[str, ...], busy: tuple[Busy, ...]
) -> tuple[Act, ...]:
    counters = [f"counter-{number}" for number in range(chance.choice((1, 1, 2, 3)))]
    left = {counter: list(range(chance.randrange(6, 37))) for counter in counters}
    acts = []
    while any(left.values()):
        kind = chance.choices(list(focus.kinds), list(focus.kinds.values()))[0]
        count = chance.randrange(2, 6) if kind in {"many", "together"} else 1
        changes = []
        for _ in range(count):
            open_counters = [counter for counter, numbers in left.items() if numbers]
            if open_counters:
                counter = chance.choice(open_counters)
                changes.append((counter, left[counter].pop(0)))
        repeats = _repeats(chance, focus, regions) if kind == "keyed" else ()
        at = _moment(chance, busy)
        acts.append(Act(at, chance.choice(regions), kind, tuple(changes), repeats))
    return tuple(sorted(acts, key=lambda act: act.at))


def _crowded(sharing: Random, acts: tuple[Act, ...]) -> tuple[Act, ...]:
    """Let a share of what one call records be recorded by many calls at the same time."""
    return tuple(
        replace(act, kind="crowd") if act.kind == "many" and sharing.random() < CROWD_SHARE else act
        for act in acts
    )


def _repeats(
    chance: Random, focus: Focus, regions: tuple[str, ...]
) -> tuple[tuple[float, str], ...]:
    """Draw later calls with the same key: most within the retry horizon, some long after."""
    longest = chance.choice(focus.repeats)
    return tuple(
        (chance.random() * longest, chance.choice(regions)) for _ in range(chance.randrange(4))
    )


def _cuts(chance: Random, focus: Focus, regions: tuple[str, ...], span: float) -> tuple[Cut, ...]:
    cuts = []
    for _ in range(chance.choice(focus.cuts)):
        begins = chance.random() * span
        ends = begins + chance.choice((60.0, 600.0, 1500.0)) * chance.random()
        source, target = chance.sample(regions, k=2)
        kind = chance.randrange(4)
        cuts.append(Cut(begins, ends, source, None if kind == 0 else target))
        if kind == 1:
            cuts.append(Cut(begins, ends, target, source))
    return tuple(cuts)
