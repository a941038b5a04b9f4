"""Mutants of the explorer: the merge with one rule broken, in terms of the model.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from compactor.merge_plan import MergePlan, MergeRules, Observation, is_committed
from ledger.core import books, ids
from ledger.core.fold import Collection
from ledger.core.values import Leg, NetChange
from proof.simulator.explorer.production import Deciding, decide_now


@dataclass(frozen=True, slots=True)
class Mutant:
    """The merge with one rule broken; `what` describes it.

    `net_first`: the net is read before the entries. `conditional`: a fold is applied only if the
    net is still the one observed. `holds`: a leader waits for every reader that began before its
    observation was complete. `in_one`: the fold and the deletes are one transaction. `waits`: a new
    home is in force once no fold of the old one can land. `needs_pages`: it shows only with leaders
    that read views page by page; `needs_reader`: only with a reader that pauses between two pages.
    `entries` and `leaders` are the least numbers that show it.
    """

    what: str
    deciding: Deciding = decide_now
    net_first: bool = True
    conditional: bool = True
    holds: bool = True
    in_one: bool = False
    waits: bool = True
    needs_pages: bool = False
    needs_reader: bool = False
    entries: int = 1
    leaders: int = 1


NO_MUTANT = Mutant("no rule is broken")
EARLY_MOVE = Mutant(
    "a new home is in force while a fold of the old one may still land", waits=False
)
"""Not among `MUTANTS`: a fold may be lost and made again, and no total is ever wrong by it."""


def _view(
    entries: dict[str, Decimal], view: Collection, legs: dict[str, tuple[Leg, ...]]
) -> Collection:
    """Return what a region shows with other entries; of a book they have these legs."""
    found = Collection(entries, view.net)
    found.legs = None if view.legs is None else legs
    return found


def _home_candidates(observation: Observation, rules: MergeRules, version: str) -> MergePlan:
    home = observation.views[rules.home].entries
    legs = observation.views[rules.home].legs or {}
    shown = {
        region: _view({**home, **view.entries}, view, {**legs, **(view.legs or {})})
        for region, view in observation.views.items()
    }
    return decide_now(replace(observation, views=shown), rules, version)


def _home_gone(observation: Observation, rules: MergeRules, version: str) -> MergePlan:
    merged = set(map(str, observation.net.merged)) if observation.net else set()
    dropped = merged - observation.views[rules.home].entries.keys()
    shown = {
        region: _view(
            {key: change for key, change in view.entries.items() if key not in dropped},
            view,
            view.legs or {},
        )
        for region, view in observation.views.items()
    }
    return decide_now(replace(observation, views=shown), rules, version)


def _early_deletes(observation: Observation, rules: MergeRules, version: str) -> MergePlan:
    if observation.net is None or is_committed(observation):
        return decide_now(observation, rules, version)
    home = observation.views[rules.home].entries
    return MergePlan(deletes=tuple(key for key in map(str, observation.net.merged) if key in home))


def _no_ids(observation: Observation, rules: MergeRules, version: str) -> MergePlan:
    plan = decide_now(observation, rules, version)
    return replace(plan, fold=replace(plan.fold, merged=()) if plan.fold else None)


def _one_transaction(observation: Observation, rules: MergeRules, version: str) -> MergePlan:
    home, net = observation.views[rules.home].entries, observation.net
    settled = sorted(key for key in home if ids.parse(key))[: rules.fold_max]
    if not settled:
        return MergePlan(waits="too few entries")
    change = sum((home[key] for key in settled), net.change if net else Decimal(0))
    count = (net.count if net else 0) + len(settled)
    legs = observation.views[rules.home].legs or {}
    _, accounts = books.fitting(net, [(key, home[key]) for key in settled], legs, bool)
    fold = NetChange(change, count, (), version, "", rules.home, accounts=accounts)
    return MergePlan(tuple(settled), fold, len(settled))


MUTANTS: Mapping[str, Mutant] = {
    "one-transaction": Mutant(
        "the merge as usually described: one transaction deletes the entries and puts their net",
        deciding=_one_transaction,
        in_one=True,
    ),
    "no-ids": Mutant("the net does not name the entries that it counts", deciding=_no_ids),
    "home-candidates": Mutant(
        "entries that home shows are merged, though another region has not got them",
        deciding=_home_candidates,
    ),
    "home-gone": Mutant(
        "ids are dropped when home does not show the entry, though another region still does",
        deciding=_home_gone,
    ),
    "early-deletes": Mutant(
        "merged entries are deleted before every region shows the net", deciding=_early_deletes
    ),
    "net-last": Mutant(
        "the net is read after the entries", net_first=False, needs_pages=True, leaders=2
    ),
    "no-condition": Mutant(
        "the net is put whatever version is there by then",
        conditional=False,
        entries=2,
        leaders=2,
    ),
    "no-hold": Mutant(
        "observations are acted on at once, while a reader is between two pages",
        holds=False,
        needs_reader=True,
    ),
}
