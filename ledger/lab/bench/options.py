"""The options of a bench."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from ledger.lab.harness.options import JsonFile, Picture

QUICK_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What is measured, for how long, and how often."""

    cases: Annotated[
        list[str] | None,
        typer.Option(help="A group, or part of a name; may be repeated. [every case]"),
    ] = None
    seconds: Annotated[float, typer.Option(min=0.05, help="Of each round of each case.")] = 3.0
    rounds: Annotated[int, typer.Option(min=1, help="Their median counts.")] = 3
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: does it run?")] = False
    curves: Annotated[bool, typer.Option("--curves", help="Growth curves as well.")] = False
    full: Annotated[bool, typer.Option("--full", help="--curves: up to the largest sizes.")] = False
    overload: Annotated[bool, typer.Option("--overload", help="A steady overload as well.")] = False
    minutes: Annotated[float, typer.Option(min=0, help="--overload: its duration.")] = 10.0
    pin: Annotated[bool, typer.Option(help="Client and stub on a core each.")] = True
    json_file: JsonFile = None
    picture: Picture = None

    def measured(self) -> "BenchOptions":
        """Return the options that the measurements depend on, those of a quick run applied."""
        quick = replace(self, seconds=QUICK_SECONDS, rounds=1) if self.quick else self
        return replace(quick, curves=self.curves or self.full, json_file=None, picture=None)
