"""The functions that mutants put in place of production code, where an edit is not enough."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from compactor import merge_plan
from compactor import observation as observe
from compactor.merge_plan import MergeRules, Observation
from compactor.observation import CollectionViews
from ledger.core import amounts, contract
from ledger.core.contract import Terms
from ledger.core.fold import Collection
from ledger.core.values import Entry
from ledger.reads.collection import read_net
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import run_all
from ledger.settings import Settings
from ledger.settings.groups import Region
from ledger.settings.model import CONTRACTED
from ledger.store.port import Store
from ledger.store.writes import (
    Applied,
    BatchOutcome,
    EachOutcome,
    Unknown,
    Update,
)
from ledger.writes.entry_plan import PlannedEntry
from ledger.writes.sender import ReportResult, Sender
from proof.simulator import scenario
from proof.simulator.scenario import Scenario
from proof.simulator.store import SimStore

_candidates = merge_plan._candidates  # noqa: SLF001
_draw = scenario.draw
_stricter = contract.stricter
_under = Settings.under
_unanswered = SimStore._unanswered  # noqa: SLF001
_SINGLE_TRIES_MAX = 8
SHORT_LIFE_SECONDS = 300.0
"""What some reports say of AWS, and what the settings said at first."""


async def net_last(
    stores: Mapping[str, Store], partition: str, *, home: str, clock: Clock, **_extent: Any
) -> CollectionViews:
    """Read the net after the entries."""
    reads = [partial(observe._read_view, store, partition) for store in stores.values()]  # noqa: SLF001
    seen = dict(zip(stores, await run_all(reads, at_once=len(reads)), strict=True))
    net = await observe._readable(home, read_net(stores[home], partition))  # noqa: SLF001
    shown = {region: view.collection for region, view in seen.items()}
    return CollectionViews(Observation(partition, net, shown), clock.monotonic(), clock.now())


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


def own_terms(settings: Settings, terms: Terms, *, home: str) -> Settings:
    """Take from a contract only what the settings do not say themselves."""
    named = settings.model_fields_set.intersection(CONTRACTED)
    own = {name: getattr(settings.terms, name) for name in named}
    mixed = replace(terms, **own, regions=settings.terms.regions)
    return _under(settings, mixed, home=settings.home if "home" in named else home)


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
