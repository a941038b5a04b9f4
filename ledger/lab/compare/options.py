"""The options of a comparison."""

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from ledger.lab.harness.options import REGIONS, CsvFile, JsonFile, Picture, Seed

MODEL = "model"
"""Not an engine: everything runs on virtual time."""
QUICK_CHANGES, QUICK_WRITERS = 40, 4
WRITERS_MAX, CHANGES_MAX = 256, 20_000
SHARE_MAX = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareOptions:
    """What is compared; `lost` and `conflicts` are shares of the write requests.

    Of the `lost` requests, which get no answer, half are applied. Those in `conflicts` meet the
    transaction of another client first.
    """

    writers: Annotated[
        int, typer.Option(min=1, max=WRITERS_MAX, help="Concurrent writers of one counter.")
    ] = 8
    changes: Annotated[
        int, typer.Option(min=16, max=CHANGES_MAX, help="Changes by all writers, with each method.")
    ] = 120
    regions: Annotated[int, typer.Option(min=2, max=len(REGIONS), help="Regions of the table.")] = 2
    lost: Annotated[
        float, typer.Option(min=0, max=SHARE_MAX, help="Share of writes without an answer.")
    ] = 0.1
    conflicts: Annotated[
        float, typer.Option(min=0, max=SHARE_MAX, help="Share that meet another's transaction.")
    ] = 0.02
    seed: Seed = 7
    engine: Annotated[
        str, typer.Option(help="Engine of the local table: memory or dynoxide; or model.")
    ] = "memory"
    quick: Annotated[
        bool, typer.Option("--quick", help="Small: 40 changes, 4 writers, short curves.")
    ] = False
    csv_file: CsvFile = None
    json_file: JsonFile = None
    picture: Picture = None

    @property
    def is_model(self) -> bool:
        """Whether everything runs on virtual time."""
        return self.engine == MODEL

    def measured(self) -> "CompareOptions":
        """Return what the measurements depend on: the sizes, smaller if quick, and no files."""
        writers, changes = self.writers, self.changes
        if self.quick:
            writers, changes = min(writers, QUICK_WRITERS), min(changes, QUICK_CHANGES)
        return replace(
            self, writers=writers, changes=changes, csv_file=None, json_file=None, picture=None
        )

    def without_faults(self) -> "CompareOptions":
        """Return the options of a run in which no request is lost and none meets a conflict."""
        return replace(self, lost=0.0, conflicts=0.0)
