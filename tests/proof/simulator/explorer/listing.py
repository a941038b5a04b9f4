"""The command of a set of cases and mutants: their counts, or the trace of one mutant."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer
from rich.console import Console

from ledger.core.errors import InvalidInput
from proof.simulator.explorer.walk import Explored, Walkable, walk_through

Models = Mapping[str, Callable[[], Walkable[Any]]]


def command(
    cases: Models, mutants: Models, *, about: str, large: Models = MappingProxyType({})
) -> typer.Typer:
    """Return a command that explores each of these cases, or what each mutant breaks.

    `large` cases take minutes: they are explored by name, or by `--large`. It ends with 1 if a case
    is wrong, or a mutant is not found.
    """
    all_cases = {**cases, **large}
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
            bool, typer.Option("--large", help="Explore the large cases, too.", hidden=not large)
        ] = False,
        only: Annotated[str, typer.Option(help=f"One case: {', '.join(all_cases)}.")] = "",
    ) -> int:
        """Explore every case in every order of events, or show what mutants break."""
        _check(mutant, mutants, "--mutant")
        _check(only, all_cases, "--only")
        models = mutants if of_mutants or mutant else all_cases if of_large or only else cases
        chosen = mutant or only
        failed = 0
        for name in [chosen] if chosen else list(models):
            explored = walk_through(models[name]())
            failed += bool(explored.wrong) != (models is mutants)
            for line in _lines(name, explored, traced=bool(mutant)):
                Console().print(line, highlight=False, markup=False, soft_wrap=True)
        return int(bool(failed))

    return app


def _check(name: str, models: Models, option: str) -> None:
    if name and name not in models:
        raise InvalidInput(f"{option} must be one of {', '.join(models)}, got {name!r}")


def _lines(name: str, explored: Explored, *, traced: bool) -> Iterator[str]:
    if traced:
        for number, line in enumerate(explored.trace, start=1):
            yield f"{number:3}  {line.rstrip()}"
    wrong = f"; wrong after {len(explored.trace)} steps: {explored.wrong}" if explored.wrong else ""
    yield (
        f"{name}: {explored.states:,} states, {explored.transitions:,} transitions, depth"
        f" {explored.depth}, {explored.seconds:.1f} s{wrong}"
    )
