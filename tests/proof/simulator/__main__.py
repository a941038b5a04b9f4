"""`python -m proof.simulator`: many seeds on all cores, until the first violation.

::

    python -m proof.simulator --seeds 1000                  a thousand seeds from 0
    python -m proof.simulator --replay 4711                 one seed again, with its trace
    python -m proof.simulator --having archive              worlds that archive alone
    python -m proof.simulator --mutant no-hold --seeds 200  one rule broken: must be caught
    python -m proof.simulator --mutants --seeds 60          which worlds catch each mutant
    python -m proof.simulator --mutants --markdown          the table of RESULTS.md
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from proof import results as page
from proof.simulator.book_plan import keeps_books, shares_items
from proof.simulator.budgets import has_wrong_clocks, keeps_budgets, keeps_credits
from proof.simulator.combining import calls_together
from proof.simulator.forger import is_signed
from proof.simulator.keyed_lists import has_lists
from proof.simulator.mutants import MUTANTS, run_mutant
from proof.simulator.pool import first_caught, processes, results
from proof.simulator.run import Result
from proof.simulator.scenario import keeps_archive, keeps_periods

TITLE = "Mutants of the simulator"
HEADS = ("mutant", "rule", "what breaks without it", "seed", "check")
TRACE_LINES = 80
PLAIN_LINE_SEEDS = 100
"""Without a terminal for a progress bar, a line is printed every so many seeds."""

FEATURES: dict[str, Callable[[int], bool]] = {
    "archive": keeps_archive,
    "books": keeps_books,
    "budgets": keeps_budgets,
    "credits": keeps_credits,
    "combining": calls_together,
    "forger": is_signed,
    "lists": has_lists,
    "periods": keeps_periods,
    "shared-transfers": shares_items,
    "wrong-clocks": has_wrong_clocks,
}
"""What only some worlds have, by name: whether the world of a seed does."""

app = typer.Typer(add_completion=False)
console = Console(highlight=False)


@dataclass(slots=True)
class Sum:
    """The sums over all seeds so far."""

    seeds: int = 0
    steps: int = 0
    checks: int = 0
    reads: int = 0
    virtual_seconds: float = 0.0

    def add(self, result: Result) -> None:
        """Add the result of one seed."""
        self.seeds += 1
        self.steps += result.steps
        self.checks += result.checks
        self.reads += result.reads
        self.virtual_seconds += result.virtual_seconds

    def sentence(self, seconds: float) -> str:
        """Return the sums in one line."""
        return (
            f"{self.seeds:,} seeds, {self.steps / 1e6:.2f} million steps,"
            f" {self.checks / 1e6:.2f} million collections and {self.reads / 1e6:.2f} million"
            f" reads checked, {self.virtual_seconds / 86_400:,.0f} virtual days;"
            f" {seconds:.0f} s, {seconds / max(1, self.seeds):.3f} s a seed"
        )


@app.command()
def main(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds to run.")] = 1000,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="Processes; 0 for one per core.")] = 0,
    mutant: Annotated[str, typer.Option(help=f"Break one rule: {', '.join(MUTANTS)}.")] = "",
    mutants: Annotated[bool, typer.Option("--mutants", help="Run all; print a table.")] = False,
    markdown: Annotated[
        bool,
        typer.Option("--markdown", help="Write which world catches each mutant into RESULTS.md."),
    ] = False,
    having: Annotated[
        list[str] | None,
        typer.Option(help=f"Run only worlds that have this: {', '.join(FEATURES)}."),
    ] = None,
    replay: Annotated[int, typer.Option(min=-1, help="Run this seed alone, with its trace.")] = -1,
    lines: Annotated[int, typer.Option(min=1, help="How many lines of a trace.")] = TRACE_LINES,
) -> None:
    """Run many seeds; stop at the first violation and show its trace."""
    if mutant and mutant not in MUTANTS:
        raise typer.BadParameter(
            f"{mutant!r} is not one of {', '.join(MUTANTS)}", param_hint="--mutant"
        )
    unknown = [feature for feature in having or () if feature not in FEATURES]
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]!r} is not one of {', '.join(FEATURES)}", param_hint="--having"
        )
    if markdown:
        raise typer.Exit(_write_table([mutant] if mutant else [*MUTANTS], jobs))
    if mutants:
        raise typer.Exit(_break_each(first, seeds, jobs))
    if replay >= 0:
        _show(run_mutant(replay, mutant=mutant, is_traced=True), lines)
        return
    started, total = time.monotonic(), Sum()
    chosen = _chosen(mutant, having or (), first, seeds)
    wrong = _search(chosen, mutant, jobs, total)
    console.print(total.sentence(time.monotonic() - started))
    if wrong is None:
        console.print("no violation" if not mutant else f"mutant {mutant} was not caught")
        raise typer.Exit(1 if mutant else 0)
    _show(run_mutant(wrong.seed, mutant=mutant, is_traced=True), lines)
    if mutant:
        console.print(f"mutant {mutant} was caught at seed {wrong.seed}")
    raise typer.Exit(0 if mutant else 1)


def _chosen(mutant: str, having: Sequence[str], first: int, most: int) -> list[int]:
    """Return the first seeds, from `first` on, of worlds that have all that is asked for."""
    if mutant:
        return list(MUTANTS[mutant].seeds_from(first, most=most))
    fitting = (seed for seed in count(first) if all(FEATURES[name](seed) for name in having))
    return list(islice(fitting, most))


def _search(seeds: Sequence[int], mutant: str, jobs: int, total: Sum) -> Result | None:
    """Run seeds roughly in order; return the first violation."""
    with _progress() as progress, closing(results([(s, mutant) for s in seeds], jobs=jobs)) as runs:
        task = progress.add_task("seeds", total=len(seeds))
        for result in runs:
            total.add(result)
            progress.update(
                task, advance=1, description=f"{total.steps / 1e6:.2f} million steps, seeds"
            )
            if result.is_caught or (result.violation is not None and not mutant):
                return result
            if not console.is_terminal and total.seeds % PLAIN_LINE_SEEDS == 0:
                console.print(f"{total.seeds:,} seeds, {total.steps / 1e6:.2f} million steps")
    return None


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _break_each(first: int, most: int, jobs: int) -> int:
    """Print a table of the mutants and the seeds that catch them; return how many escape."""
    missed = 0
    chosen = {name: mutant.seeds_from(first, most=most) for name, mutant in MUTANTS.items()}
    runs = [(seed, name) for name, seeds in chosen.items() for seed in seeds]
    _print("| rule | what breaks without it | seeds needed | mutant |")
    _print("|---|---|---|---|")
    with _progress() as progress, closing(results(runs, jobs=jobs)) as found:
        task = progress.add_task("seeds", total=len(runs))
        for name, mutant in MUTANTS.items():
            caught, seeds = [], chosen[name]
            for result in islice(found, len(seeds)):
                progress.update(task, advance=1, description=name)
                if result.is_caught:
                    caught.append(result.seed)
            missed += not caught
            _print(f"| {mutant.rule} | {mutant.breaks} | {_needed(caught, seeds)} | `{name}` |")
    return missed


def _write_table(names: Sequence[str], jobs: int) -> int:
    """Write which world catches these mutants into `RESULTS.md`; return how many escape."""
    with processes(jobs) as pool:
        caught = dict(zip(names, pool.map(first_caught, names), strict=True))
    known = page.rows_of(TITLE)
    for name, result in caught.items():
        known[name] = _row_of_mutant(name, result)
    rows = [known[name] for name in MUTANTS if name in known]
    lines = ["`python -m proof.simulator --mutants --markdown`", "", *page.table(HEADS, rows)]
    page.write(TITLE, lines)
    return sum(result is None for result in caught.values())


def _row_of_mutant(name: str, result: Result | None) -> list[str]:
    """Return the row of a mutant: rule, consequence, the world that catches it, by which check."""
    mutant = MUTANTS[name]
    seen = "**no world**" if result is None else str(result.seed)
    check = "" if result is None or result.violation is None else result.violation.rule
    return [f"`{name}`", mutant.rule, mutant.breaks, seen, check]


def _needed(caught: list[int], seeds: Sequence[int]) -> str:
    """Return one seed in how many catches a mutant, and which is the first to."""
    if not caught:
        return f"**not caught in {len(seeds)}**"
    return f"{len(seeds) / len(caught):.1f}, first {seeds.index(caught[0]) + 1}"


def _show(result: Result, lines: int) -> None:
    """Print a seed's trace and its result."""
    for line in result.trace[-lines:]:
        _print(line)
    _print(
        f"seed {result.seed}: {result.violation or 'no violation'};"
        f" {result.steps:,} steps, {result.reads:,} reads"
    )


def _print(line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)


if __name__ == "__main__":
    app(prog_name="python -m proof.simulator")
