"""Which worlds have operators who correct: by a remainder, so that others stay what they were."""

from proof.simulator.losses import is_lossy

_OF, _PLACE = 17, 15
_LOSSY_OF, _LOSSY_PLACE = 3, 2


def is_correcting(seed: int) -> bool:
    """Return whether operators reverse and count in the world of a seed."""
    is_chosen = is_lossy(seed) and seed % _LOSSY_OF == _LOSSY_PLACE
    return is_chosen or seed % _OF == _PLACE
