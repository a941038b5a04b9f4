"""`python -m proof.simulator.explorer`: explore one case, or show what a mutant breaks."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ledger.runtime import command_line
from ledger.runtime.command_options import spread_options
from proof.simulator.explorer.cases import BOOKS, CATALOGUE
from proof.simulator.explorer.listing import check_name
from proof.simulator.explorer.mutants import MUTANTS
from proof.simulator.explorer.state import Case
from proof.simulator.explorer.walk import STATES_MAX, Explored, explore

app = typer.Typer(add_completion=False, help="Explore every order of events of a small case.")


@dataclass(frozen=True, slots=True)
class CaseOptions:
    """The case that is explored."""

    regions: Annotated[int, typer.Option(min=1, max=3)] = 2
    entries: Annotated[int, typer.Option(min=1, max=6)] = 2
    leaders: Annotated[int, typer.Option(min=1, max=2)] = 1
    in_flight: Annotated[bool, typer.Option(help="A leader may leave its plan in flight.")] = False
    paged: Annotated[bool, typer.Option(help="Leaders read views page by page.")] = False
    reader: Annotated[bool, typer.Option(help="With a reader of two pages.")] = False
    move: Annotated[bool, typer.Option(help="Home moves to another region.")] = False
    book: Annotated[bool, typer.Option("--book", help="Entries are transfers of a book.")] = False
    fold_max: Annotated[int, typer.Option(min=0, help="Ids in a net; 0: no bound.")] = 0

    def case(self) -> Case:
        """Return it, without a mutant."""
        return Case(**{**asdict(self), "in_flight": int(self.in_flight)})


@app.command()
@spread_options
def main(
    *,
    options: CaseOptions,
    mutant: Annotated[str, typer.Option(help=f"Break a rule: {', '.join(MUTANTS)}.")] = "",
    states_max: Annotated[int, typer.Option(min=1)] = STATES_MAX,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Explore all cases; write the tables of RESULTS.md.")
    ] = False,
    large: Annotated[bool, typer.Option("--large", help="The large cases, too.")] = False,
) -> int:
    """Explore every order of events of a small case, or show what a mutant breaks."""
    check_name(mutant, MUTANTS, "--mutant")
    if markdown:
        (BOOKS if options.book else CATALOGUE).write_results(with_large=large)
        return 0
    case, console = options.case(), Console()
    if mutant:
        case = replace(case, entries=1).with_mutant(MUTANTS[mutant])
    explored = _with_progress(case, console, states_max=states_max)
    for line in _report(explored, mutant):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return int(not explored.wrong) if mutant else int(bool(explored.wrong) or not explored.is_whole)


def _with_progress(case: Case, console: Console, *, states_max: int) -> Explored:
    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("")

        def on_progress(states: int, left: int, transitions: int, depth: int) -> None:
            text = (
                f"{states:,} states, {left:,} to visit, {transitions:,} transitions, depth {depth}"
            )
            progress.update(task, description=text)

        return explore(case, states_max=states_max, on_progress=on_progress)


def _report(explored: Explored, mutant: str) -> Iterator[str]:
    if mutant:
        yield f"{mutant}: {MUTANTS[mutant].what}"
    for number, line in enumerate(explored.trace, start=1):
        yield f"{number:3}  {line.rstrip()}"
    if explored.wrong:
        yield f"WRONG: {explored.wrong}"
    yield (
        f"{explored.states:,} states, {explored.transitions:,} transitions, depth"
        f" {explored.depth}, {explored.finished:,} with everything merged,"
        f" {explored.seconds:.1f} s"
    )
    if not explored.wrong:
        whole = "every state visited" if explored.is_whole else "stopped before the end"
        yield f"{whole}: no wrong total"


if __name__ == "__main__":
    command_line.run(app)
