"""The options of a bench."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from ledger.commands.outputs import Force
from ledger.demo.harness.options import CsvFile, JsonFile, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What is measured, for how long, and how often."""

    cases: Annotated[
        list[str] | None,
        typer.Option(help="A group, or part of a name; may be repeated. [every case]"),
    ] = None
    seconds: Annotated[float, typer.Option(min=0.05, help="Of each round of each case.")] = 3.0
    rounds: Annotated[int, typer.Option(min=1, help="Their median counts.")] = 3
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="The ladder up to a million counters, too, and a million entries archived:"
            " an hour or more.",
        ),
    ] = False
    pin: Annotated[bool, typer.Option(help="Client and stub on a core each.")] = True
    earlier: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            help="Measure nothing: show and draw what an earlier run wrote with --json; may be"
            " repeated.",
        ),
    ] = None
    csv_file: CsvFile = None
    json_file: JsonFile = None
    picture: Picture = None
    force: Force = False

    def measured(self) -> "BenchOptions":
        """Return the options that the measurements depend on, which no file is."""
        return replace(self, earlier=None, csv_file=None, json_file=None, picture=None, force=False)
