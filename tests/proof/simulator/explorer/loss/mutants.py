"""Mutants of the loss of a region: one rule broken, in terms of the model.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from compactor.merge_plan import MergeRules, Observation, is_committed
from compactor.succession import Succession
from ledger.core import keys
from proof.simulator.explorer.loss.production import (
    Reading,
    Shown,
    Succeeding,
    succeed_now,
)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule broken; `what` describes it, `case` is a case in which it shows.

    `while_listed`: an operator acts, or a leader leaves the region out, while it is still a
    replica. `in_place`: operators overwrite the lost home's own item. `checked`: a put of an entry
    again finds the net as observed; `exists`: and the entry. `waits`: the contract is in force once
    all that began under the one before has ended. `remembers`: ids that a lost region may have
    written are remembered.
    """

    what: str
    case: Mapping[str, Any] = field(default_factory=dict)
    succeeding: Succeeding = succeed_now
    reading: Reading = tuple
    while_listed: bool = False
    in_place: bool = False
    checked: bool = True
    exists: bool = True
    waits: bool = True
    remembers: bool = True


NO_MUTANT = Mutant("no rule is broken")


def _no_again(observation: Observation, rules: MergeRules, version: str) -> Succession:
    return replace(succeed_now(observation, rules, version), again=())


def _again_at_home(observation: Observation, rules: MergeRules, version: str) -> Succession:
    found = succeed_now(observation, rules, version)
    return replace(found, again=tuple(replace(put, region=rules.home) for put in found.again))


def _deletes_at_home(observation: Observation, rules: MergeRules, version: str) -> Succession:
    found = succeed_now(observation, rules, version)
    deletes = {
        region: tuple(key for key in keys_ if region == rules.home or keys.generation_of(key))
        for region, keys_ in (found.deletes or {}).items()
    }
    return replace(found, deletes=deletes)


def _outdated_at_once(observation: Observation, rules: MergeRules, version: str) -> Succession:
    found = succeed_now(observation, rules, version)
    if is_committed(observation):
        return found
    deletes = {
        region: tuple(map(keys.net_sort_key, sorted(view.outdated)))
        for region, view in observation.views.items()
    }
    return replace(found, deletes=deletes)


def _lowest(nets: Shown) -> Shown:
    return nets[:1]


MUTANTS: Mapping[str, Mutant] = {
    "take-over-while-listed": Mutant(
        "a home is taken over while the lost one is still a replica", while_listed=True, waits=False
    ),
    "fold-while-listed": Mutant(
        "an unreadable region is left out while it is still a replica",
        {"home": 1},
        while_listed=True,
        waits=False,
    ),
    "no-wait": Mutant(
        "in a table that lost a region before, the next contract is in force without a wait",
        {"regions": 3, "leaders": 2, "always": True, "late": False},
        waits=False,
    ),
    "in-place": Mutant(
        "operators overwrite the lost home's item, in place of an item of a new generation",
        {"regions": 3, "operators": 2, "ahead": True},
        in_place=True,
    ),
    "no-again": Mutant(
        "what only some regions show is not put again", {"regions": 3}, succeeding=_no_again
    ),
    "again-unchecked": Mutant(
        "an entry is put again without a look at the net and the entry",
        {"regions": 3, "leaders": 2},
        checked=False,
        exists=False,
    ),
    "again-if-there": Mutant(
        "an entry is put again if it is there, without a look at the net",
        {"regions": 3, "leaders": 2},
        checked=False,
    ),
    "again-at-home": Mutant(
        "an entry is put again through home, whichever region shows it",
        {"regions": 3, "ahead": True},
        succeeding=_again_at_home,
        exists=False,
    ),
    "deletes-at-home": Mutant(
        "named entries are deleted through home only",
        {"regions": 3},
        succeeding=_deletes_at_home,
    ),
    "outdated-at-once": Mutant(
        "nets of older generations are deleted before the new one is everywhere",
        {"regions": 3},
        succeeding=_outdated_at_once,
    ),
    "forgotten-at-once": Mutant(
        "the ids of what a lost region may have written more than once are forgotten",
        {"ahead": True, "repeats": True},
        remembers=False,
    ),
    "lowest-generation": Mutant(
        "readers take the net of the lowest generation", {"entries": 2}, reading=_lowest
    ),
}
