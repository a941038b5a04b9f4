"""The part of a scenario that concerns the table's contract: terms and changes of them.

Terms are drawn in two forms each, so that a change makes them longer or shorter. Seeds are chosen
by a remainder, so that the worlds of all other seeds stay what they were.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import Random
from typing import Any

from ledger.core.contract import ShardRule, Terms, seconds_to_wait
from ledger.settings import Settings
from proof.simulator.clocks import START
from proof.simulator.files import Files, right_file, wrong_files
from proof.simulator.profiles import CLOCKS_OFF, profile_of
from proof.simulator.randomness import stream

_OF = 11
_WITH_CONTRACT = frozenset({3, 7, 9, 10})
LIVES_SECONDS = (90.0, 150.0)
"""Short for the span of a world, and longer than any observation is held; a view is renewed five
times as often."""
SHORT: Mapping[str, float] = {"settle": 980.0, "retry_horizon": 10.0}
LONG: Mapping[str, float] = {"settle": 2500.0, "retry_horizon": 1500.0}
QUICK: Mapping[str, float] = {"observation_delay": 20.0, "read_deadline": 15.0}
SLOW: Mapping[str, float] = {"observation_delay": 45.0, "read_deadline": 38.0}
SHRINKING_SHARE = 0.8
SHARDS_SHARE = 0.3
SECOND_SHARE = 0.5
WRONG_FILES_SHARE = 0.7
FIRST_SECONDS = (900.0, 1300.0)
"""When the first change is announced."""
IN_FORCE_SECONDS = 60.0
"""How much later than its wait alone says a change is in force, usually."""
BUSY_AFTER = ((20.0, 150.0), (400.0, 600.0))
"""Between which seconds after a change begins and is in force there are busy periods."""
FREEZE_SHARE = 0.9
FREEZES_SECONDS = (550.0, 900.0)
NEAR_SECONDS = 200.0
"""So near a change of terms come most repeats of calls."""
OLD_SECONDS = (450.0, 900.0)
"""How much earlier some calls are made first: by the shorter terms their entries are soon old."""
JUST_BEFORE_SECONDS = 80.0
KEPT_SHARE = 0.35
"""Of the busy periods, those that stay beside the ones near a change."""
_SHARDED = "counter-1"


@dataclass(frozen=True, slots=True)
class TermsChange:
    """A change of the contract that an operator begins at a moment."""

    at: float
    values: Mapping[str, Any] = field(default_factory=dict)

    def refine(self, terms: Terms) -> Terms:
        """Return terms with this change."""
        values = dict(self.values)
        if "shards" in values:
            values["shards"] = {**terms.shards, **values["shards"]}
        return replace(terms, **values)


@dataclass(frozen=True, slots=True)
class Freeze:
    """From `at` on the application of a region freezes before it next puts an entry, once."""

    at: float
    region: str
    seconds: float


@dataclass(frozen=True, slots=True)
class ContractPlan:
    """What the processes' files say beside the contract, and how it changes.

    `first` are the terms at the beginning. `settle` and `retry_horizon` are the longest of all.
    """

    first: Terms
    files: Files
    changes: tuple[TermsChange, ...]
    freezes: tuple[Freeze, ...]
    settle: float
    retry_horizon: float

    @property
    def in_force(self) -> tuple[float, ...]:
        """When each change is in force, if all goes well."""
        wait = seconds_to_wait(self.first, self.first) + IN_FORCE_SECONDS
        return tuple(change.at + wait for change in self.changes)


def is_contracted(seed: int) -> bool:
    """Return whether the processes of a seed's world go through the table's contract."""
    return seed % _OF in _WITH_CONTRACT and profile_of(seed) is not CLOCKS_OFF


def draw_contract(seed: int, settings: Settings) -> tuple[Settings, ContractPlan]:
    """Return the settings that a world with a contract begins with, and the plan of it."""
    chance = stream(seed, "contract")
    times = [SHORT, LONG]
    reads = [QUICK, SLOW]
    if chance.random() < SHRINKING_SHARE:
        times.reverse()
    chance.shuffle(reads)
    first: dict[str, Any] = {**times[0], **reads[0]}
    settings = settings.replace(**first, contract_life=chance.choice(LIVES_SECONDS))
    changes = _changes(chance, settings, dict(times[1]), dict(reads[1]))
    both = [dict(times[0]), *(change.values for change in changes)]
    filing = stream(seed, "files")
    wrong: tuple[Settings, ...] = ()
    if filing.random() < WRONG_FILES_SHARE:
        wrong = wrong_files(filing, settings, times=times[1], reads=reads[1])
    plan = ContractPlan(
        first=settings.terms,
        files=Files(right_file(settings), wrong),
        changes=changes,
        freezes=_freezes(stream(seed, "freezes"), settings.regions, changes),
        settle=max(terms.get("settle", 0.0) for terms in both),
        retry_horizon=max(terms.get("retry_horizon", 0.0) for terms in both),
    )
    return settings, plan


def unchanging(settings: Settings, *, contract_life: float) -> tuple[Settings, ContractPlan]:
    """Return the settings of a world with a contract, and a plan without any change of it."""
    settings = settings.replace(contract_life=contract_life)
    plan = ContractPlan(
        first=settings.terms,
        files=Files(right_file(settings)),
        changes=(),
        freezes=(),
        settle=settings.settle,
        retry_horizon=settings.retry_horizon,
    )
    return settings, plan


def _changes(
    chance: Random, settings: Settings, times: dict[str, Any], reads: dict[str, Any]
) -> tuple[TermsChange, ...]:
    """Draw one change or two; the second may find the first pending, and is refused then."""
    at = chance.uniform(*FIRST_SECONDS)
    values = chance.choice((times, times, times, times, times | reads, reads, {}))
    if not values or chance.random() < SHARDS_SHARE:
        values = values | {"shards": _shards(chance, settings, at)}
    changes = [TermsChange(at, values)]
    if chance.random() < SECOND_SHARE:
        back = {name: getattr(settings, name) for name in ({**times, **reads})}
        second = at + seconds_to_wait(settings.terms, settings.terms) * chance.uniform(0.5, 1.5)
        changes.append(TermsChange(second, back))
    return tuple(changes)


def _freezes(
    chance: Random, regions: Iterable[str], changes: tuple[TermsChange, ...]
) -> tuple[Freeze, ...]:
    """Let writers freeze between their look at the contract and their request, as it changes."""
    return tuple(
        Freeze(
            at=change.at - chance.random() * JUST_BEFORE_SECONDS,
            region=region,
            seconds=chance.uniform(*FREEZES_SECONDS),
        )
        for change in changes
        for region in regions
        if chance.random() < FREEZE_SHARE
    )


def _shards(chance: Random, settings: Settings, at: float) -> dict[str, tuple[ShardRule, ...]]:
    """Draw a step of shards that is dated later than the change can be in force, or nearly so."""
    wait = seconds_to_wait(settings.terms, settings.terms) + settings.clock_skew
    since = START + timedelta(seconds=at + wait + chance.uniform(10.0, 1000.0))
    return {_SHARDED: (ShardRule(1), ShardRule(chance.choice((2, 3)), since))}
