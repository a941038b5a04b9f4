"""The options that the demo shares with the programs of the laboratory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ledger.commands.outputs import UnlistedForce

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1", "us-west-2", "sa-east-1")
"""The regions of a local table, home first; a run takes as many as it needs."""
ENGINE_HELP = "Engine of the local global table: memory or dynoxide."

Seed = Annotated[int, typer.Option(help="Seed of every random choice.")]
Engine = Annotated[str, typer.Option(help=ENGINE_HELP)]
Lag = Annotated[float, typer.Option(min=0, help="Minimum replication lag in seconds.")]
Jitter = Annotated[float, typer.Option(min=0, help="Maximum additional lag in seconds.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the report as JSON.", dir_okay=False)
]
CsvFile = Annotated[
    Path | None, typer.Option("--csv", help="Write the figures as CSV.", dir_okay=False)
]
Picture = Annotated[
    Path | None, typer.Option(help="Draw the figures: .svg or .png.", dir_okay=False)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """The options of every run on a local table; `lag` and `jitter` are seconds of replication.

    Programs subclass it; `spread_options` makes their command of it.
    """

    engine: Engine = "memory"
    seed: Seed = 7
    lag: Lag = 0.05
    jitter: Jitter = 0.3
    force: UnlistedForce = False
