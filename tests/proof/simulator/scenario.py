"""The scenario of a seed: its regions, settings, operations and faults, all drawn before the run.

Small worlds find more in the same time: two or three regions, one to three counters, up to 36
changes each. Durations are in virtual seconds, which cost nothing; requests do. Activity therefore
comes in busy periods of a few minutes with idle time between them: compactors run, readers read now
and then and often once a net change has arrived, and most changes are made shortly before or during
a busy period.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any

from ledger.settings import Settings
from ledger.writes.asked_parts import LISTED_MAX
from proof.simulator.activity import (
    busy_after,
    crowded,
    draw_at,
    draw_busy,
    draw_operations,
    draw_outages,
    in_bursts,
    near,
)
from proof.simulator.archive import URLS
from proof.simulator.book_plan import PATTERN, keeps_books, shards_of, shares_items
from proof.simulator.budgets import (
    BudgetPlan,
    budget_rules,
    draw_budgets,
    has_wrong_clocks,
)
from proof.simulator.clocks import START
from proof.simulator.combining import COUNTERS, calls_together, draw_shared, is_calm
from proof.simulator.files import Files
from proof.simulator.keyed_lists import COMBINED as LISTS_COMBINED
from proof.simulator.keyed_lists import ITEMS_MAX, combining, draw_lists, has_lists
from proof.simulator.losses import (
    Loss,
    busy_with,
    draw_loss,
    draw_moment,
    in_force_at,
    is_lossy,
    operations_about,
    outages_with,
    taken_out,
)
from proof.simulator.planned import BusyPeriod, Operation, Outage, SteadyRead
from proof.simulator.process import RELIABLE, Reliability
from proof.simulator.profiles import PROFILES, Profile, profile_of
from proof.simulator.randomness import stream
from proof.simulator.rolling_edges import has_edges, with_edges
from proof.simulator.store import FaultProfile
from proof.simulator.terms import (
    KEPT_SHARE,
    LIVES_SECONDS,
    ContractPlan,
    TermsChange,
    draw_contract,
    is_contracted,
    unchanging,
)
from proof.simulator.world import Lag

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-2")
GROWING_SHARE = 0.3
"""The share of worlds in which a counter gains shards."""
SETTLES_SECONDS = (1300.0, 1500.0)
"""The shorter is little more than what it must exceed: 300 + 900 + 60."""
KEYS_MAX = (1, 4, 50_000, 50_000)
FREEZING = Reliability(200.0, crash_share=0.1, stall_seconds_max=(1800.0,))
RARELY_FREEZING = Reliability(2000.0, crash_share=0.2, stall_seconds_max=(300.0, 1800.0))
LATE_SHARE = 0.5
RIVALS_SHARE = 0.75
SLICES = 4
"""Few, as there are few counters: so each process has some, and each slice comes to many owners."""
PERIODS_SHARE = ARCHIVE_SHARE = 0.25
INDEX_SHARE = 0.125
ZONES = ("UTC", "America/Denver", "Asia/Kathmandu")
"""In the second midnight is ten minutes after `START`, in the third hours begin at a quarter."""
COMBINED: tuple[tuple[str, ...], ...] = ((), ("counter-0",), ("counter-*",))


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is decided before a run begins; durations and moments in seconds."""

    seed: int
    profile: str
    regions: tuple[str, ...]
    settings: Settings
    span: float
    busy: tuple[BusyPeriod, ...]
    operations: tuple[Operation, ...]
    outages: tuple[Outage, ...]
    lag: Lag
    staleness: float
    page_items_max: int
    faults: FaultProfile
    compactor_faults: FaultProfile
    app_reliability: Reliability
    compactor_reliabilities: tuple[Reliability, ...]
    compactors: int
    rivals: bool
    pass_every: float
    read_every: float
    reads_per_net: int
    steady_share: float
    steady_reads: tuple[SteadyRead, ...]
    clocks_off: tuple[float, ...] = ()
    contract: ContractPlan | None = None
    loss: Loss | None = None
    budgets: BudgetPlan | None = None
    is_calm: bool = False
    listed_max: int = LISTED_MAX

    @property
    def has_one_home(self) -> bool:
        """Whether one region is home all along."""
        changes = () if self.contract is None else self.contract.changes
        return self.loss is None and not any("home" in change.values for change in changes)

    @property
    def files(self) -> Files:
        """What the processes' settings files say."""
        return Files(self.settings) if self.contract is None else self.contract.files

    @property
    def settle(self) -> float:
        """The longest `settle` that is ever in force."""
        return self.settings.settle if self.contract is None else self.contract.settle

    @property
    def retry_horizon(self) -> float:
        """The longest retry horizon that is ever in force."""
        settings, plan = self.settings, self.contract
        return settings.retry_horizon if plan is None else plan.retry_horizon


def draw(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    chance, sharing = stream(seed, "scene"), stream(seed, "sharing")
    profile = _profile(seed)
    count = chance.choice((2, 3, 3))
    regions = tuple(chance.sample(REGIONS, k=3 if is_lossy(seed) and seed % 4 else count))
    busy = draw_busy(chance, profile)
    span = busy[-1].ends
    rough = profile.rough * chance.random() ** 2
    moves = chance.random() < profile.moves
    settings = _settings(chance, sharing, stream(seed, "finding"), profile, regions).replace(
        read_keys_max=stream(seed, "reading").choice(KEYS_MAX),
        shards=_shards(stream(seed, "shards"), profile, busy),
        periods=_periods(stream(seed, "periods")),
        archive=URLS if keeps_archive(seed) else (),
    )
    if keeps_index(seed):  # else not set, as the files of old seeds do not name it
        settings = settings.replace(index=("counter-*",))
    if rules := budget_rules(seed):
        settings = settings.replace(budgets=rules)
    if keeps_books(seed):
        shards = {**settings.shards, **shards_of(seed)}
        settings = settings.replace(books=(PATTERN,), shards=shards)
    if shares_items(seed):
        settings = settings.replace(combine=(*settings.combine, PATTERN))
    operations = crowded(sharing, draw_operations(chance, profile, regions, busy))
    operations, steady_reads = in_bursts(stream(seed, "bursts"), profile, regions, operations)
    if calls_together(seed):
        settings = settings.replace(combine=(*settings.combine, *COUNTERS))
        operations = (*operations, *draw_shared(stream(seed, "shared"), regions, busy))
    listing, listed_max = stream(seed, "lists"), LISTED_MAX
    if has_lists(seed):
        combine = (*settings.combine, *listing.choice(LISTS_COMBINED))
        settings, listed_max = settings.replace(combine=combine), listing.choice(ITEMS_MAX)
        operations = (*operations, *draw_lists(listing, profile, regions, busy))
    drawn = Scenario(
        seed=seed,
        profile=profile.name,
        regions=regions,
        settings=settings,
        span=span,
        busy=busy,
        operations=tuple(sorted(operations, key=lambda operation: operation.at)),
        outages=draw_outages(chance, profile, regions, span),
        lag=Lag(
            usual_seconds=chance.choice(profile.usual_seconds),
            late_share=chance.choice(profile.late_share),
            late_seconds=chance.choice(profile.late_seconds),
        ),
        staleness=chance.choice(profile.staleness),
        page_items_max=chance.choice(profile.page_items),
        faults=_held_up(
            _faults(chance, rough, trip_seconds=chance.choice(profile.trips)),
            stream(seed, "held up").choice(profile.late_writes),
        ),
        compactor_faults=_faults(
            chance, rough, trip_seconds=0.05, late_folds=chance.choice(profile.late_folds)
        ),
        app_reliability=Reliability(
            chance.choice(profile.app_fault_steps), profile.app_crashes, profile.app_stalls
        ),
        compactor_reliabilities=tuple(
            Reliability(steps, profile.crashes, profile.stalls) for steps in profile.fault_steps
        ),
        compactors=chance.choice(profile.compactors),
        rivals=not moves and chance.random() < profile.rivals,
        pass_every=chance.choice(profile.pass_every),
        read_every=chance.choice((15.0, 30.0)),
        reads_per_net=profile.reads_per_net,
        steady_share=stream(seed, "steady").choice((0.0, 0.0, 0.5)),
        steady_reads=steady_reads,
        clocks_off=profile.clocks_off,
        listed_max=listed_max,
    )
    if is_lossy(seed):
        drawn = _losing(drawn, homes=regions[: 2 if moves else 1])
    elif is_contracted(seed):
        drawn = _contracted(drawn)
    drawn = _spending(_moving(drawn) if moves else drawn)
    return _calmed(drawn) if is_calm(seed) else drawn


def _calmed(drawn: Scenario) -> Scenario:
    """Let nothing fail that leaves a hint, and every change leave one, where no terms change."""
    if drawn.contract is not None or drawn.clocks_off:
        return drawn
    return replace(
        drawn,
        is_calm=True,
        settings=drawn.settings.replace(compactor={"hint_every": 1}),
        faults=FaultProfile(trip_seconds=drawn.faults.trip_seconds),
        outages=(),
        app_reliability=RELIABLE,
    )


def _profile(seed: int) -> Profile:
    """Return the profile of a seed; with a contract mostly the one that holds requests up."""
    return PROFILES[-1] if is_contracted(seed) and seed % 3 else profile_of(seed)


def _contracted(drawn: Scenario) -> Scenario:
    """Let a scenario's processes go through a contract that changes while they work."""
    settings, plan = draw_contract(drawn.seed, drawn.settings)
    chance, combine = stream(drawn.seed, "terms"), stream(drawn.seed, "combine")
    if has_lists(drawn.seed):
        plan = replace(plan, changes=combining(combine, settings.combine, plan.changes))
    nears = [change.at for change in plan.changes]
    ends = nears[0], plan.in_force[0]
    kept = tuple(period for period in drawn.busy if chance.random() < KEPT_SHARE)
    busy = busy_after(chance, kept, (nears[0], *plan.in_force))
    return replace(
        drawn,
        settings=settings,
        contract=plan,
        busy=busy,
        span=busy[-1].ends,
        faults=_held_up(drawn.faults, chance.choice((0.0, 0.6, 0.6))),
        app_reliability=chance.choice((RARELY_FREEZING, RARELY_FREEZING, FREEZING)),
        operations=tuple(
            sorted(
                (
                    near(
                        chance,
                        planned,
                        combine.choice(ends) if planned.kind == "keyed_list" else nears[0],
                    )
                    for planned in drawn.operations
                ),
                key=lambda operation: operation.at,
            )
        ),
    )


def _spending(drawn: Scenario) -> Scenario:
    """Let a scenario's processes spend from budgets, if it has any."""
    if not drawn.settings.budgets:
        return drawn
    seed, horizon = drawn.seed, drawn.retry_horizon
    plan = draw_budgets(seed, drawn.regions, drawn.busy, horizon)
    if has_wrong_clocks(seed) and has_edges(seed):
        plan = with_edges(seed, plan, drawn.regions, horizon)
    return replace(drawn, budgets=plan)


def _moving(drawn: Scenario) -> Scenario:
    """Let an operator move the home, by a change of the contract."""
    chance = stream(drawn.seed, "move")
    settings, plan = drawn.settings, drawn.contract
    if plan is None:
        settings, plan = unchanging(settings, contract_life=chance.choice(LIVES_SECONDS))
    move = TermsChange(chance.uniform(0.2, 0.8) * drawn.span, {"home": drawn.regions[1]})
    return replace(drawn, settings=settings, contract=replace(plan, changes=(*plan.changes, move)))


def _losing(drawn: Scenario, *, homes: tuple[str, ...]) -> Scenario:
    """Let a scenario lose a region while there is work, and go on without it."""
    chance = stream(drawn.seed, "loss")
    at = draw_moment(chance, drawn.busy)
    settings, plan = unchanging(drawn.settings, contract_life=chance.choice(LIVES_SECONDS))
    loss = draw_loss(chance, drawn.regions, at, settings.terms)
    loss = taken_out(stream(drawn.seed, "taken out"), loss, homes)
    busy = busy_with(chance, drawn.busy, loss, settings.terms)
    after = in_force_at(loss, settings.terms), busy[-1].ends
    late = chance.choice((drawn.compactor_faults.late_transactions, LATE_SHARE, LATE_SHARE))
    return replace(
        drawn,
        settings=settings,
        contract=plan,
        loss=loss,
        rivals=chance.random() < RIVALS_SHARE,
        busy=busy,
        span=busy[-1].ends,
        compactor_faults=replace(drawn.compactor_faults, late_transactions=late),
        operations=operations_about(chance, drawn.operations, loss, busy[-1].ends),
        outages=outages_with(chance, drawn.outages, loss, at, after),
    )


def _settings(
    chance: Random, sharing: Random, finding: Random, profile: Profile, regions: tuple[str, ...]
) -> Settings:
    return Settings(
        home=regions[0],
        regions={name: {} for name in regions},
        settle=chance.choice(SETTLES_SECONDS),
        consistent_reads=chance.random() < profile.consistent,
        compactor={
            "lease": profile.lease,
            "heartbeat": profile.heartbeat,
            "fold_max": chance.choice(profile.fold_max),
            "fold_min": chance.choice(profile.fold_min),
            "fold_age": chance.choice((900.0, 1500.0)),
            "prune_min": chance.choice(profile.prune_min),
            "scan_segments": 1,
            "scan_every": finding.choice((0.0, 0.0, 60.0, 1800.0)),
            "hint_every": finding.choice((1, 1, 3)),
            "slices": SLICES,
        },
        writer={
            "linger": sharing.choice((0.002, 0.5)),
            "in_flight": sharing.choice((1, 8)),
            "queue_max": sharing.choice((3, 10_000)),
        },
        combine=sharing.choice(COMBINED),
    )


def _shards(chance: Random, profile: Profile, busy: tuple[BusyPeriod, ...]) -> dict[str, Any]:
    """Return the numbers of shards of the counters; some grow soon after changes of the counter."""
    shards: dict[str, Any] = {"counter-2": chance.choice((1, 2))}
    if chance.random() < GROWING_SHARE:
        since = START + timedelta(seconds=draw_at(chance, busy) + chance.uniform(0.0, 200.0))
        before = chance.choice((1, 1, 2))
        after = before + chance.choice((1, 2))
        shards["counter-0"] = [{"count": before}, {"count": after, "since": since}]
    elif len(profile.shards) > 1:
        shards["counter-0"] = chance.choice(profile.shards)
    return shards


def keeps_periods(seed: int) -> bool:
    """Return whether the world of a seed keeps sums by period."""
    return bool(_periods(stream(seed, "periods")))


def keeps_archive(seed: int) -> bool:
    """Return whether the world of a seed archives what it merges."""
    return stream(seed, "archive").random() < ARCHIVE_SHARE


def keeps_index(seed: int) -> bool:
    """Return whether the world of a seed keeps an index of its counters."""
    return stream(seed, "listed").random() < INDEX_SHARE


def _periods(chance: Random) -> dict[str, Any]:
    """Return the rules of sums by period; days begin, and hours end, while a world runs."""
    if chance.random() >= PERIODS_SHARE:
        return {}
    return {
        chance.choice(("counter-*", "counter-0")): {
            "hours": chance.choice((0, 1, 1)),
            "days": chance.choice((0, 1, 30)),
            "months": chance.choice((1, 12)),
            "zone": chance.choice(ZONES),
            "effective": chance.random() < 0.5,  # noqa: PLR2004 (a coin)
        }
    }


def _faults(
    chance: Random, rough: float, *, trip_seconds: float, late_folds: float = 0.0
) -> FaultProfile:
    def share(most: float) -> float:
        return chance.choice((0.0, rough * most))

    return FaultProfile(
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


def _held_up(faults: FaultProfile, share: float) -> FaultProfile:
    """Let at least this share of writes land late."""
    return replace(faults, late=max(faults.late, share))
