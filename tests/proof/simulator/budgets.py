"""The part of a scenario that concerns budgets: limits, and what is spent from them when and where.

Limits are small, so that they run out while there is more to spend: what is granted twice is sold
twice. Most spends come close together, so that requests are shared, and grants are renewed, closed
and given up while others are in flight. Which seeds have budgets goes by a remainder, so that the
worlds of others stay what they were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import product
from random import Random
from typing import Any, Literal

from proof.simulator.losses import is_lossy
from proof.simulator.planned import BusyPeriod
from proof.simulator.process import RELIABLE, Reliability
from proof.simulator.profiles import CLOCKS_OFF, profile_of
from proof.simulator.randomness import stream

_OF, _PLACE, _OFF_PLACE = 13, 3, 8
NAMES = ("budget-0", "budget-1", "budget-2")
BUNDLES = (("budget-0", "budget-2"), ("budget-1", "budget-2"), ("budget-2", "budget-0"))
LIMITS = (8, 30, 100, 300)
LIVES_SECONDS = (20.0, 60.0, 60.0, 200.0)
LATE_SECONDS = (0.0, 300.0)
WINDOWED_SHARE = 0.4
SPENDS_MIN, SPENDS_MAX = 30, 80
TOGETHER_MAX = 6
TOGETHER_SECONDS = 1.0
HOLD_SECONDS = (30.0, 300.0, 1500.0)
REPEATS_SECONDS = (1.0, 20.0, 200.0)
CREATED_WITHIN_SECONDS = 20.0
FRAGILE = (
    Reliability(200.0, crash_share=0.2, stall_seconds_max=(30.0, 300.0, 1200.0)),
    Reliability(1000.0, crash_share=0.5, stall_seconds_max=(30.0, 1200.0)),
    Reliability(4000.0, crash_share=0.5, stall_seconds_max=(30.0, 300.0)),
)
AGED_SHARE = 0.3
SAME_PLACE_SHARE = 0.5
FREEZES_BEFORE_SECONDS = 1.0
LONG = (100.0, 500.0)
"""For how many seconds a process freezes between its look at the clock and its request."""
LATE_SHARES = (0.0, 0.1, 0.4)
OVER_SHARE = 0.15
HOT_BEFORE_SECONDS = 20.0
HOT_SECONDS = (10.0, 60.0, 1200.0)
SETTLES_SHARE = 0.7
RAISES_SHARE = 0.6
STRICT_SHARE = 0.4
"""Of worlds in which a budget of most bundles lets nothing through, whatever the others do."""
CREDITS_MIN, CREDITS_MAX = 8, 30
CREDITED_SECONDS = (-100.0, 20.0)
"""About when something is spent, mostly before: so that it is there when it is wanted."""
_CREDITS_OF, _CREDITS_PLACES, _LOSSY_PLACE, _LOSSY_OF = 11, (3, 6, 9), 7, 3
MEETING_SHARE = 0.4
MEETING_SECONDS = 2.0
"""Of changes of a limit beside which another is made, and how far apart they begin."""
CHANGE_TRIES_MAX = 6

Place = tuple[str, int]
"""A region, and the number of a process in it."""
SpendKind = Literal["spend", "keyed", "hold", "keyed hold", "light", "state"]
KINDS: Mapping[SpendKind, int] = {
    "spend": 8,
    "keyed": 5,
    "hold": 5,
    "keyed hold": 2,
    "light": 3,
    "state": 1,
}
Ending = Literal["settle", "void", "extend", "leave"]
ENDINGS: tuple[Ending, ...] = ("settle", "settle", "settle", "void", "extend", "leave")


@dataclass(frozen=True, slots=True)
class PlannedEnding:
    """How a hold is to end, so long after it was made; `by` a process of any region, or its own.

    With `over` it is settled for more than there is, too.
    """

    kind: Ending
    after: float
    amount: int
    by: Place | None
    over: bool = False


@dataclass(frozen=True, slots=True)
class PlannedBulk:
    """Holds that are open at a moment, settled or voided by one call of a process of a region."""

    at: float
    region: str
    process: int
    settles: bool
    over: bool


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A limit that is raised by an amount, or lowered to it, at a moment.

    The call is made from each of `places` in turn, until one of them says that it is done; those
    after the first `together` begin when the one before has ended.
    """

    number: int
    at: float
    budget: str
    raises: bool
    amount: int
    places: tuple[Place, ...]
    together: int


@dataclass(frozen=True, slots=True)
class PlannedSpend:
    """A spend at a moment, by a process of a region; durations in seconds.

    It waits for rights for up to `wait`. Its key, if it has one, was made `age` before; each of
    `repeats` (delay, region, process) repeats the call. A hold expires after `expires`.
    """

    number: int
    at: float
    region: str
    process: int
    kind: SpendKind
    budgets: tuple[str, ...]
    amount: int
    wait: float = 0.0
    age: float = 0.0
    repeats: tuple[tuple[float, str, int], ...] = ()
    expires: float = 0.0
    endings: tuple[PlannedEnding, ...] = ()


CreditKind = Literal["credit", "keyed", "return"]


@dataclass(frozen=True, slots=True)
class PlannedCredit:
    """A credit at a moment, by a process of a region; durations in seconds.

    One that is "keyed" is repeated as a spend is. A "return" spends the amount first, and reverses
    that spend at home after `wait`; else for so long the call waits until it can be spent.
    """

    number: int
    at: float
    region: str
    process: int
    kind: CreditKind
    budget: str
    amount: int
    wait: float = 0.0
    age: float = 0.0
    repeats: tuple[tuple[float, str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class HotPeriod:
    """When a region throttles all requests of control items of budgets, and serves entries."""

    begins: float
    ends: float
    region: str


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """The budgets of a world: their limits, and all that is to be spent.

    So many `processes` of each region spend; `closings` (moment, region, process) are those that
    are closed in good order, and started again. From its moment in `freezes` on a process freezes
    before it next puts an entry, once, for so many seconds. Of some (region, process) the clock is
    off by so many seconds: of those in `clocks_off` by more than the skew.
    """

    limits: Mapping[str, int]
    spends: tuple[PlannedSpend, ...]
    processes: int
    reliability: Reliability
    late: float
    closings: tuple[tuple[float, str, int], ...]
    freezes: tuple[tuple[float, str, int, float], ...]
    bulks: tuple[PlannedBulk, ...] = ()
    changes: tuple[PlannedChange, ...] = ()
    hot: tuple[HotPeriod, ...] = ()
    credits: tuple[PlannedCredit, ...] = ()
    clocks_off: Mapping[Place, float] = field(default_factory=dict)
    clocks_near: Mapping[Place, float] = field(default_factory=dict)


ROLLING = "budget-0"
ROLLING_SECONDS = 1440.0
"""The shortest there is: its buckets of a minute come back while a world runs."""
OFF_SECONDS = (-840.0, 120.0, 840.0, 840.0, 840.0)
"""By how much clocks are off: twice the skew that is allowed, and as much as AWS takes."""
LATER_SHARE = 0.7
LATER_SECONDS = (ROLLING_SECONDS - 400.0, ROLLING_SECONDS + 700.0)
"""Of spends in such worlds that come about when others come back, and how long after these."""

NO_BUDGETS = BudgetPlan({}, (), 0, RELIABLE, 0.0, (), ())


def keeps_budgets(seed: int) -> bool:
    """Return whether the world of a seed has budgets, and spenders whose clocks are right."""
    return seed % _OF == _PLACE


def has_wrong_clocks(seed: int) -> bool:
    """Return whether the world of a seed has budgets, and spenders whose clocks are off.

    One of its budgets is rolling. It loses no region, and other processes' clocks are right.
    """
    return seed % _OF == _OFF_PLACE and not is_lossy(seed) and profile_of(seed) is not CLOCKS_OFF


def keeps_credits(seed: int) -> bool:
    """Return whether budgets of the world of a seed take credits.

    Of those with budgets every third or so, by remainders of which no mutant's world has one.
    """
    quotient = seed // _OF
    is_chosen = quotient % _CREDITS_OF in _CREDITS_PLACES
    is_lost = quotient % _CREDITS_OF == _LOSSY_PLACE
    is_lossy_chosen = is_lost and quotient // _CREDITS_OF % _LOSSY_OF == _LOSSY_OF - 1
    return (keeps_budgets(seed) or has_wrong_clocks(seed)) and (is_chosen or is_lossy_chosen)


def credited(seed: int) -> frozenset[str]:
    """Return the budgets of a world that take credits."""
    rules = budget_rules(seed)
    return frozenset(name for name in NAMES if _rule_of(name, rules).get("credits"))


def _rule_of(name: str, rules: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((rule for pattern, rule in rules.items() if fnmatchcase(name, pattern)), {})


def has_windows(seed: int) -> bool:
    """Return whether the world of a seed has a budget with windows."""
    return keeps_budgets(seed) and _has_windows(seed)


def has_windows_and_wrong_clocks(seed: int) -> bool:
    """Return whether it has a budget with windows, and spenders whose clocks are off."""
    return has_wrong_clocks(seed) and _has_windows(seed)


def _has_windows(seed: int) -> bool:
    return any("window" in rule for rule in budget_rules(seed).values())


def lets_through(seed: int) -> bool:
    """Return whether what cannot have a grant is let through in the world of a seed."""
    return keeps_budgets(seed) and bool(let_through(seed))


def let_through(seed: int) -> frozenset[str]:
    """Return the budgets of which it is."""
    rules = budget_rules(seed)
    matching = {
        name: [rule for pattern, rule in rules.items() if fnmatchcase(name, pattern)][:1]
        for name in NAMES
    }
    return frozenset(
        name for name, rule in matching.items() if rule and rule[0]["on_outage"] == "allow"
    )


def budget_rules(seed: int) -> dict[str, Any]:
    """Return the rules of a world's budgets, by pattern; empty if it has none."""
    chance = stream(seed, "budgets")
    is_off = has_wrong_clocks(seed)
    if not (keeps_budgets(seed) or is_off):
        return {}
    common = {
        "grant_life": chance.choice(LIVES_SECONDS),
        "on_expiry": chance.choice(("void", "settle")),
        "on_outage": stream(seed, "outages").choice(("refuse", "refuse", "allow")),
    }
    windowed: dict[str, Any] = {}
    if chance.random() < WINDOWED_SHARE:
        windowed = {"budget-1": {**common, "window": "hour", "late": chance.choice(LATE_SECONDS)}}
    strict: dict[str, Any] = {}
    if stream(seed, "strict").random() < STRICT_SHARE:
        strict = {"budget-2": {**common, "on_outage": "refuse"}}
    rolling = {ROLLING: {**common, "rolling": ROLLING_SECONDS}} if is_off else {}
    if keeps_credits(seed):
        strict = {"budget-2": {**common, "on_outage": "refuse", "credits": True}}
        common = {**common, "credits": common["on_outage"] == "refuse"}
    return {**rolling, **windowed, **strict, "budget-*": common}


def draw_budgets(
    seed: int, regions: Sequence[str], busy: Sequence[BusyPeriod], retry_horizon: float
) -> BudgetPlan:
    """Draw what is spent in a world, before and while there is work for compactors."""
    chance = stream(seed, "spends")
    limits = {name: chance.choice(LIMITS) for name in NAMES}
    processes = chance.choice((1, 2, 2, 3))
    spends: list[PlannedSpend] = []
    count = chance.randint(SPENDS_MIN, SPENDS_MAX)
    while len(spends) < count:
        begins = _moment(chance, busy)
        place = chance.choice(regions), chance.randrange(processes)
        budgets = chance.choice(((chance.choice(NAMES),), chance.choice(BUNDLES)))
        for _ in range(chance.choice((1, 1, chance.randint(2, TOGETHER_MAX)))):
            if chance.random() > SAME_PLACE_SHARE:
                place = chance.choice(regions), chance.randrange(processes)
            at = begins + chance.random() * TOGETHER_SECONDS
            most = max(2, limits[budgets[0]] // 6)
            number = len(spends)
            made = PlannedSpend(number, at, *place, "spend", budgets, chance.randint(1, most))
            spends.append(_drawn(chance, made, most, [*product(regions, range(processes))]))
            if chance.random() < AGED_SHARE:
                spends[-1] = replace(spends[-1], age=chance.random() * retry_horizon)
    places = [*product(regions, range(processes))]
    clocks_off: dict[Place, float] = {}
    if has_wrong_clocks(seed):
        clocks = stream(seed, "spenders' clocks")
        wrong = clocks.sample(places, k=clocks.randint(1, len(places) // 2))
        clocks_off = {place: clocks.choice(OFF_SECONDS) for place in wrong}
        spends = [_later(clocks, spend, limits, busy[-1].ends) for spend in spends]
    return BudgetPlan(
        limits=limits,
        spends=tuple(sorted(spends, key=lambda spend: spend.at)),
        processes=processes,
        reliability=chance.choice(FRAGILE),
        late=chance.choice(LATE_SHARES),
        closings=tuple(
            (_moment(chance, busy), chance.choice(regions), chance.randrange(processes))
            for _ in range(chance.randrange(4))
        ),
        freezes=tuple(
            (spend.at - FREEZES_BEFORE_SECONDS, spend.region, spend.process, chance.uniform(*LONG))
            for spend in chance.sample(spends, k=chance.choice((0, 4, 8)))
        ),
        hot=_hot(stream(seed, "hot"), regions, spends),
        credits=_credits(seed, limits, places, spends, retry_horizon),
        clocks_off=clocks_off,
        bulks=_bulks(stream(seed, "bulks"), regions, processes, busy),
        changes=_changes(
            stream(seed, "limits"), limits, [*product(regions, range(processes))], busy
        ),
    )


def _later(
    clocks: Random, spend: PlannedSpend, limits: Mapping[str, int], ends: float
) -> PlannedSpend:
    """Let some spends ask for much of a rolling limit, and others come when that is back."""
    if spend.budgets[0] != ROLLING:
        return spend
    much = replace(spend, amount=clocks.randint(1, limits[ROLLING]))
    if clocks.random() >= LATER_SHARE:
        return much
    return replace(much, at=min(ends, spend.at + clocks.uniform(*LATER_SECONDS)))


def _hot(
    chance: Random, regions: Sequence[str], spends: Sequence[PlannedSpend]
) -> tuple[HotPeriod, ...]:
    """Draw when control items cannot be had: mostly about a spend, in its region or in another."""
    return tuple(
        HotPeriod(
            spend.at - chance.random() * HOT_BEFORE_SECONDS,
            spend.at + chance.random() * chance.choice(HOT_SECONDS),
            chance.choice((spend.region, spend.region, chance.choice(regions))),
        )
        for spend in chance.sample(spends, k=chance.choice((0, 2, 5)))
    )


def _credits(
    seed: int,
    limits: Mapping[str, int],
    places: Sequence[Place],
    spends: Sequence[PlannedSpend],
    retry_horizon: float,
) -> tuple[PlannedCredit, ...]:
    """Draw what is credited: mostly about a spend, some of it long before and after."""
    chance, names = stream(seed, "credits"), sorted(credited(seed))
    found: list[PlannedCredit] = []
    for number in range(chance.randint(CREDITS_MIN, CREDITS_MAX) if names else 0):
        budget, near = chance.choice(names), chance.choice(spends)
        kind: CreditKind = chance.choice(("credit", "credit", "keyed", "keyed", "return"))
        repeats = [
            (chance.random() * chance.choice(REPEATS_SECONDS), *chance.choice(places))
            for _ in range(chance.randrange(1, 4) if kind == "keyed" else 0)
        ]
        found.append(
            PlannedCredit(
                number,
                max(CREATED_WITHIN_SECONDS, near.at + chance.uniform(*CREDITED_SECONDS)),
                *chance.choice(places),
                kind,
                budget,
                chance.randint(1, max(2, limits[budget] // 4)),
                wait=chance.choice((0.0, 0.0, 5.0, 60.0)),
                age=chance.random() * retry_horizon if chance.random() < AGED_SHARE else 0.0,
                repeats=tuple(repeats),
            )
        )
    return tuple(found)


def _bulks(
    chance: Random, regions: Sequence[str], processes: int, busy: Sequence[BusyPeriod]
) -> tuple[PlannedBulk, ...]:
    return tuple(
        PlannedBulk(
            _moment(chance, busy),
            chance.choice(regions),
            chance.randrange(processes),
            settles=chance.random() < SETTLES_SHARE,
            over=chance.random() < OVER_SHARE,
        )
        for _ in range(chance.choice((0, 0, 2, 4)))
    )


def _changes(
    chance: Random,
    limits: Mapping[str, int],
    places: Sequence[Place],
    busy: Sequence[BusyPeriod],
) -> tuple[PlannedChange, ...]:
    """Draw when limits are raised and lowered: up to half of them, and below what is spent."""
    changes: list[PlannedChange] = []
    for number in range(chance.choice((0, 0, 3, 6))):
        budget, raises, at = chance.choice(NAMES), chance.random() < RAISES_SHARE, None
        if changes and chance.random() < MEETING_SHARE:
            met = changes[-1]
            budget, raises = met.budget, not met.raises
            at = met.at + chance.random() * MEETING_SECONDS
        limit = limits[budget]
        amount = chance.randint(1, limit // 2) if raises else chance.randint(0, limit)
        tries = chance.randint(1, CHANGE_TRIES_MAX)
        changes.append(
            PlannedChange(
                number,
                _moment(chance, busy) if at is None else at,
                budget,
                raises,
                amount,
                tuple(chance.choice(places) for _ in range(tries)),
                together=chance.choice((1, 1, 2)),
            )
        )
    return tuple(changes)


def _moment(chance: Random, busy: Sequence[BusyPeriod]) -> float:
    """Draw when something is spent: often where all at once, preferably early."""
    period = busy[min(chance.randrange(len(busy)), chance.randrange(len(busy)))]
    return chance.uniform(max(CREATED_WITHIN_SECONDS, period.begins - 100.0), period.ends)


def _drawn(chance: Random, made: PlannedSpend, most: int, places: Sequence[Place]) -> PlannedSpend:
    """Draw what a spend is, when it is repeated, and how it ends if it is a hold."""
    kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
    expires = chance.uniform(5.0, chance.choice(HOLD_SECONDS))
    longest = chance.choice(REPEATS_SECONDS)
    repeats = [(chance.random() * longest, *chance.choice(places)) for _ in range(3)]
    amounts = (0, chance.randint(0, made.amount), made.amount, made.amount + most)
    endings = [
        PlannedEnding(
            chance.choice(ENDINGS),
            chance.random() * chance.choice((5.0, 60.0, expires, 2 * expires)),
            chance.choice(amounts),
            chance.choice((None, chance.choice(places))),
            over=chance.random() < OVER_SHARE,
        )
        for _ in range(chance.choice((1, 1, 2, 3)))
    ]
    return replace(
        made,
        kind=kind,
        wait=chance.choice((0.0, 0.0, 3.0)),
        repeats=tuple(repeats[chance.randrange(4) :]) if kind in {"keyed", "keyed hold"} else (),
        expires=expires,
        endings=tuple(endings) if kind in {"hold", "keyed hold", "light"} else (),
    )
