"""Running many seeds in parallel: one process per core, each running one seed after another."""

import gc
import os
import threading
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process

from proof.simulator.mutants import MUTANTS, run_mutant
from proof.simulator.run import Result

CHUNK_SEEDS = 4
Run = tuple[int, str]
"""A seed and the name of a mutant; an empty name runs the unmodified ledger."""


def results(runs: Sequence[Run], *, jobs: int = 0) -> Generator[Result]:
    """Yield the result of each run, in order; without `jobs`, on all cores.

    When closed early it waits for the runs that have begun.
    """
    with processes(jobs) as pool:
        yield from pool.map(_run, runs, chunksize=CHUNK_SEEDS)


def processes(jobs: int = 0) -> ProcessPoolExecutor:
    """Return a pool of processes that run worlds: `jobs` of them, or one per core."""
    return ProcessPoolExecutor(
        jobs or os.cpu_count(), mp_context=get_context("spawn"), initializer=_begin
    )


def first_caught(mutant: str, seeds: Iterable[int] = ()) -> Result | None:
    """Return the run of the first of these seeds, or of its own, that catches a mutant."""
    for seed in seeds or MUTANTS[mutant].seeds_by_turn():
        result = run_mutant(seed, mutant=mutant)
        if result.is_caught:
            return result
    return None


def _begin() -> None:
    # Imported modules stay for good: garbage collection need not scan them again.
    gc.freeze()
    # Without this, a worker whose parent was killed would live for ever.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _run(run: Run) -> Result:
    seed, mutant = run
    return run_mutant(seed, mutant=mutant)
