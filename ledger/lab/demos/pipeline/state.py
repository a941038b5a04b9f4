"""What the demo of the pipeline knows while it runs.

Pure: no clock, no randomness, no I/O.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ledger.core import amounts
from ledger.lab.demos.pipeline.latency import Latencies
from ledger.lab.demos.pipeline.options import RISKS, Options

SHOWN = tuple(f"risk/{risk}" for risk in RISKS)
"""The categories that are shown while it runs; all are compared in the end."""
HISTORY_MAX = 600


@dataclass(slots=True)
class Progress:
    """The live figures; `history` has seconds since the beginning and messages counted by then."""

    options: Options
    phase: str = "starting"
    cut: str = ""
    sent: int = 0
    counted: int = 0
    seconds: float = 0.0
    truth: Mapping[str, Decimal] = field(default_factory=dict)
    shown: dict[str, Mapping[str, Decimal]] = field(default_factory=dict)
    latencies: Latencies = field(default_factory=Latencies)
    history: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))
    verdict: bool | None = None

    @property
    def per_second(self) -> float:
        """Messages counted a second, so far."""
        return self.counted / self.seconds if self.seconds else 0.0

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as the page asks for it."""
        return {
            "title": "ledger pipeline demo",
            "phase": self.phase,
            "cut": self.cut,
            "messages": self.options.messages,
            "sent": self.sent,
            "counted": self.counted,
            "per_second": round(self.per_second, 1),
            "latency": {
                name: self.latencies.at(share)
                for name, share in (("p50", 0.5), ("p99", 0.99), ("worst", 1.0))
            },
            "history": [list(one) for one in self.history],
            "exact": self.verdict,
            "totals": [
                {
                    "category": name,
                    "truth": amounts.to_text(value),
                    "regions": {
                        region: amounts.to_text(totals[name])
                        for region, totals in self.shown.items()
                        if name in totals
                    },
                }
                for name, value in self.truth.items()
            ],
        }
