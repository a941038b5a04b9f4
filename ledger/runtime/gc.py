"""Python's garbage collector, kept from looking at what cannot be garbage.

It looks through every young object after each 700 that are made, and through the whole heap now and
then. A process that has thousands of changes under way, or reads long pages, spends up to half its
time so, though hardly anything of it lies in circles, which is all that the collector is for.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 50_000
"""Objects made before the young ones are looked through; Python's own number is 700."""
MIDDLE_MAX = 20
OLDEST_MAX = 100


def calm_collector() -> None:
    """Let the collector look seldom, and never again at what is there now.

    For a process that records or reads at a high rate; call it once the ledger is open. It is for
    the whole process, so the library never does so by itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, OLDEST_MAX)


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the collector from running inside the block, which must not wait for anything."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
