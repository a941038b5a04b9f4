"""What the demo of the pipeline is asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.commands.paging import ADVANCED
from ledger.core.errors import InvalidInput
from ledger.lab.harness.options import ENGINE_HELP, REGIONS, JsonFile, LabOptions

RISKS = ("Delta", "Gamma", "Rho", "Vega")
PLACES = ("AMER", "APAC", "EMEA")
DESKS = ("Credit", "FX", "Rates")
CATEGORIES = (
    "risk/{Hierarchy.RiskType}",
    "risk/{Hierarchy.RiskType}/{Hierarchy.Region}",
    "risk/{Hierarchy.RiskType}/{Hierarchy.Region}/{Hierarchy.Desk}",
)
VERSIONS_EACH = 10
"""Versions of a trade, on the average, unless the number of trades is given."""
STAGES = ("state", "map", "reduce")
SHARE_MAX = 0.5
MUTANTS = ("no-version", "no-hash", "no-token")
FAIL, MUTANT_FAIL = (0.01, 0.02, 0.02), (0.05, 0.2, 0.2)
BATCH, MUTANT_BATCH = 500, 100


def _share(text: str) -> Any:
    return typer.Option(min=0, max=SHARE_MAX, rich_help_panel=ADVANCED, help=text)


def _advanced(text: str, **bounds: Any) -> Any:
    return typer.Option(rich_help_panel=ADVANCED, help=text, **bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDemoOptions(LabOptions):
    """The options of the demo. Shares are of messages, `fail_` ones of the requests of a stage.

    `delayed` messages come late, `crossing` ones through another region than the trade's home.
    `rate` is in messages a second, 0 for as many as the pipeline takes; `lead` bounds how many of
    a lane wait to be counted.

    Raises:
        InvalidInput: there is no such mutant.
    """

    messages: Annotated[int, typer.Option(min=1, help="How many, duplicates included.")] = 20_000
    trades: Annotated[int, _advanced("How many; 0: one for every 10 messages.", min=0)] = 0
    regions: Annotated[int, typer.Option(min=1, max=3, help="How many.")] = 2
    lanes: Annotated[
        int, typer.Option(min=1, max=16, help="In each region, a process for each.")
    ] = 1
    engine: Annotated[
        str, typer.Option(help=f"{ENGINE_HELP} With one region dynoxide is reached directly.")
    ] = "memory"
    rate: Annotated[
        float, typer.Option(min=0, help="Messages a second; 0: as many as are taken.")
    ] = 0.0
    lead: Annotated[int, _advanced("Messages of a lane that may wait to be counted.", min=1)] = (
        2_000
    )
    batch: Annotated[
        int | None, _advanced("Records of a batch, at most. [500]", min=1, max=10_000)
    ] = None
    duplicate: Annotated[float, _share("Share that comes twice.")] = 0.05
    delayed: Annotated[float, _share("Share that comes late.")] = 0.05
    crossing: Annotated[float, _share("Share through another region.")] = 0.1
    malformed: Annotated[float, _share("Share that cannot be processed.")] = 0.001
    fail_state: Annotated[float | None, _share("Share of state's requests. [0.01]")] = None
    fail_map: Annotated[float | None, _share("Of map's. [0.02]")] = None
    fail_reduce: Annotated[float | None, _share("Of reduce's. [0.02]")] = None
    lag: Annotated[float, _advanced("Minimum replication lag in seconds.", min=0)] = 0.05
    jitter: Annotated[float, _advanced("Maximum additional lag in seconds.", min=0)] = 0.2
    mutant: Annotated[
        str, typer.Option(help=f"Break a rule, to see it end wrong: {', '.join(MUTANTS)}.")
    ] = ""
    page: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Show it in a browser, too, on this port; 0: any."),
    ] = None
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the lanes' files lie: 200 bytes a message.", file_okay=False),
    ] = None
    json_file: JsonFile = None

    def __post_init__(self) -> None:
        if self.mutant not in {"", *MUTANTS}:
            raise InvalidInput(f"--mutant {self.mutant!r} is not one of {', '.join(MUTANTS)}")

    @property
    def trade_count(self) -> int:
        """How many trades there are."""
        return self.trades or max(1, self.messages // VERSIONS_EACH)

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
    def fail(self) -> Mapping[str, float]:
        """The share of each stage's requests that fail."""
        given = (self.fail_state, self.fail_map, self.fail_reduce)
        usual = MUTANT_FAIL if self.mutant else FAIL
        shares = (
            one if one is not None else other for one, other in zip(given, usual, strict=True)
        )
        return dict(zip(STAGES, shares, strict=True))

    def pipeline(self) -> Mapping[str, Any]:
        """Return the `pipeline` group of the settings."""
        homes = {f"{number}-*": name for number, name in enumerate(self.names)}
        return {
            "fields": {"id": "TradeID", "version": "Version", "value": "Value"},
            "categories": CATEGORIES,
            "home": {"field": "TradeID", "regions": homes},
            "batch_max": self.batch or (MUTANT_BATCH if self.mutant else BATCH),
        }
