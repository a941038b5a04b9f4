"""What the pipeline's demo shows while it runs, and its report at the end."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import nan
from typing import Any

from rich.text import Text

from lab.harness.latency import LatencyRecorder
from lab.harness.report_columns import FILE_DIGITS
from lab.pipeline_demo.curve import MEAN_SECONDS, Curve, Point, is_held
from lab.pipeline_demo.options import FAIL, RISKS, PipelineDemoOptions
from ledger.core.amounts import to_text
from ledger.demo.harness.display import DisplayView
from ledger.demo.harness.picture import finish_axis
from ledger.demo.harness.report import RunReport, Section, Verdict
from ledger.demo.harness.totals import ShownTotals
from ledger.runtime.command_line import FAILED

SHOWN = tuple(f"risk/{risk}" for risk in RISKS)
"""The categories that are shown while it runs; all are compared in the end."""
HISTORY_MAX = 600
WRONG_SHOWN_MAX = 5
PICTURE_INCHES = (8.0, 5.0)


@dataclass(slots=True)
class PipelineDemoProgress:
    """The live figures; `history` has seconds since the beginning and messages counted by then."""

    options: PipelineDemoOptions
    phase: str = "starting"
    cut: str = ""
    sent: int = 0
    counted: int = 0
    counted_at: float = 0.0
    began: float = 0.0
    seconds: float = 0.0
    totals: Sequence[ShownTotals] = ()
    latencies: LatencyRecorder = field(default_factory=LatencyRecorder)
    curve: Curve = field(default_factory=Curve)
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
        self.curve.count(messages, at=at - self.began, latency=at - sent_at)

    def send(self, messages: int, *, at: float) -> None:
        """Record messages that were sent at a time of the monotonic clock."""
        self.sent += messages
        self.curve.send(messages, at=at - self.began)

    def view(self) -> DisplayView:
        """Return what is shown now."""
        messages = self.options.messages
        return DisplayView(
            title="python -m lab pipeline-demo",
            phase=self.phase,
            figures=[
                ("sent", f"{self.sent:,} of {messages:,}"),
                ("in the totals", f"{self.counted:,}, {self.per_second:,.0f} a second"),
                ("latency", times_text(quantiles(self.latencies))),
            ],
            progress=(self.counted, messages),
            sections=[self._table()],
            notes=[Text(self.cut, style="yellow")],
        )

    def _table(self) -> Section:
        columns = ["category", "expected, of all sent", *(totals.region for totals in self.totals)]
        rows: list[list[str | Text]] = []
        for name in SHOWN if self.totals else ():
            expected = self.totals[0].expected[name]
            shown = [
                Text(f"{total:,}", style="green" if total == expected else "yellow")
                for total in (totals.shown[name] for totals in self.totals)
            ]
            rows.append([name, f"{expected:,}", *shown])
        return Section(columns=columns, rows=rows)

    def snapshot(self) -> dict[str, Any]:
        """Return all of it as the page asks for it."""
        shown = {total.region: total.shown for total in self.totals}
        expected = self.totals[0].expected if self.totals else {}
        return {
            "title": "python -m lab pipeline-demo",
            "phase": self.phase,
            "cut": self.cut,
            "messages": self.options.messages,
            "sent": self.sent,
            "counted": self.counted,
            "per_second": round(self.per_second, 1),
            "latency": quantiles(self.latencies),
            "history": [list(one) for one in self.history],
            "exact": self.exact,
            "totals": [
                {
                    "category": name,
                    "regions": {region: to_text(one[name]) for region, one in shown.items()},
                    "truth": to_text(expected[name]),
                }
                for name in (SHOWN if expected else ())
            ],
        }


@dataclass(frozen=True, slots=True)
class PipelineDemoReport(RunReport):
    """The end of a run.

    `seconds` go from the first message that was sent to the last one that the totals showed,
    `sending_seconds` to the last one that was sent.
    `work` adds up what all workers did: figures of `ledger.pipeline.progress`, crashes, requests
    and failures of each stage, write units, and seconds of a core without their start.
    """

    options: PipelineDemoOptions
    totals: Sequence[ShownTotals]
    seconds: float
    latency: Mapping[str, float]
    work: Mapping[str, float]
    memory_bytes: int
    malformed: int
    dead_letters: int
    waiting: int
    """Map items that were not reduced: none, if all is right."""
    sending_seconds: float = 0.0
    curve: Sequence[Point] = ()

    @property
    def per_second(self) -> float:
        """Messages a second, from the first to the last."""
        return self.options.messages / self.seconds

    @property
    def per_core(self) -> float:
        """Messages a second of a core's time in the pipeline's processes."""
        return self.options.messages / self.work["cpu_seconds"]

    @property
    def is_held(self) -> bool | None:
        """Whether the rate was held; None if there was none, or too short a run to say."""
        rate = self.options.rate
        return is_held(self.curve, rate=rate, seconds=self.sending_seconds) if rate else None

    @property
    def wrong(self) -> Sequence[str]:
        """A sentence for each total that is wrong."""
        return [sentence for total in self.totals for sentence in total.wrong]

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
        found = {"exact": self.is_exact, "held": self.is_held, **figures}
        return {**found, **RunReport.as_json(self)}

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return a line for each second."""
        named = {"rate": self.options.rate or "", "failures": self.options.failures}
        return [{**named, **_rounded(point)} for point in self.curve]

    def draw(self, figure: Any) -> None:
        """Draw throughput and latency over time."""
        draw_curves(figure, {"": self.curve})

    def sections(self) -> Sequence[Section]:
        """Return the comparison, and what was measured."""
        rows = [
            [Text(cell, style="bold red" if total.wrong else "green") for cell in cells]
            for total in self.totals
            for cells in [(total.region, f"{total.right:,}", f"{len(total.wrong):,}")]
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
        own = f"{work['cpu_seconds']:,.1f} s of {options.processes_in_all} worker processes"
        left_out = f"{work['duplicates']:,} duplicate, {work['stale']:,} stale"
        written, read = (work[f"{kind}_units"] / options.messages for kind in ("write", "read"))
        units = f"{written:.2f} write and {read:.2f} read units a message in one region"
        ended = ("lanes restarted", f"{work['crashes']:,} crashes, {work['restarts']:,} others")
        if options.is_function:
            ended = ("invocations", f"{work['crashes']:,} failed: their environments ended")
        paced = f"at {options.rate:,.0f} a second, {_HELD[self.is_held]}"
        ahead = paced if options.rate else f"{options.lead:,} ahead in each lane"
        return [
            ("messages a second", f"{self.per_second:,.0f}, {self.seconds:,.1f} s in all"),
            ("of one core", f"{self.per_core:,.0f} a second ({own})"),
            ("sent to counted", f"{times_text(self.latency)}, {ahead}"),
            ("memory of a process", f"up to {self.memory_bytes / 2**20:,.0f} MB"),
            ("records read", f"{work['records']:,}: {left_out}, {work['dead']:,} dead"),
            ("dead letters", f"{self.dead_letters:,} of {self.malformed:,} malformed messages"),
            ("repeated", f"{work['retried']:,} requests"),
            ended,
            ("written", f"{work['entries']:,} changes of totals; {units}"),
            ("not reduced", f"{self.waiting:,} map items"),
        ]


_HELD = {True: "held", False: "not held: more waited all the time", None: "too short to be held"}


def _rounded(point: Point) -> Mapping[str, object]:
    return {
        name: round(value, FILE_DIGITS) if isinstance(value, float) else value
        for name, value in asdict(point).items()
    }


def draw_curves(figure: Any, curves: Mapping[str, Sequence[Point]]) -> None:
    """Draw throughput and latency of runs over time, as means of `MEAN_SECONDS`."""
    figure.set_size_inches(*PICTURE_INCHES)
    above, below = figure.subplots(2, 1, sharex=True)
    for name, points in curves.items():
        seconds = [point.second for point in points]
        above.plot(seconds, [point.throughput for point in points], label=name)
        shown = [nan if point.latency is None else point.latency for point in points]
        below.plot(seconds, shown, label=name)
    finish_axis(above, f"messages counted a second, mean of {MEAN_SECONDS} s")
    finish_axis(below, f"seconds from sent to counted, mean of {MEAN_SECONDS} s")
    below.set(xlabel="seconds")
    for axis in (above, below):
        axis.set_ylim(bottom=0)
    if any(curves):
        above.legend(fontsize=7, frameon=False)


def quantiles(latencies: LatencyRecorder) -> Mapping[str, float]:
    """Return the median, the 99th percentile and the worst in seconds."""
    return {name: getattr(latencies, name) for name in ("p50", "p99", "worst")}


def times_text(latency: Mapping[str, float]) -> str:
    """Return quantiles in one line."""
    return ", ".join(f"{name} {seconds:.2f} s" for name, seconds in latency.items())
