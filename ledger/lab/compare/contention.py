"""Contention: ever more writers at one counter, on the model, with nothing else going wrong."""

from functools import partial

from ledger.lab.compare.model import Model
from ledger.lab.compare.report import Options, Point
from ledger.lab.compare.workload import Cast, Spent, Writer
from ledger.runtime.tasks import run_all

CONTENDERS = ("atomic", "optimistic", "history", "marker", "atomic-sharded", "collection")
WRITERS = (1, 2, 4, 8, 16, 32, 64)
WRITERS_QUICK = (1, 4, 16, 64)
SECONDS, SECONDS_QUICK = 1.0, 0.4
CHANGES_MAX = 10_000
"""Of one writer, however fast."""


async def contend(model: Model, method: str, writers: int, options: Options) -> Point:
    """Let so many writers add for a while, each as fast as it is answered."""
    seconds = SECONDS_QUICK if options.quick else SECONDS
    cast = Cast(model, method, f"contention-{writers}", options.seed)
    await cast.writer("first", is_sure=True).add(1)
    crowd = [cast.writer(f"writer {place}") for place in range(writers)]
    before = Spent.of(model)
    deadline = model.clock.monotonic() + seconds
    useful = sum(
        await run_all([partial(_add_until, one, deadline) for one in crowd], at_once=writers)
    )
    spent = Spent.of(model).since(before)
    requests = sum(one.losing.writes for one in crowd) + spent.repeats
    repeated = max(0.0, 1 - len(cast.told.seconds) / requests) if requests else 0.0
    failed = 1 - cast.told.applied / len(cast.told.seconds)
    return Point(writers, useful / seconds, repeated, failed)


async def _add_until(writer: Writer, deadline: float) -> int:
    """Add until the deadline; returns how many changes were applied by then."""
    # All writers share what they are told, so this one counts its own.
    clock, useful = writer.ground.clock, 0
    for _ in range(CHANGES_MAX):
        if clock.monotonic() >= deadline:
            break
        if await writer.add(1) and clock.monotonic() <= deadline:
            useful += 1
    return useful
