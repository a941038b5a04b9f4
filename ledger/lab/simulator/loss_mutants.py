"""Mutants of the rules for a lost region, which only worlds that lose one can show."""

from compactor import apply as applying
from compactor import passes
from ledger.lab.simulator import loss_mutations as mutations
from ledger.lab.simulator.losses import is_lossy
from ledger.lab.simulator.mutant import Mutant

LOSS_MUTANTS = (
    Mutant(
        "no-again",
        "an entry that only some of the remaining regions got from a lost one is put again",
        "regions differ for ever",
        40,
        ((passes, "succeed", mutations.no_again),),
        worlds=is_lossy,
    ),
    Mutant(
        "again-unchecked",
        "an entry is put again if it and the net are as they were observed",
        "an entry comes back that was merged and forgotten meanwhile: counted twice",
        40,
        ((applying, "_put_again", mutations.put_again_unchecked),),
        worlds=is_lossy,
    ),
    Mutant(
        "in-place",
        "a net of a lost home is never overwritten: its successor is of the next generation",
        "a late write of the lost home, whose stamps were ahead, replaces the successor",
        40,
        ((passes, "succeed", mutations.in_place),),
        worlds=is_lossy,
    ),
)
