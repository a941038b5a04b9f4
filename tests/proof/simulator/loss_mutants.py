"""Mutants of the rules for a lost region, which only worlds that lose one can show."""

from compactor import decider, home_takeover, pass_terms
from ledger.contract import contract_writer
from proof.simulator import loss_mutations as mutations
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import Mutant, worlds_from
from proof.simulator.scenario import draw


def takes_out(seed: int) -> bool:
    """Return whether a region is taken out of the world of a seed."""
    loss = draw(seed).loss if is_lossy(seed) else None
    return loss is not None and loss.is_taken_out


LOSS_MUTANTS = (
    Mutant(
        "taken-while-listed",
        "a region is given up once no other lists it among the replicas",
        "what is merged without it is deleted in it before the net arrives",
        40,
        (
            (home_takeover, "check_removed", mutations.removed_at_once),
            (pass_terms, "check_replicas", mutations.any_replicas),
        ),
        worlds=is_lossy,
    ),
    Mutant(
        "no-again",
        "an entry that only some of the remaining regions got from a lost one is put again",
        "regions differ for ever",
        40,
        ((decider, "succeed", mutations.no_again),),
        worlds=is_lossy,
    ),
    Mutant(
        "deletes-at-home",
        "a named entry that home no longer shows is deleted through each region that does",
        "a delete of the lost home that did not arrive everywhere is never made up for",
        40,
        ((decider, "succeed", mutations.deletes_at_home),),
        worlds=is_lossy,
    ),
    Mutant(
        "in-place",
        "a net of a lost home is never overwritten: its successor is of the next generation",
        "a late write of the lost home, whose stamps were ahead, replaces the successor",
        40,
        ((decider, "succeed", mutations.in_place),),
        worlds=is_lossy,
    ),
    Mutant(
        "outdated-at-once",
        "nets of older generations are deleted once the new one is committed",
        "all that they count vanishes where the new one has not arrived",
        160,
        ((decider, "succeed", mutations.outdated_at_once),),
        worlds=is_lossy,
    ),
    Mutant(
        "forgotten-at-once",
        "ids that a lost region may have written are remembered for a day",
        "a repeat of the write, late and with a stamp ahead, brings the entry back: counted twice",
        60,
        ((pass_terms, "rules_of", mutations.forget_at_once),),
        worlds=worlds_from(530, is_lossy),
    ),
    Mutant(
        "left-not-lost",
        "a region that is taken out counts as lost: what it wrote may have arrived in part",
        "an entry that one region got from it stays there alone: regions differ for ever",
        60,
        ((contract_writer, "parted", mutations.parted_in_silence),),
        worlds=takes_out,
    ),
)
