"""The code that each mutant puts in place of production code (see `mutants`)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import anyio

from compactor import merge_pass, merge_plan, pass_terms
from compactor import observation as observe
from compactor import plan_execution as applying
from compactor.agenda import Visit
from compactor.context import MergeContext
from compactor.merge_plan import MergePlan, MergeRules, Observation
from compactor.observation import CollectionViews
from compactor.own_folds import OwnFold
from compactor.plan_execution import PlanResult
from compactor.slices import NO_MEMBER, Slice
from ledger.core import amounts, contract, ids, keys
from ledger.core.contract import Terms, Validity
from ledger.core.entry import entry_item, net_item
from ledger.core.errors import DamagedItem, StoreError
from ledger.core.fold import Collection
from ledger.core.values import Entry, NetChange
from ledger.reads import collection
from ledger.reads.collection import CollectionRead, ReadProgress, read_net
from ledger.reads.total import Total
from ledger.runtime.clock import Clock, ElapsedTime
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.settings.groups import Region
from ledger.settings.live import LiveSettings
from ledger.settings.model import CONTRACTED
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.writes import (
    Action,
    Applied,
    BatchOutcome,
    Check,
    Delete,
    EachOutcome,
    Outcome,
    Put,
    Unknown,
    Update,
)
from ledger.writes.entry_plan import Change, PlannedEntry, replan
from ledger.writes.entry_plan import plan_entry as plan_change
from ledger.writes.sender import EachSending, ReportResult, Sender
from proof.simulator import scenario
from proof.simulator.scenario import Scenario
from proof.simulator.store import SimStore

_decide, _apply, _observe = merge_plan.plan_merge, applying.execute_plan, observe.observe
_rules_of = pass_terms.rules_of
_candidates, _read_once = merge_plan._candidates, collection._read_once  # noqa: SLF001
_draw = scenario.draw
_stricter = contract.stricter
_under = Settings.under
_settled = EachSending.settled
_unanswered = SimStore._unanswered  # noqa: SLF001
_SINGLE_TRIES_MAX = 8
SHORT_LIFE_SECONDS = 300.0
"""What some reports say of AWS, and what the settings said at first."""


def unmeasured(_offset: object, **_rule: object) -> None:
    """Act by a clock however far it is off."""


def one_transaction_decide(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> MergePlan:
    """Plan to delete what is folded in the transaction that folds it; all else is as ever."""
    made = _decide(observation, rules, now=now, version=version)
    if made.fold is None:
        return made
    before = observation.net.merged if observation.net else ()
    return replace(made, deletes=tuple(map(str, sorted({*made.fold.merged} - {*before}))))


async def one_transaction_apply(
    store: Store,
    partition: str,
    net: NetChange | None,
    plan: MergePlan,
    *,
    fence: Sequence[Check],
) -> PlanResult:
    """Delete the entries and put their net, all or nothing in the home region."""
    if plan.fold is None:
        return await _apply(store, partition, net, plan, fence=fence)
    put = Put(net_item(plan.fold, partition), condition=applying._still(net))  # noqa: SLF001
    deletes: list[Action] = [Delete((partition, key)) for key in plan.deletes]
    outcome = await store.transact([*fence, put, *deletes])
    return PlanResult(len(deletes) if isinstance(outcome, Applied) else 0, outcome)


def no_ids_decide(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> MergePlan:
    """Put a net that does not name the entries that it counts, and delete them by its plan."""
    made = _decide(observation, rules, now=now, version=version)
    if made.fold is None:
        return made
    return replace(made, fold=replace(made.fold, merged=()))


def home_candidates_decide(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> MergePlan:
    """Take entries that home shows as if every region showed them."""
    home = observation.views[rules.home].entries
    shown = {
        region: Collection({**view.entries, **home}, view.net)
        for region, view in observation.views.items()
    }
    return _decide(replace(observation, views=shown), rules, now=now, version=version)


def early_deletes_decide(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> MergePlan:
    """Delete merged entries although the net is not committed."""
    made = _decide(observation, rules, now=now, version=version)
    if made.waits != "not committed" or observation.net is None:
        return made
    home = observation.views[rules.home].entries
    return MergePlan(deletes=tuple(key for key in map(str, observation.net.merged) if key in home))


def is_given_up(one: Slice, members: object) -> bool:
    """Return whether a slice was given up: that its leader is gone is not looked at."""
    del members
    return one.owner == NO_MEMBER


def committed_at_once(_fold: OwnFold, _nets: Mapping[str, NetChange | None]) -> bool:
    """Take a process's last fold for committed, whatever net other regions show."""
    return True


def home_gone_decide(
    observation: Observation, rules: MergeRules, *, now: datetime, version: str
) -> MergePlan:
    """Drop ids of entries that home no longer shows, whatever other regions show."""
    net, home = observation.net, observation.views[rules.home].entries
    dropped = {key for key in map(str, net.merged if net else ()) if key not in home}
    shown = {
        region: Collection(
            {key: change for key, change in view.entries.items() if key not in dropped}, view.net
        )
        for region, view in observation.views.items()
    }
    return _decide(replace(observation, views=shown), rules, now=now, version=version)


async def unseen_region(
    stores: Mapping[str, Store], partition: str, *, home: str, clock: Clock, **extent: Any
) -> CollectionViews:
    """Observe every region but the last."""
    seen = {region: store for region, store in stores.items() if region != [*stores][-1]}
    if home not in seen:
        seen[home] = stores[home]
    return await _observe(seen, partition, home=home, clock=clock, **extent)


async def net_last(
    stores: Mapping[str, Store], partition: str, *, home: str, clock: Clock, **_extent: Any
) -> CollectionViews:
    """Read the net after the entries."""
    reads = [partial(observe._read_view, store, partition) for store in stores.values()]  # noqa: SLF001
    seen = dict(zip(stores, await run_all(reads, at_once=len(reads)), strict=True))
    net = await observe._readable(home, read_net(stores[home], partition))  # noqa: SLF001
    shown = {region: view.collection for region, view in seen.items()}
    return CollectionViews(Observation(partition, net, shown), clock.monotonic(), clock.now())


async def unconditional_apply(
    store: Store,
    partition: str,
    net: NetChange | None,
    plan: MergePlan,
    *,
    fence: Sequence[Check],
) -> PlanResult:
    """Put the net whatever version is there by now."""
    done = await _apply(store, partition, net, replace(plan, fold=None), fence=fence)
    if plan.fold is None:
        return done
    outcome = await store.transact([*fence, Put(net_item(plan.fold, partition))])
    return PlanResult(done.deleted, outcome)


def short_view(net: NetChange | None, upto: str | None) -> str | None:
    """End a visit of a collection before it has come to the ids that the net names."""
    return upto and "" if net is not None and net.merged else upto


class _Unheld:
    """Live settings that hold nothing; the settings themselves refuse a hold of zero."""

    def __init__(self, live: LiveSettings) -> None:
        self._live = live
        self._seen: Settings | None = None
        self._unheld: Settings | None = None

    @property
    def current(self) -> Settings:
        seen = self._live.current
        if self._unheld is None or seen is not self._seen:
            self._seen, self._unheld = seen, seen.model_copy(update={"observation_delay": 0.0})
        return self._unheld

    @property
    def validity(self) -> Validity | None:
        return self._live.validity

    async def renew(self) -> None:
        await self._live.renew()


def no_hold(init: Callable[..., None]) -> Callable[..., None]:
    """Make a pass act at once."""

    def without(
        self: merge_pass.MergePass, context: MergeContext, *args: Any, **options: Any
    ) -> None:
        init(self, replace(context, settings=_Unheld(context.settings)), *args, **options)

    return without


def believing_short_life(seed: int) -> Scenario:
    """Draw a world whose settings believe that a signature lives for five minutes."""
    drawn = _draw(seed)
    settings = drawn.settings
    lost = settings.signature_lifetime - SHORT_LIFE_SECONDS
    believed = settings.replace(
        signature_lifetime=SHORT_LIFE_SECONDS,
        settle=settings.settle - lost,
        regions=dict.fromkeys(drawn.regions, Region(endpoint="http://127.0.0.1:1")),
    )
    return replace(drawn, settings=believed)


def quarantine_all(self: merge_pass.MergePass, visit: Visit, error: DamagedItem) -> None:
    """Stop the pass at a collection that cannot be read whole."""
    del error
    self._report.quarantine(visit.partition, "and with it all others")
    self._stop = anyio.Event()
    self._stop.set()


def unsettled_rules(*args: Any, **options: Any) -> MergeRules:
    """Merge entries at once."""
    return replace(_rules_of(*args, **options), settle=0.0)


async def add_to_one_item(self: Sender, planned: PlannedEntry) -> Entry:
    """Count in a single item per counter, as is usual without regions."""
    entry = planned.entry
    update = Update((entry.counter, "sum"), add={"change": {"N": amounts.to_text(entry.change)}})
    for _ in range(_SINGLE_TRIES_MAX):
        if not isinstance(await self._store.write(update), Unknown):
            break
    return entry


async def add_each(self: Sender, planned: list[PlannedEntry]) -> list[Entry]:
    """Count each in the single item of its counter."""
    return [await add_to_one_item(self, change) for change in planned]


async def add_and_report(self: Sender, planned: list[PlannedEntry], report: ReportResult) -> None:
    """Count each in the single item of its counter, and report it."""
    for change in planned:
        report(change, await add_to_one_item(self, change))


def settled_together(
    self: EachSending, sent: Sequence[PlannedEntry], answer: Sequence[Outcome | StoreError]
) -> list[PlannedEntry]:
    """Take all of several for written where one was."""
    written = Applied() in answer
    return _settled(self, sent, [Applied()] * len(sent) if written else answer)


def any_region_candidates(
    observation: Observation, rules: MergeRules, *, now: datetime, room: int
) -> tuple[tuple[str, ...], int]:
    """Take entries that any region shows: one broken line in the plan."""
    everything: dict[str, Decimal] = {}
    for view in observation.views.values():
        everything |= view.entries
    shown = {region: Collection(everything, view.net) for region, view in observation.views.items()}
    observation.views[rules.home].entries.update(everything)
    return _candidates(replace(observation, views=shown), rules, now=now, room=room)


async def read_on(
    store: Store,
    progress: ReadProgress,
    elapsed: ElapsedTime,
    read_deadline: float,
    *,
    consistent: bool,
) -> CollectionRead | None:
    """Read every page, however long it takes."""
    del read_deadline
    return await _read_once(store, progress, elapsed, math.inf, consistent=consistent)


def trusting_monotonic(elapsed: ElapsedTime) -> float:
    """Measure elapsed time by the monotonic clock alone."""
    return elapsed._clock.monotonic()  # noqa: SLF001


def agree_always(one: Total, other: Total) -> bool:
    """Take any two looks for the same."""
    del one, other
    return True


def no_horizon(entry: Entry, at: datetime, *, settings: Settings, now: datetime) -> None:
    """Repeat an id however old it is."""


def put_any_time(planned: PlannedEntry) -> Put:
    """Make a frozen writer sign its request whenever it wakes up."""
    return Put(planned.item, condition=Absent())


def plan_by_today(change: Change, **facts: Any) -> PlannedEntry:
    """Plan a change for the shard that an entry made now would lie in."""
    return _in_todays_shard(plan_change(change, **facts), facts["settings"], facts["now"])


def replan_by_today(entry: Entry, **facts: Any) -> PlannedEntry:
    """Plan to write an entry again, in the shard that one made now would lie in."""
    return _in_todays_shard(replan(entry, **facts), facts["settings"], facts["now"])


def _in_todays_shard(planned: PlannedEntry, settings: Settings, now: datetime) -> PlannedEntry:
    counter, id_ = planned.entry.counter, planned.entry.id
    shard = keys.shard_of(ids.suffix_in(id_), settings.shards_now(counter, now))
    entry = replace(planned.entry, shard=shard)
    return planned._replace(entry=entry, item=entry_item(entry))


def never(planned: Sequence[PlannedEntry]) -> datetime:
    """Return when it is too late to repeat these."""
    del planned
    return datetime.max.replace(tzinfo=UTC)


def own_terms(settings: Settings, terms: Terms, *, home: str) -> Settings:
    """Take from a contract only what the settings do not say themselves."""
    named = settings.model_fields_set.intersection(CONTRACTED)
    own = {name: getattr(settings.terms, name) for name in named}
    mixed = replace(terms, **own, regions=settings.terms.regions)
    return _under(settings, mixed, home=settings.home if "home" in named else home)


def agree_with_any(settings: Settings, *_terms: Terms) -> None:
    """Accept settings that say otherwise than the contract."""


class EndlessValidity:
    """Validities that never end."""

    @staticmethod
    def of_read(_at: datetime, _elapsed: float, **_life: float) -> Validity:
        """Take a view of the contract for true however old it is."""
        return Validity(datetime.max.replace(tzinfo=UTC), math.inf)


def no_wait(*_terms: Terms, **_times: float) -> bool:
    """Bring a change into force as soon as every region shows it."""
    return True


def newer_terms(old: Terms, new: Terms) -> Terms:
    """Obey the durations that a pending change brings, in place of the stricter."""
    return replace(
        _stricter(old, new),
        settle=new.settle,
        retry_horizon=new.retry_horizon,
        observation_delay=new.observation_delay,
        read_deadline=new.read_deadline,
    )


async def answered_by_a_gateway(
    store: SimStore, serve: Callable[[], Any], unknown: Any, fate: str
) -> Any:
    """Take `{}` for the answer to a write, where a gateway answered in place of DynamoDB."""
    outcome = await _unanswered(store, serve, unknown, fate)
    if fate != "never arrived":
        return outcome
    match outcome:
        case BatchOutcome():
            return BatchOutcome()
        case EachOutcome(outcomes):
            return EachOutcome((Applied(),) * len(outcomes))
    return Applied()
