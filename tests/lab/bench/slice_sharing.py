"""Several compactor processes that share the slices of one table, and what sharing costs them.

The table and its engine take more than one core themselves, so on a small machine the processes
wait for it: what is measured is their processor time, and how evenly they share.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio

from lab.bench.life import Life, opened
from lab.bench.measurement import Measured, Meter
from lab.bench.rounds import Round
from lab.harness.compactor_process import CompactorProcess, run_compactor
from ledger.core.errors import LedgerError

EVERY = "1s"
POLL_SECONDS = 0.5
SHARED_SECONDS_MAX = 120.0
MERGED_SECONDS_MAX = 600.0


async def shared(round_: Round) -> Measured:
    """Let so many processes merge what is written: from then on until all entries are deleted."""
    options = round_.options
    counters = [f"life-{number}" for number in range(options["counters"])]
    work = len(counters) * options["entries"]
    async with opened(round_) as life, _running(life, options["processes"]) as processes:
        await _until_shared(processes, life.table.settings.compactor.slices)
        meter, before = Meter(), [process.cpu_seconds() for process in processes]
        for name in counters:
            await life.ledger.record_many([(name, 1)] * options["entries"])
        merged = await _until_merged(processes, work)
        found = meter.end()
        used = [one.cpu_seconds() - was for one, was in zip(processes, before, strict=True)]
        for name in counters:
            total = await life.ledger.total(name, max_age=0)
            if total.value != options["entries"] or total.entries:
                raise LedgerError(f"{name} is {total.value} instead of {options['entries']}")
        units = life.units("write")
    return replace(
        found,
        work=work,
        calls=1,
        cpu_seconds=sum(used),
        units=units,
        extra={"most merged by one, times the mean": max(merged) * len(merged) / work},
    )


@asynccontextmanager
async def _running(life: Life, count: int) -> AsyncIterator[list[CompactorProcess]]:
    async with AsyncExitStack() as stack:
        processes = []
        for number in range(count):
            folder = life.table.folder / f"compactor-{number}"
            folder.mkdir()
            running = run_compactor(life.table.settings, folder, every=EVERY)
            processes.append(await stack.enter_async_context(running))
        yield processes


async def _until_shared(processes: Sequence[CompactorProcess], slices: int) -> None:
    """Wait until each leads its share.

    Raises:
        LedgerError: that takes too long.
    """
    share, more = divmod(slices, len(processes))
    wanted = [share] * (len(processes) - more) + [share + 1] * more
    with anyio.move_on_after(SHARED_SECONDS_MAX):
        while sorted(await _all(processes, "compactor_slices")) != wanted:  # noqa: ASYNC110
            await anyio.sleep(POLL_SECONDS)
        return
    raise LedgerError(f"{len(processes)} compactors did not share {slices} slices")


async def _until_merged(processes: Sequence[CompactorProcess], work: int) -> list[float]:
    """Wait until all entries are deleted; returns how many each process has merged.

    Raises:
        LedgerError: that takes too long.
    """
    with anyio.move_on_after(MERGED_SECONDS_MAX):
        while sum(await _all(processes, "compactor_entries_deleted_total")) < work:  # noqa: ASYNC110
            await anyio.sleep(POLL_SECONDS)
        return await _all(processes, "compactor_entries_merged_total")
    raise LedgerError(f"{work} entries were not merged in {MERGED_SECONDS_MAX:.0f} s")


async def _all(processes: Sequence[CompactorProcess], metric: str) -> list[float]:
    return [(await process.metrics()).get(metric, 0.0) for process in processes]
