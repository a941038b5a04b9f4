"""Mutants of the index, and the code that they put in place of production code."""

from proof.simulator.edit import Edit
from proof.simulator.losses import is_lossy
from proof.simulator.mutant import Mutant, worlds_from
from proof.simulator.scenario import draw, keeps_index


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
        (
            Edit(
                "compactor.indexer:not_newer",
                'Compares("count", "<=", count)',
                'Compares("count", ">=", {"N": "0"})',
            ),
        ),
        first=4,
        worlds=worlds_from(790, keeps_index),
    ),
    Mutant(
        "index-before-fold",
        "the index follows a fold that is known to be applied",
        "a fold that lost its race is in the index: a total that no net ever had",
        24,
        (Edit("compactor.indexer:Indexer.folded", " or not is_applied", ""),),
        worlds=keeps_index,
    ),
    Mutant(
        "index-one-generation",
        "each generation of the contract puts index items of its own",
        "what a lost home put with a stamp ahead outlives the next home's items in other regions",
        120,
        (
            Edit(
                "compactor.indexer:Indexer.folded",
                "index_key(partition, self._generation)",
                "index_key(partition, 1)",
            ),
            Edit(
                "compactor.indexer:Indexer.saw",
                "index_key(partition, self._generation)",
                "index_key(partition, 1)",
            ),
        ),
        first=58,
        worlds=loses_a_home,
    ),
)
