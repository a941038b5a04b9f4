"""What the demo of the pipeline knows and shows while it runs."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from rich.text import Text

from ledger.core import amounts
from ledger.lab.demos.pipeline.options import RISKS, PipelineDemoOptions
from ledger.lab.demos.pipeline.report import times_text
from ledger.lab.harness.display import View
from ledger.lab.harness.latency import LatencyRecorder
from ledger.lab.harness.report import Section

SHOWN = tuple(f"risk/{risk}" for risk in RISKS)
"""The categories that are shown while it runs; all are compared in the end."""
HISTORY_MAX = 600


@dataclass(slots=True)
class PipelineDemoProgress:
    """The live figures; `history` has seconds since the beginning and messages counted by then."""

    options: PipelineDemoOptions
    phase: str = "starting"
    cut: str = ""
    sent: int = 0
    counted: int = 0
    seconds: float = 0.0
    expected: Mapping[str, Decimal] = field(default_factory=dict)
    shown: dict[str, Mapping[str, Decimal]] = field(default_factory=dict)
    latencies: LatencyRecorder = field(default_factory=LatencyRecorder)
    history: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))
    verdict: bool | None = None

    @property
    def per_second(self) -> float:
        """Messages counted a second, so far."""
        return self.counted / self.seconds if self.seconds else 0.0

    def view(self) -> View:
        """Return what is shown now."""
        messages, its = self.options.messages, self.latencies
        sent = f"{self.sent:,} of {messages:,}"
        return View(
            title="ledger pipeline demo",
            phase=self.phase,
            figures=[
                ("sent", sent),
                ("in the totals", f"{self.counted:,}, {self.per_second:,.0f} a second"),
                ("latency", times_text(its.p50, its.p99, its.worst)),
            ],
            progress=(self.counted, messages),
            sections=[self._totals()],
            notes=[Text(self.cut, style="yellow")],
        )

    def _totals(self) -> Section:
        names = self.options.names
        rows: list[list[str | Text]] = []
        for category, expected in self.expected.items():
            shown = [self.shown.get(name, {}).get(category) for name in names]
            cells = [
                Text(
                    "" if one is None else f"{one:,}",
                    style="green" if one == expected else "yellow",
                )
                for one in shown
            ]
            rows.append([category, f"{expected:,}", *cells])
        return Section(columns=("category", "expected, of all sent", *names), rows=rows)

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
            "latency": {name: getattr(self.latencies, name) for name in ("p50", "p99", "worst")},
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
                for name, value in self.expected.items()
            ],
        }
