"""Mutants of the rules for a lost region, which only worlds that lose one can show."""

from dataclasses import replace
from datetime import datetime

from compactor import decider
from compactor.merge_plan import MergePlan, MergeRules, Observation
from compactor.succession import Succession, newest_net, succeed
from proof.simulator.edit import Edit
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import Mutant, worlds_from
from proof.simulator.scenario import draw


def takes_out(seed: int) -> bool:
    """Return whether a region is taken out of the world of a seed."""
    loss = draw(seed).loss if is_lossy(seed) else None
    return loss is not None and loss.is_taken_out


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
    return succeed(observation, same, now=now, version=version, upto=upto)


LOSS_MUTANTS = (
    Mutant(
        "taken-while-listed",
        "a region is given up once no other lists it among the replicas",
        "what is merged without it is deleted in it before the net arrives",
        40,
        (
            Edit(
                "compactor.home_takeover:check_removed",
                "[name for name in lost if name in listed]",
                "[]",
            ),
            Edit("compactor.checks:check_replicas", "if described is None", "if True"),
        ),
        first=23,
        worlds=is_lossy,
    ),
    Mutant(
        "no-again",
        "an entry that only some of the remaining regions got from a lost one is put again",
        "regions differ for ever",
        40,
        (Edit("compactor.succession:succeed", "copies=copies)", "copies=copies, again=())"),),
        first=5,
        worlds=is_lossy,
    ),
    Mutant(
        "deletes-at-home",
        "a named entry that home no longer shows is deleted through each region that does",
        "a delete of the lost home that did not arrive everywhere is never made up for",
        40,
        (Edit("compactor.succession:_deletes", " or key not in at_home", ""),),
        worlds=is_lossy,
    ),
    Mutant(
        "in-place",
        "a net of a lost home is never overwritten: its successor is of the next generation",
        "a late write of the lost home, whose stamps were ahead, replaces the successor",
        40,
        ((decider, "succeed", in_place),),
        first=29,
        worlds=is_lossy,
    ),
    Mutant(
        "outdated-at-once",
        "nets of older generations are deleted once the new one is committed",
        "all that they count vanishes where the new one has not arrived",
        160,
        (
            Edit(
                "compactor.succession:_succeed",
                "        return Succession(plan=plan, waits=plan.waits)\n",
                "        views = observation.views.items()\n"
                "        old = {region: tuple(map(keys.net_sort_key, view.outdated)) for "
                "region, view in views}\n"
                "        deletes = {region: found for region, found in old.items() if found}\n"
                "        return Succession(plan=plan, deletes=deletes, waits=plan.waits)\n",
            ),
        ),
        first=11,
        worlds=is_lossy,
    ),
    Mutant(
        "forgotten-at-once",
        "ids that a lost region may have written are remembered for a day",
        "a repeat of the write, late and with a stamp ahead, brings the entry back: counted twice",
        60,
        (
            Edit(
                "compactor.pass_terms:rules_of",
                "None if terms.given_up_at is None else terms.given_up_at + skew",
                "None",
            ),
        ),
        worlds=worlds_from(530, is_lossy),
    ),
    Mutant(
        "left-not-lost",
        "a region that is taken out counts as lost: what it wrote may have arrived in part",
        "an entry that one region got from it stays there alone: regions differ for ever",
        60,
        (
            Edit(
                "ledger.core.contract:parted",
                "    return replace",
                "    return terms\n    return replace",
            ),
        ),
        first=17,
        worlds=takes_out,
    ),
)
