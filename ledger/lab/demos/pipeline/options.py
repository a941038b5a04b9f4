"""What the demo of the pipeline is asked for.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
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


@dataclass(frozen=True, slots=True)
class Options:
    """How the demo runs. Shares are of messages, `fail` of the requests of a stage.

    `disordered` messages come late, `crossing` ones through another region than the trade's home.
    `rate` is in messages a second, 0 for as many as the pipeline takes; `lead` bounds how many of
    a lane wait to be counted. `lag` and `jitter` are seconds of replication.
    """

    messages: int = 20_000
    trades: int = 0
    regions: int = 2
    lanes: int = 1
    batch: int = 500
    lead: int = 2_000
    rate: float = 0.0
    doubled: float = 0.05
    disordered: float = 0.05
    crossing: float = 0.1
    poison: float = 0.001
    fail_state: float = 0.01
    fail_map: float = 0.02
    fail_reduce: float = 0.02
    engine: str = "memory"
    lag: float = 0.05
    jitter: float = 0.2
    seed: int = 7
    twin: str = ""

    @property
    def trade_count(self) -> int:
        """How many trades there are."""
        return self.trades or max(1, self.messages // VERSIONS_EACH)

    @property
    def is_alone(self) -> bool:
        """Whether clients reach the engine itself, which nothing but one region's table allows."""
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
        """The share of each stage's requests that go wrong."""
        return dict(zip(STAGES, (self.fail_state, self.fail_map, self.fail_reduce), strict=True))

    def pipeline(self) -> Mapping[str, Any]:
        """Return the `pipeline` group of the settings."""
        homes = {f"{number}-*": name for number, name in enumerate(self.names)}
        return {
            "fields": {"id": "TradeID", "version": "Version", "value": "Value"},
            "categories": CATEGORIES,
            "home": {"field": "TradeID", "regions": homes},
            "batch_max": self.batch,
        }
