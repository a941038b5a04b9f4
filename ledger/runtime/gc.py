"""Tune and pause Python's garbage collector.

By default it scans all young objects after every 700 allocations, and the whole heap now and then.
A process with thousands of changes in flight, or one that reads long pages, spends up to half its
time on these scans, although hardly any of its objects form cycles, the only garbage that reference
counting leaves to the collector.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

YOUNG_MAX = 5_000
"""Allocations before the young generation is scanned; Python's default is 700. Of more, the cycles
would be freed in one piece, which holds up all others."""
MIDDLE_MAX = 1
"""Scans of the young generation before what survived them is scanned once more, also in one piece.
"""
OLDEST_MAX = 1_000_000
YOUNG_SECONDS = 0.01
"""How long young objects gather in a process that strangers keep busy."""
_closed: deque[None] = deque(maxlen=1)
"""Whether a client was closed that may not be collected."""


def tune_gc() -> None:
    """Exempt all existing objects from garbage collection and collect rarely afterwards.

    For a process that records or reads at a high rate; call it once the ledger is open. It affects
    the whole process, so the library never calls it on its own.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, OLDEST_MAX)


def is_gc_tuned() -> bool:
    """Return whether `tune_gc` was called in this process."""
    return gc.get_threshold() == (YOUNG_MAX, MIDDLE_MAX, OLDEST_MAX)


async def keep_young_few() -> None:
    """Scan the young generations of a tuned process again and again, until cancelled.

    Python counts allocations less objects that are freed, young or old. While a process takes new
    work as fast as it ends old, the young objects grow without a scan, and the one that comes at
    last takes as long as all of them.
    """
    while True:
        for generation in (0, 1):
            await asyncio.sleep(YOUNG_SECONDS)
            gc.collect(generation)


@contextmanager
def freed_later() -> Iterator[None]:
    """Collect clients that were closed, if the collector is tuned, before another one is opened.

    A client of the SDK is a reference cycle of some 0.2 MB. A process that opens one again and
    again, such as one that cannot reach a region, would run out of memory before `OLDEST_MAX`. To
    collect holds all threads for long, so it is done only once one was closed.
    """
    if _closed and is_gc_tuned():
        _closed.clear()
        gc.collect()
    try:
        yield
    finally:
        _closed.append(None)


def pause_gc_for_this_turn() -> None:
    """Suspend garbage collection until the event loop's next turn, if one is running.

    For code that makes thousands of objects which are used and dropped before anything is awaited,
    such as a page that is summed. If it were paused only during that code, they would all be
    scanned right after.
    """
    if not gc.isenabled():
        return
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    gc.disable()
    loop.call_soon(gc.enable)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Suspend garbage collection inside the block, which must not await anything."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
