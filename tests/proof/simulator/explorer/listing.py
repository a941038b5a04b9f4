"""The command of a set of cases and mutants: their counts, the trace of one, or their tables."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from ledger.core.errors import InvalidInput
from proof.simulator.explorer.catalogue import Catalogue
from proof.simulator.explorer.walk import Explored


def command(catalogue: Catalogue, *, about: str) -> typer.Typer:
    """Return a command that explores each of these cases, or what each mutant breaks.

    It ends with 1 if a case is wrong, or a mutant is not found.
    """
    cases, mutants = catalogue.all_cases, catalogue.mutants
    app = typer.Typer(add_completion=False, help=about)

    @app.command()
    def main(
        *,
        of_mutants: Annotated[
            bool, typer.Option("--mutants", help="Break each rule in turn.")
        ] = False,
        mutant: Annotated[
            str, typer.Option(help=f"Show the trace of one: {', '.join(mutants)}.")
        ] = "",
        of_large: Annotated[
            bool,
            typer.Option(
                "--large", help="Explore the large cases, too.", hidden=not catalogue.large
            ),
        ] = False,
        only: Annotated[str, typer.Option(help=f"One case: {', '.join(cases)}.")] = "",
        markdown: Annotated[
            bool, typer.Option("--markdown", help="Explore all; write the tables of RESULTS.md.")
        ] = False,
    ) -> int:
        """Explore every case in every order of events, or show what mutants break."""
        check_name(mutant, mutants, "--mutant")
        check_name(only, cases, "--only")
        if markdown:
            catalogue.write_results(with_large=of_large)
            return 0
        breaks = bool(of_mutants or mutant)
        names = mutants if breaks else cases if of_large else catalogue.cases
        chosen = mutant or only
        failed = 0
        for name in [chosen] if chosen else names:
            explored = (catalogue.break_rule if breaks else catalogue.explore)(name)
            failed += bool(explored.wrong) != breaks
            for line in _lines(name, explored, traced=bool(mutant)):
                Console().print(line, highlight=False, markup=False, soft_wrap=True)
        return int(bool(failed))

    return app


def check_name(name: str, names: Mapping[str, Any], option: str) -> None:
    """Check that a name is empty, or one of these.

    Raises:
        InvalidInput: it is another.
    """
    if name and name not in names:
        raise InvalidInput(f"{option} must be one of {', '.join(names)}, got {name!r}")


def _lines(name: str, explored: Explored, *, traced: bool) -> Iterator[str]:
    if traced:
        for number, line in enumerate(explored.trace, start=1):
            yield f"{number:3}  {line.rstrip()}"
    wrong = f"; wrong after {len(explored.trace)} steps: {explored.wrong}" if explored.wrong else ""
    yield (
        f"{name}: {explored.states:,} states, {explored.transitions:,} transitions, depth"
        f" {explored.depth}, {explored.seconds:.1f} s{wrong}"
    )
