"""Many worlds at once: a process per core, each running one seed after another."""

import gc
import os
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

from ledger.lab.simulator.run import Result
from ledger.lab.simulator.twins import run_broken

CHUNK_SEEDS = 4
Run = tuple[int, str]
"""A seed, and the twin that it is run with; an empty name for the ledger as it is."""


def results(runs: Sequence[Run], *, jobs: int = 0) -> Generator[Result]:
    """Yield what each run came to, in order; with no `jobs` given, on all cores.

    Closed early, it ends once the runs under way have.
    """
    with processes(jobs) as pool:
        yield from pool.map(_run, runs, chunksize=CHUNK_SEEDS)


def processes(jobs: int = 0) -> ProcessPoolExecutor:
    """Return a pool of processes that can run worlds, as many as cores if no number is given."""
    return ProcessPoolExecutor(
        jobs or os.cpu_count(), mp_context=get_context("spawn"), initializer=_begin
    )


def caught_at(twin: str, seeds: range) -> int | None:
    """Return the first of these seeds that catches a twin, None if none does."""
    for seed in seeds:
        if run_broken(seed, twin=twin).violation is not None:
            return seed
    return None


def _begin() -> None:
    # What is imported is there to stay: no collection of garbage need look at it again.
    gc.freeze()
    # A worker whose parent was killed would wait for work, or do it, for ever.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(run: Run) -> Result:
    seed, twin = run
    return run_broken(seed, twin=twin)
