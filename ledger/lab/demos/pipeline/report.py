"""What the pipeline's demo shows while it runs, and its report at the end."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from ledger.commands.pipeline.watching import totals_shown
from ledger.lab.demos.pipeline.options import FAIL, RISKS, PipelineDemoOptions
from ledger.lab.harness.display import View
from ledger.lab.harness.latency import LatencyRecorder
from ledger.lab.harness.report import Report, Section, Verdict
from ledger.lab.harness.totals import RegionTotals
from ledger.runtime.command_line import FAILED

SHOWN = tuple(f"risk/{risk}" for risk in RISKS)
"""The categories that are shown while it runs; all are compared in the end."""
HISTORY_MAX = 600
WRONG_SHOWN_MAX = 5


@dataclass(slots=True)
class PipelineDemoProgress:
    """The live figures; `history` has seconds since the beginning and messages counted by then."""

    options: PipelineDemoOptions
    phase: str = "starting"
    cut: str = ""
    sent: int = 0
    counted: int = 0
    counted_at: float = 0.0
    seconds: float = 0.0
    totals: Sequence[RegionTotals] = ()
    latencies: LatencyRecorder = field(default_factory=LatencyRecorder)
    history: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=HISTORY_MAX))
    exact: bool | None = None

    @property
    def per_second(self) -> float:
        """Messages counted a second, so far."""
        return self.counted / self.seconds if self.seconds else 0.0

    def count(self, messages: int, *, sent_at: float, at: float) -> None:
        """Record that the totals show messages that were sent at once."""
        self.counted += messages
        self.counted_at = max(self.counted_at, at)
        self.latencies.add(at - sent_at, messages)

    def view(self) -> View:
        """Return what is shown now."""
        messages = self.options.messages
        return View(
            title="ledger pipeline demo",
            phase=self.phase,
            figures=[
                ("sent", f"{self.sent:,} of {messages:,}"),
                ("in the totals", f"{self.counted:,}, {self.per_second:,.0f} a second"),
                ("latency", _times(quantiles(self.latencies))),
            ],
            progress=(self.counted, messages),
            sections=[self._table()],
            notes=[Text(self.cut, style="yellow")],
        )

    def _table(self) -> Section:
        columns = ["category", "expected, of all sent", *(one.region for one in self.totals)]
        rows: list[list[str | Text]] = []
        for name in SHOWN if self.totals else ():
            expected = self.totals[0].expected[name]
            shown = [
                Text(f"{total:,}", style="green" if total == expected else "yellow")
                for total in (one.shown[name] for one in self.totals)
            ]
            rows.append([name, f"{expected:,}", *shown])
        return Section(columns=columns, rows=rows)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as the page asks for it."""
        shown = {one.region: one.shown for one in self.totals}
        expected = self.totals[0].expected if self.totals else {}
        return {
            "title": "ledger pipeline demo",
            "phase": self.phase,
            "cut": self.cut,
            "messages": self.options.messages,
            "sent": self.sent,
            "counted": self.counted,
            "per_second": round(self.per_second, 1),
            "latency": quantiles(self.latencies),
            "history": [list(one) for one in self.history],
            "exact": self.exact,
            "totals": totals_shown([name for name in SHOWN if expected], shown, expected),
        }


@dataclass(frozen=True, slots=True)
class PipelineDemoReport(Report):
    """The end of a run.

    `seconds` go from the first message that was sent to the last one that the totals showed.
    `work` adds up what all workers did: figures of `ledger.pipeline.progress`, crashes, requests
    and failures of each stage, write units, and seconds of a core without their start.
    """

    options: PipelineDemoOptions
    totals: Sequence[RegionTotals]
    seconds: float
    latency: Mapping[str, float]
    work: Mapping[str, float]
    memory_bytes: int
    malformed: int
    dead_letters: int
    waiting: int
    """Map items that were not reduced: none, if all is right."""

    @property
    def per_second(self) -> float:
        """Messages a second, from the first to the last."""
        return self.options.messages / self.seconds

    @property
    def per_core(self) -> float:
        """Messages a second of a core's time in the pipeline's processes."""
        return self.options.messages / self.work["cpu_seconds"]

    @property
    def wrong(self) -> Sequence[str]:
        """A sentence for each total that is wrong."""
        return [sentence for one in self.totals for sentence in one.wrong]

    @property
    def is_exact(self) -> bool:
        """Whether every region shows the expected totals, and nothing is left or lost."""
        return not self.wrong and self.dead_letters == self.malformed and not self.waiting

    def verdict(self) -> Verdict:
        """Return whether every total is exact."""
        if self.is_exact:
            return Verdict("exact in every region", "bold green")
        return Verdict("the totals are wrong", "bold red", FAILED)

    def as_json(self) -> dict[str, Any]:
        """Return all of it for a file."""
        figures = {"per_second": self.per_second, "per_core": self.per_core, "wrong": self.wrong}
        return {"exact": self.is_exact, **figures, **Report.as_json(self)}

    def sections(self) -> Sequence[Section]:
        """Return the comparison, and what was measured."""
        rows = [
            [Text(cell, style="bold red" if one.wrong else "green") for cell in cells]
            for one in self.totals
            for cells in [(one.region, f"{one.right:,}", f"{len(one.wrong):,}")]
        ]
        comparison = Section(
            title=f"{self.options.messages:,} messages of {self.options.trades:,} trades",
            columns=("region", "categories right", "wrong"),
            rows=rows,
        )
        failures = Section(
            title="failures in each stage",
            columns=("stage", "requests", "failed", "share"),
            rows=[
                (stage, f"{requests:,}", f"{failed:,}", f"{failed / max(1, requests):.1%}")
                for stage, requests, failed in self._requests()
            ],
        )
        return comparison, failures, Section(rows=self._facts())

    def remarks(self) -> Iterable[Text]:
        """Return some categories that are wrong, and the stages that met no failure."""
        missed = [stage for stage, _, failed in self._requests() if not failed]
        if missed and self.options.failures:
            yield Text(
                f"no request of {' or '.join(missed)} failed: send more messages, or take smaller"
                " batches (--batch), for failures in every stage",
                style="yellow",
            )
        for sentence in self.wrong[:WRONG_SHOWN_MAX]:
            yield Text(sentence, style="red")

    def _requests(self) -> list[tuple[str, int, int]]:
        """Return for each stage how many requests it made, and how many of them failed."""
        return [
            (stage, int(self.work[f"{stage}_requests"]), int(self.work[f"{stage}_failed"]))
            for stage in FAIL
        ]

    def _facts(self) -> list[tuple[str, str]]:
        work, options = self.work, self.options
        own = f"{work['cpu_seconds']:,.1f} s of {len(options.lane_names)} worker processes"
        left_out = f"{work['duplicates']:,} duplicate, {work['stale']:,} stale"
        units = f"{work['write_units'] / options.messages:.2f} write units a message in one region"
        return [
            ("messages a second", f"{self.per_second:,.0f}, {self.seconds:,.1f} s in all"),
            ("of one core", f"{self.per_core:,.0f} a second ({own})"),
            ("sent to counted", f"{_times(self.latency)}, {options.lead:,} ahead in each lane"),
            ("memory of a process", f"up to {self.memory_bytes / 2**20:,.0f} MB"),
            ("records read", f"{work['records']:,}: {left_out}, {work['dead']:,} dead"),
            ("dead letters", f"{self.dead_letters:,} of {self.malformed:,} malformed messages"),
            ("repeated", f"{work['retried']:,} requests"),
            ("lanes restarted", f"{work['crashes']:,} crashes, {work['restarts']:,} others"),
            ("written", f"{work['entries']:,} entries; {units}"),
            ("not reduced", f"{self.waiting:,} map items"),
        ]


def quantiles(latencies: LatencyRecorder) -> Mapping[str, float]:
    """Return the median, the 99th percentile and the worst in seconds."""
    return {name: getattr(latencies, name) for name in ("p50", "p99", "worst")}


def _times(latency: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in latency.items())
