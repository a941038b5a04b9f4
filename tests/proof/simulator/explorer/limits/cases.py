"""Small cases of budgets, and each with one rule broken."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.limits import credited, held, held_cases, keyed, rules, small
from proof.simulator.explorer.limits.spending import Model
from proof.simulator.explorer.limits.state import REMOVED, THERE, Case
from proof.simulator.explorer.walk import Walkable

_THERE = frozenset({(0, 1)})
_BACK = frozenset({(1, 0)})
_CHAIN = frozenset({(0, 1), (1, 2)})

_ONE = Case((1,), (0,), takes=2, folds=True)
_PAIR = Case((1,), (0, 0), folds=True)
_SENT = Case((1, 0), (0, 1), sends=_THERE, sent_max=1, folds=True)
_LOST = Case((0, 1), (0, 1), loses=True, folds=True)
_LOST_SENT = replace(_LOST, sends=_BACK, sent_max=1)

SPENDING: Mapping[str, Case] = {
    "one-process": _ONE,
    "renewed": replace(_ONE, minted=(2,), renews=True),
    "two-processes": replace(_PAIR, minted=(2,)),
    "two-processes-of-two": replace(_PAIR, minted=(3,), grant=2),
    "two-who-read-before": replace(_PAIR, reads_before=True),
    "sent": _SENT,
    "sent-there-and-back": replace(_SENT, sends=_THERE | _BACK, sent_max=2),
    "taken-up-later": replace(_SENT, takes_later=True),
    "topped-up": replace(_ONE, minted=(2,), tops=1),
    "two-topped-up": replace(_PAIR, minted=(2,), tops=1),
    "fetched": replace(_SENT, fetches=True),
    "fetched-there-and-back": replace(
        _SENT, sends=_THERE | _BACK, sent_max=2, fetches=True, crashes=False
    ),
    "lost": _LOST,
    "lost-with-rights-under-way": _LOST_SENT,
    "lost-with-rights-fetched": replace(_LOST_SENT, fetches=True),
    "lost-older-base": replace(_LOST, takes=2, base_of=min),
}
LARGE_SPENDING: Mapping[str, Case] = {
    "taken-up-often": replace(_SENT, minted=(2, 0), sent_max=2, takes_later=True),
    "two-regions": Case((1, 1), (0, 1), sends=_THERE, sent_max=1, folds=True),
    "two-processes-often": Case((2,), (0, 0), takes=2, grant=2, folds=True),
    "three-regions": Case((1, 0, 0), (0, 2), sends=_CHAIN, sent_max=2, crashes=False),
    "lost-sent-to": Case((1, 1), (0, 1), loses=True, folds=True, sends=_THERE, sent_max=1),
    "lost-of-three": Case(
        (0, 1, 0), (2,), loses=True, folds=True, sends=frozenset({(1, 0), (1, 2)}), sent_max=1
    ),
    "lost-two-processes": Case((0, 2), (1, 1), loses=True, folds=True, base_of=min),
}
_LIMIT = partial(replace, judges_rest=False)
SPENDING_MUTANTS: Mapping[str, BrokenRule] = {
    "closed-at-expiry": BrokenRule(
        "a grant is closed by a read at its expiry, while signed requests may still land",
        _LIMIT(_ONE, rules=rules.AT_EXPIRY),
    ),
    "signed-after-expiry": BrokenRule(
        "a request is signed after the grant's expiry", _LIMIT(_ONE, rules=rules.ANY_TIME)
    ),
    "read-eventually": BrokenRule(
        "the entries of a grant are read eventually consistent", _LIMIT(_ONE, reads_stale=True)
    ),
    "open-grants-folded": BrokenRule(
        "entries of open grants are folded", _LIMIT(_ONE, rules=rules.FOLDS_OPEN)
    ),
    "closed-if-not-shown": BrokenRule(
        "a grant that home does not show counts as closed, though it has not arrived",
        _LIMIT(_SENT, minted=(0, 1), takes=2, rules=rules.FOLDS_UNSEEN),
    ),
    "folded-when-closed-there": BrokenRule(
        "entries are folded once the grant's own region shows it closed",
        _LIMIT(_LOST, rules=rules.FOLDS_AT_ITS_OWN),
    ),
    "unknown-is-unused": BrokenRule(
        "the owner counts a spend of unknown outcome as not spent",
        _LIMIT(_ONE, rules=rules.AS_UNUSED),
    ),
    "unknown-is-used": BrokenRule(
        "the owner counts a spend of unknown outcome as spent", replace(_ONE, rules=rules.AS_USED)
    ),
    "forked": BrokenRule("two processes spend one grant, after a fork", _LIMIT(_PAIR, forks=True)),
    "taken-unconditionally": BrokenRule(
        "a grant is taken without the condition of the version",
        _LIMIT(_PAIR, reads_before=True, rules=rules.UNCONDITIONAL),
    ),
    "closed-though-topped-up": BrokenRule(
        "a grant that has grown is closed by an older read",
        _LIMIT(_PAIR, minted=(2,), tops=1, closes_in_place=True, rules=rules.CLOSES_ANYWAY),
    ),
    "topped-up-though-closed": BrokenRule(
        "a grant that was closed grows again",
        _LIMIT(_PAIR, minted=(2,), tops=1, rules=rules.REOPENS),
    ),
    "topped-up-unwritten": BrokenRule(
        "a process spends the growth of its grant before the write is known",
        _LIMIT(_ONE, tops=1, tops_unwritten=True),
    ),
    "fetched-from-the-lost": BrokenRule(
        "a fetched right is taken up after its giver was lost and cut off",
        _LIMIT(_LOST_SENT, processes=(0,), takes=2, fetches=True, rules=rules.FROM_LOST),
    ),
    "closed-unconditionally": BrokenRule(
        "a frozen reclaimer closes a grant without the condition of the version",
        replace(_ONE, closes_in_place=True, rules=rules.CLOSES_ANYWAY),
    ),
    "taken-by-difference": BrokenRule(
        "`taken` grows by a difference that was read before",
        _LIMIT(
            _SENT,
            minted=(2, 0),
            processes=(),
            sent_max=2,
            takes_later=True,
            rules=rules.BY_DIFFERENCE,
        ),
    ),
    "given-by-item": BrokenRule(
        "a region gives rights by a write to the other region's item",
        _LIMIT(
            _SENT, minted=(1, 2), processes=(1,), grant=2, takes=2, folds=False, gives_by_item=True
        ),
    ),
    "reclaimed-while-listed": BrokenRule(
        "a lost region is reclaimed while it is still a replica", _LIMIT(_LOST, reclaims_from=THERE)
    ),
    "reclaimed-while-arriving": BrokenRule(
        "a lost region is reclaimed while its writes may still arrive",
        _LIMIT(_LOST, reclaims_from=REMOVED),
    ),
    "taken-from-the-lost": BrokenRule(
        "remaining regions may still take rights from a lost region",
        _LIMIT(_LOST_SENT, processes=(0,), takes=2, rules=rules.FROM_LOST),
    ),
    "newer-grants-not-charged": BrokenRule(
        "entries under grants newer than the base are not charged to a lost region",
        _LIMIT(_LOST, takes=2, rules=rules.OF_BASE),
    ),
    "stake-by-its-own-item": BrokenRule(
        "the stake of a lost region is read off its own item alone",
        replace(_LOST_SENT, rules=rules.BY_ITS_OWN),
    ),
    "unseen-spends-count": BrokenRule(
        "the judge counts acknowledged spends that no region will ever see",
        _LIMIT(_LOST, counts_unseen=True),
    ),
}


def _models(make: Callable[[Any], Walkable[Any]], cases: Mapping[str, Any]) -> dict[str, Any]:
    return {name: partial(make, case) for name, case in cases.items()}


def _broken(
    make: Callable[[Any], Walkable[Any]], mutants: Mapping[str, BrokenRule]
) -> dict[str, BrokenRule]:
    return {name: replace(one, case=partial(make, one.case)) for name, one in mutants.items()}


CATALOGUE = Catalogue(
    title="Budgets",
    module="proof.simulator.explorer.limits",
    model=operator.call,
    cases={
        **_models(Model, SPENDING),
        **_models(keyed.Model, keyed.CASES),
        **_models(held.Model, held_cases.CASES),
        **_models(small.Model, small.CASES),
        **_models(credited.Model, credited.CASES),
    },
    large={
        **_models(Model, LARGE_SPENDING),
        **_models(held.Model, held_cases.LARGE),
        **_models(credited.Model, credited.LARGE),
    },
    mutants={
        **_broken(Model, SPENDING_MUTANTS),
        **_broken(keyed.Model, keyed.MUTANTS),
        **_broken(held.Model, held_cases.MUTANTS),
        **_broken(small.Model, small.MUTANTS),
        **_broken(credited.Model, credited.MUTANTS),
    },
)
