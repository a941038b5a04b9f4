"""The small cases of one subject, and its rules, each broken: walked, and written into a page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from proof import results
from proof.simulator.explorer.broken_rule import BrokenRule
from proof.simulator.explorer.walk import Explored, Walkable, walk_through


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Cases and mutants by name, and the model of a case.

    `title` is the heading of its tables in `RESULTS.md`, `module` the program that writes them.
    `large` cases take minutes: they are explored by name, or when they are asked for.
    """

    title: str
    module: str
    model: Callable[[Any], Walkable[Any]]
    cases: Mapping[str, Any]
    mutants: Mapping[str, BrokenRule]
    large: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_cases(self) -> Mapping[str, Any]:
        """All cases, the large ones last."""
        return {**self.cases, **self.large}

    def explore(self, name: str) -> Explored:
        """Walk through every state of a case."""
        return walk_through(self.model(self.all_cases[name]))

    def break_rule(self, name: str) -> Explored:
        """Walk through the case of a mutant, to the first state that is wrong."""
        return walk_through(self.model(self.mutants[name].case))

    def row_of_case(self, name: str, explored: Explored) -> list[str]:
        """Return the row of a case in `RESULTS.md`."""
        return [f"`{name}`", f"{explored.states:,}"]

    def row_of_mutant(self, name: str, explored: Explored) -> list[str]:
        """Return the row of a mutant; the number of its states hangs on the order of steps."""
        return [f"`{name}`", self.mutants[name].what, str(len(explored.trace)), explored.wrong]

    def write_results(self, *, with_large: bool) -> None:
        """Explore all, and write the tables; large cases that are not asked for keep their rows."""
        known = results.rows_of(self.title)
        cases = [
            known[name]
            if name in self.large and name in known and not with_large
            else self.row_of_case(name, self.explore(name))
            for name in self.all_cases
        ]
        mutants = [self.row_of_mutant(name, self.break_rule(name)) for name in self.mutants]
        lines = [
            f"`python -m {self.module} --markdown`",
            "",
            *results.table(("case", "states"), cases),
            "",
            *results.table(("mutant", "instead of the rule", "steps", "what is wrong"), mutants),
        ]
        results.write(self.title, lines)
