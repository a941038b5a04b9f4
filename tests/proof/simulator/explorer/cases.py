"""The cases of merging that are explored; the large ones take minutes."""

from dataclasses import replace

from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.mutants import EARLY_MOVE, MUTANTS
from proof.simulator.explorer.state import Case
from proof.simulator.explorer.walk import Merging

_MOVES = Case(entries=1, leaders=2, move=True, in_flight=1)

CATALOGUE = Catalogue(
    title="Merging",
    module="proof.simulator.explorer",
    model=Merging,
    cases={
        "one-leader": Case(entries=2),
        "two-leaders-page-by-page": Case(entries=1, leaders=2, paged=True),
        "two-leaders-two-entries": Case(entries=2, leaders=2),
        "three-regions": Case(regions=3, entries=2),
        "three-regions-two-leaders": Case(regions=3, entries=1, leaders=2),
        "plans-in-flight": Case(entries=2, in_flight=1),
        "reader": Case(entries=2, reader=True),
        "home-moves": _MOVES,
        "home-moves-too-early": replace(_MOVES, mutant=EARLY_MOVE),
        "one-id-in-a-net": Case(entries=2, leaders=1, fold_max=1),
    },
    large={
        "home-moves-two-entries": replace(_MOVES, entries=2),
        "four-entries": Case(entries=4, in_flight=1, paged=True, reader=True),
        "three-regions-two-leaders-two-entries": Case(regions=3, entries=2, leaders=2),
    },
    mutants={
        name: BrokenRule(one.what, Case(entries=1).with_mutant(one))
        for name, one in MUTANTS.items()
    },
)
BOOKS = Catalogue(
    title="Merging of books",
    module="proof.simulator.explorer --book",
    model=Merging,
    cases={
        "one-transfer": Case(entries=1, book=True),
        "two-transfers": Case(entries=2, book=True),
        "plan-in-flight": Case(entries=1, in_flight=1, book=True),
        "two-leaders-plan-in-flight": Case(entries=1, leaders=2, in_flight=1, book=True),
        "reader": Case(entries=1, reader=True, book=True),
        "home-moves": Case(entries=1, leaders=2, move=True, book=True),
        "three-regions": Case(regions=3, entries=1, book=True),
        "three-regions-two-transfers": Case(regions=3, entries=2, book=True),
    },
    mutants={
        name: BrokenRule(one.what, Case(entries=1, book=True).with_mutant(one))
        for name, one in MUTANTS.items()
    },
)
"""Those of a book: each entry is a transfer, and all else is the same."""
