"""Tune and pause Python's garbage collector.

By default it scans all young objects after every 700 allocations, and the whole heap now and then.
A process with thousands of changes in flight, or one that reads long pages, spends up to half its
time on these scans, although hardly any of its objects form cycles, the only garbage that reference
counting leaves to the collector.
"""

import asyncio
import ctypes
import gc
import mmap
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

YOUNG_MAX = 5_000
"""Allocations before the young generation is scanned; Python's default is 700. Of more, the cycles
would be freed in one piece, which holds up all others."""
MIDDLE_MAX = 1
"""Scans of the young generation before what survived them is scanned once more, also in one piece.
"""
OLDEST_MAX = 1_000_000
YOUNG_SECONDS = 0.01
"""How long young objects gather in a process that strangers keep busy."""
TRIM_SECONDS = 0.5
TRIM_BYTES = 32 * 1024 * 1024
"""How much a process grows before what is free is given back: some milliseconds of work."""
_STATM = Path("/proc/self/statm")
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


async def give_memory_back(
    resident: Callable[[], int] | None = None, trim: Callable[[], object] | None = None
) -> None:
    """Give freed memory back to the system whenever the process has grown, until cancelled.

    The C library keeps pages that are free between blocks in use: thousands of TLS connections that
    came and went would hold a gigabyte. Of much at once it takes long, and holds up all others, so
    it is done often. `resident` returns the bytes that the process has, `trim` gives back; without
    them it is Linux's and glibc's, and nothing is done elsewhere.
    """
    if resident is None or trim is None:
        resident, trim = _resident, _native_trim()
    if trim is None:
        return
    had = resident()
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        if resident() > had + TRIM_BYTES:
            await asyncio.to_thread(trim)
            had = resident()
        had = min(had, resident())


def _native_trim() -> Callable[[], object] | None:
    """Return what gives free memory back, where Linux says how much a process has."""
    native = getattr(ctypes.CDLL(None), "malloc_trim", None) if _STATM.exists() else None
    return None if native is None else partial(native, 0)


def _resident() -> int:
    """Return how many bytes of memory the process has."""
    return int(_STATM.read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE


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
