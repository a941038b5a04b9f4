"""Mutants of the index, and the code that they put in place of production code."""

from typing import Any

from compactor import indexer
from compactor.indexer import Indexer
from ledger.core.entry import Key
from ledger.core.index import IndexState, index_key
from ledger.store.conditions import Condition, Has
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import Mutant, worlds_from
from proof.simulator.scenario import draw, keeps_index

_folded = Indexer.folded


def whatever_is_there(_state: IndexState) -> Condition:
    """Replace an item whatever it says."""
    return Has("generation")


async def before_it_is_known(self: Indexer, *args: Any, is_applied: bool, **options: Any) -> None:
    """Take a fold for applied, whatever became of it."""
    del is_applied
    await _folded(self, *args, is_applied=True, **options)


def of_no_generation(partition: str, _generation: int) -> Key | None:
    """Put the item of a collection under one key, whatever was lost."""
    return index_key(partition, 1)


def loses_a_home(seed: int) -> bool:
    """Return whether the world of a seed has an index, and loses a home whose stamps are ahead."""
    if not (keeps_index(seed) and is_lossy(seed)):
        return False
    drawn = draw(seed)
    loss = drawn.loss
    return loss is not None and loss.region == drawn.settings.home and loss.ahead_seconds > 0


INDEX_MUTANTS = (
    Mutant(
        "index-any-order",
        "an index item is put in place of an older state, no other",
        "a process that slept between its fold and the index sets it back to what was before",
        40,
        ((indexer, "not_newer", whatever_is_there),),
        worlds=worlds_from(790, keeps_index),
    ),
    Mutant(
        "index-before-fold",
        "the index follows a fold that is known to be applied",
        "a fold that lost its race is in the index: a total that no net ever had",
        24,
        ((Indexer, "folded", before_it_is_known),),
        worlds=keeps_index,
    ),
    Mutant(
        "index-one-generation",
        "each generation of the contract puts index items of its own",
        "what a lost home put with a stamp ahead outlives the next home's items in other regions",
        120,
        ((indexer, "index_key", of_no_generation),),
        worlds=loses_a_home,
    ),
)
