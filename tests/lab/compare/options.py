"""The options of a comparison."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from ledger.commands.outputs import Force
from ledger.demo.harness.options import REGIONS, CsvFile, JsonFile, Picture, Seed

MODEL = "model"
"""Not an engine: everything runs on virtual time."""
WRITERS_MAX, CHANGES_MAX = 256, 20_000
LOST_MAX = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What is compared; of the `lost` write requests, which get no answer, half are applied."""

    writers: Annotated[
        int, typer.Option(min=1, max=WRITERS_MAX, help="Concurrent writers of one counter.")
    ] = 8
    changes: Annotated[
        int, typer.Option(min=16, max=CHANGES_MAX, help="Changes by all writers, with each method.")
    ] = 120
    regions: Annotated[int, typer.Option(min=2, max=len(REGIONS), help="Regions of the table.")] = 2
    lost: Annotated[
        float, typer.Option(min=0, max=LOST_MAX, help="Share of writes without an answer.")
    ] = 0.1
    seed: Seed = 7
    engine: Annotated[
        str, typer.Option(help="Engine of the local table: memory or dynoxide; or model.")
    ] = "memory"
    csv_file: CsvFile = None
    json_file: JsonFile = None
    picture: Picture = None
    force: Force = False

    @property
    def is_model(self) -> bool:
        """Whether everything runs on virtual time."""
        return self.engine == MODEL

    @property
    def where(self) -> str:
        """What real requests are made to, unless nothing is real."""
        return MODEL if self.is_model else f"local table, {self.engine}"

    def measured(self) -> "CompareOptions":
        """Return what the measurements depend on, which no file is."""
        return replace(self, csv_file=None, json_file=None, picture=None)
