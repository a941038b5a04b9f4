"""`python -m ledger.sim`: many seeds on all cores, until the first violation.

::

    python -m ledger.sim --seeds 1000               a thousand seeds from 0
    python -m ledger.sim --replay 4711              one seed again, with its trace
    python -m ledger.sim --twin no-hold --seeds 200 a broken ledger: a violation is the success
"""

import multiprocessing
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ledger.sim.run import Result
from ledger.sim.twins import TWINS, run_broken

TRACE_LINES = 80
CHUNK_SEEDS = 4
PLAIN_LINE_SEEDS = 100
"""Where there is no terminal for a live bar, a line is printed every so many seeds."""

console = Console(highlight=False)


@dataclass(slots=True)
class Sum:
    """What all seeds so far have come to."""

    seeds: int = 0
    steps: int = 0
    checks: int = 0
    reads: int = 0
    virtual_seconds: float = 0.0

    def add(self, result: Result) -> None:
        """Take in one seed."""
        self.seeds += 1
        self.steps += result.steps
        self.checks += result.checks
        self.reads += result.reads
        self.virtual_seconds += result.virtual_seconds

    def sentence(self, seconds: float) -> str:
        """Return it in a line."""
        return (
            f"{self.seeds:,} seeds, {self.steps / 1e6:.2f} million steps,"
            f" {self.checks / 1e6:.2f} million collections and {self.reads / 1e6:.2f} million"
            f" reads checked, {self.virtual_seconds / 86_400:,.0f} virtual days;"
            f" {seconds:.0f} s, {seconds / max(1, self.seeds):.3f} s a seed"
        )


def main(
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
    twin: Annotated[str, typer.Option(help=f"Break one rule: {', '.join(TWINS)}.")] = "",
    replay: Annotated[int, typer.Option(min=-1, help="Run this seed alone, with its trace.")] = -1,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of a trace.")] = TRACE_LINES,
) -> None:
    """Run the simulator over many seeds; stops at the first violation and shows its trace."""
    if twin and twin not in TWINS:
        raise typer.BadParameter(f"{twin!r} is not one of {', '.join(TWINS)}", param_hint="--twin")
    if replay >= 0:
        _show(run_broken(replay, twin=twin, is_traced=True), lines)
        return
    started, total = time.monotonic(), Sum()
    wrong = _search(range(first, first + seeds), twin, jobs or os.cpu_count() or 1, total)
    console.print(total.sentence(time.monotonic() - started))
    if wrong is None:
        console.print("no violation" if not twin else f"twin {twin} was not caught")
        raise typer.Exit(1 if twin else 0)
    _show(run_broken(wrong.seed, twin=twin, is_traced=True), lines)
    if twin:
        console.print(f"twin {twin} was caught at seed {wrong.seed}")
    raise typer.Exit(0 if twin else 1)


def _search(seeds: range, twin: str, jobs: int, total: Sum) -> Result | None:
    """Run seeds in order of their numbers, give or take a few; the first violation ends it."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("seeds", total=len(seeds))
        for result in _results(seeds, twin, jobs):
            total.add(result)
            progress.update(
                task, advance=1, description=f"{total.steps / 1e6:.2f} million steps, seeds"
            )
            if result.violation is not None:
                return result
            if not console.is_terminal and total.seeds % PLAIN_LINE_SEEDS == 0:
                console.print(f"{total.seeds:,} seeds, {total.steps / 1e6:.2f} million steps")
    return None


def _results(seeds: range, twin: str, jobs: int) -> Iterator[Result]:
    run = partial(run_broken, twin=twin)
    if jobs == 1:
        yield from map(run, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(run, seeds, chunksize=CHUNK_SEEDS)


def _show(result: Result, lines: int) -> None:
    """Print a seed's trace and what came of it."""
    for line in result.trace[-lines:]:
        console.print(line, markup=False)
    console.print(
        f"seed {result.seed}: {result.violation or 'no violation'};"
        f" {result.steps:,} steps, {result.reads:,} reads",
        markup=False,
    )


if __name__ == "__main__":
    typer.run(main)
