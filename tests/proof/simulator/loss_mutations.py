"""The code that each mutant of a lost region puts in place of production code."""

from dataclasses import replace
from datetime import datetime

from compactor import pass_terms, succession
from compactor.merge_plan import MergePlan, MergeRules, Observation, is_committed
from compactor.succession import Succession, newest_net
from ledger.core import keys
from ledger.core.contract import Terms
from ledger.settings import Settings

_succeed, _rules_of = succession.succeed, pass_terms.rules_of


def no_again(
    observation: Observation,
    rules: MergeRules,
    *,
    now: datetime,
    version: str,
    upto: str | None = None,
) -> Succession:
    """Leave what only some regions show as it is."""
    found = _succeed(observation, rules, now=now, version=version, upto=upto)
    return replace(found, again=())


def deletes_at_home(
    observation: Observation,
    rules: MergeRules,
    *,
    now: datetime,
    version: str,
    upto: str | None = None,
) -> Succession:
    """Delete entries through home only, whichever regions show them."""
    found = _succeed(observation, rules, now=now, version=version, upto=upto)
    deletes = {
        region: tuple(key for key in listed if region == rules.home or keys.generation_of(key))
        for region, listed in (found.deletes or {}).items()
    }
    return replace(found, deletes={region: listed for region, listed in deletes.items() if listed})


def outdated_at_once(
    observation: Observation,
    rules: MergeRules,
    *,
    now: datetime,
    version: str,
    upto: str | None = None,
) -> Succession:
    """Delete nets of older generations although the new one is not committed."""
    found = _succeed(observation, rules, now=now, version=version, upto=upto)
    if is_committed(observation) or found.take_over is not None:
        return found
    outdated = {
        region: tuple(map(keys.net_sort_key, sorted(view.outdated)))
        for region, view in observation.views.items()
        if view.outdated
    }
    return replace(found, deletes=outdated)


def in_place(
    observation: Observation,
    rules: MergeRules,
    *,
    now: datetime,
    version: str,
    upto: str | None = None,
) -> Succession:
    """Overwrite the net of the lost home, in place of one of a new generation beside it."""
    newest = newest_net(observation)
    if newest is not None and newest.home != rules.home and newest.home not in observation.views:
        fold = replace(newest, version=version, home=rules.home)
        return Succession(plan=MergePlan(fold=fold))
    same = replace(rules, generation=1)
    return _succeed(observation, same, now=now, version=version, upto=upto)


def forget_at_once(settings: Settings) -> MergeRules:
    """Forget the ids of what a lost region wrote like all others."""
    return replace(_rules_of(settings), given_up=None)


def parted_in_silence(terms: Terms, _regions: tuple[str, ...], _at: datetime) -> Terms:
    """Note nothing of a region that is taken out."""
    return terms


async def removed_at_once(*_stores_table_and_lost: object) -> None:
    """Take over whether or not the region is still a replica."""


def any_replicas(*_described: object, **_regions: object) -> None:
    """Merge whichever replicas the table has."""
