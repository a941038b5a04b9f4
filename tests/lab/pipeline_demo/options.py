"""The options of the pipeline's demo."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.core.errors import InvalidInput
from ledger.demo.harness.options import REGIONS, CsvFile, LabOptions, Picture

RISKS = ("Delta", "Gamma", "Rho", "Vega")
PLACES = ("AMER", "APAC", "EMEA")
DESKS = ("Credit", "FX", "Rates")
CATEGORIES = (
    "risk/{Hierarchy.RiskType}",
    "risk/{Hierarchy.RiskType}/{Hierarchy.Region}",
    "risk/{Hierarchy.RiskType}/{Hierarchy.Region}/{Hierarchy.Desk}",
)
VERSIONS_EACH = 10
"""Messages for each trade, on average."""
MUTANTS = ("no-version", "no-hash", "no-token")
BATCH, MUTANT_BATCH = 100, 100
"""Messages of a batch at most; 100 as in the published pipeline."""
FAIL: Mapping[str, float] = {"state": 0.01, "map": 0.02, "reduce": 0.02}
"""The share of each stage's requests that fail, as of the published pipeline's invocations."""
MUTANT_FAIL: Mapping[str, float] = {"state": 0.05, "map": 0.2, "reduce": 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDemoOptions(LabOptions):
    """The options of the demo; a mutant meets more failures, in smaller batches.

    Raises:
        InvalidInput: there is no such mutant, or the ladder is none.
    """

    seed: Annotated[int, typer.Option(hidden=True, help="Seed of every random choice.")] = 7
    lag: Annotated[
        float, typer.Option(hidden=True, min=0, help="Minimum replication lag in seconds.")
    ] = 0.05
    jitter: Annotated[
        float, typer.Option(hidden=True, min=0, help="Maximum additional lag in seconds.")
    ] = 0.3
    messages: Annotated[int, typer.Option(min=1, help="Messages to send, with duplicates.")] = (
        20_000
    )
    trades_max: Annotated[int, typer.Option(hidden=True, min=1, help="Trades at most.")] = 1_000_000
    regions: Annotated[int, typer.Option(min=1, max=3, help="Number of regions.")] = 2
    lanes: Annotated[int, typer.Option(min=1, max=16, help="Lanes in each region.")] = 1
    processes: Annotated[
        int,
        typer.Option(
            hidden=True, min=0, max=16, help="Processes in each region; 0 is one for each lane."
        ),
    ] = 0
    lead: Annotated[
        int,
        typer.Option(hidden=True, min=1, help="Messages of a lane that may wait to be counted."),
    ] = 2_000
    rate: Annotated[
        float, typer.Option(min=0, help="Messages a second, by the clock; 0 is by --lead.")
    ] = 0.0
    ladder: Annotated[
        str, typer.Option(help="Runs at several rates, as 500,2000,max; max searches for it.")
    ] = ""
    seconds: Annotated[
        float, typer.Option(hidden=True, min=1, help="Of sending, in each run of a ladder.")
    ] = 30.0
    beside: Annotated[bool, typer.Option(help="Run again without failures, to compare.")] = False
    batch: Annotated[
        int, typer.Option(hidden=True, min=1, max=5_000, help="Messages of a batch at most.")
    ] = BATCH
    failures: Annotated[bool, typer.Option(hidden=True, help="Whether requests fail.")] = True
    model: Annotated[
        float,
        typer.Option(min=0, help="Run nothing: show what so many messages a second take on AWS."),
    ] = 0.0
    is_function: Annotated[
        bool,
        typer.Option(
            "--lambda", hidden=True, help="Lanes are shards whose events a Lambda function gets."
        ),
    ] = False
    mutant: Annotated[
        str,
        typer.Option(hidden=True, help=f"Break a rule to see wrong totals: {', '.join(MUTANTS)}."),
    ] = ""
    page: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port of a page of live totals; 0 takes any."),
    ] = None
    json_file: Annotated[
        Path | None, typer.Option("--json", hidden=True, help="Write the report as JSON.")
    ] = None
    csv_file: CsvFile = None
    picture: Picture = None

    def __post_init__(self) -> None:
        self.rungs()
        if self.mutant not in {"", *MUTANTS}:
            raise InvalidInput(f"--mutant {self.mutant!r} is not one of {', '.join(MUTANTS)}")

    def rungs(self) -> Sequence[float | None]:
        """Return the rates of the ladder; None is the most that is held.

        Raises:
            InvalidInput: one is neither a number above 0 nor `max`.
        """
        return [_rung(word.strip()) for word in self.ladder.split(",")] if self.ladder else []

    @property
    def trades(self) -> int:
        """How many trades there are."""
        return max(1, min(self.messages // VERSIONS_EACH, self.trades_max))

    @property
    def is_direct(self) -> bool:
        """Whether clients reach the engine itself, which a table of one region allows."""
        return self.engine == "dynoxide" and self.regions == 1

    @property
    def names(self) -> Sequence[str]:
        """The regions, home first."""
        return REGIONS[: self.regions]

    @property
    def lane_names(self) -> Sequence[tuple[str, str]]:
        """The region and the name of each lane, in the order of their numbers."""
        return [(name, f"lane-{lane}") for name in self.names for lane in range(self.lanes)]

    @property
    def processes_in_all(self) -> int:
        """The worker processes of all regions."""
        return self.regions * min(self.processes or self.lanes, self.lanes)

    @property
    def fail(self) -> Mapping[str, float]:
        """The share of each stage's requests that fail."""
        if not self.failures:
            return dict.fromkeys(FAIL, 0.0)
        return MUTANT_FAIL if self.mutant else FAIL

    def pipeline(self) -> Mapping[str, Any]:
        """Return the `pipeline` group of the settings."""
        homes = {f"{number}-*": name for number, name in enumerate(self.names)}
        return {
            "fields": {"id": "TradeID", "version": "Version", "value": "Value"},
            "categories": CATEGORIES,
            "home": {"field": "TradeID", "regions": homes},
            "batch_max": MUTANT_BATCH if self.mutant else self.batch,
        }


def _rung(word: str) -> float | None:
    if word == "max":
        return None
    try:
        rate = float(word)
    except ValueError:
        rate = 0.0
    if not 0 < rate < inf:
        raise InvalidInput(f"--ladder: {word!r} is neither messages a second, above 0, nor max")
    return rate
