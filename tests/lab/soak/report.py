"""The options of a soak, what is known of it while it goes on, and its report."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from pydantic_core import to_jsonable_python

from lab.faults.options import FaultOptions
from lab.faults.report import FaultProgress, FaultReport
from lab.harness.plots import draw_lines
from lab.harness.report_columns import ReportColumn, section_of
from lab.soak.curves import Curves, Growth, Interval
from ledger.demo.harness.options import Picture
from ledger.demo.harness.report import Section, counts_text

MEGABYTE = 1e6
MILLISECONDS = 1e3
INTERVALS_MAX = 60
INTERVAL_SECONDS_MIN = 5.0
LATE_BEFORE_SECONDS = 2.0
"""What a client knows of instances may be as old as that."""
STEADY = "steady"
"""Ends the name of the instance that is never restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakOptions(FaultOptions):
    """The options of `lab soak`."""

    program = "soak"
    rate: Annotated[
        float, typer.Option(min=0.1, help="Calls offered in each region, a second.")
    ] = 10.0
    instances: Annotated[
        int, typer.Option(min=2, help="Instances in each region that are killed and restarted.")
    ] = 2
    drain: Annotated[
        float, typer.Option(min=1.0, help="Seconds an instance takes requests after SIGTERM.")
    ] = 5.0
    picture: Picture = None

    @property
    def own_words(self) -> str:
        """What only this command has."""
        return f" --rate {self.rate:g} --instances {self.instances} --drain {self.drain:g}"


@dataclass(slots=True)
class SoakProgress(FaultProgress):
    """What is known of a soak; `calm` are the attempts within rolling restarts, by result."""

    curves: Curves = field(default_factory=lambda: Curves(INTERVAL_SECONDS_MIN))
    calm: Counter[str] = field(default_factory=Counter)
    rolled: int = 0
    followed: Counter[str] = field(default_factory=Counter)
    starts: dict[str, int] = field(default_factory=dict)
    is_calm: bool = False
    late: list[tuple[float, float]] = field(default_factory=list)
    """When the clients' own process was kept waiting, and for how many seconds."""

    def was_late(self, since: float) -> bool:
        """Whether the clients were late since shortly before a moment of the clock."""
        return bool(self.late) and self.late[-1][0] >= since - LATE_BEFORE_SECONDS

    @property
    def interval(self) -> Interval:
        """The interval of now."""
        return self.curves.at(self.seconds)


@dataclass(frozen=True, slots=True)
class SoakReport(FaultReport):
    """The end of a soak."""

    progress: SoakProgress

    @property
    def growth(self) -> Mapping[str, Growth]:
        """How the memory of each process grew."""
        return self.progress.curves.growth(self.progress.starts)

    def sections(self) -> Sequence[Section]:
        """Return all figures."""
        its = self.progress
        attempts, outcomes = Counter[str](), Counter[str]()
        for interval in its.curves.intervals:
            attempts += interval.attempts
            outcomes += interval.outcomes
        worst = max((seconds for _, seconds in its.late), default=0.0)
        rows = [
            ("calls by outcome", counts_text(outcomes)),
            ("attempts by status", counts_text(attempts)),
            ("rolling restarts", f"{its.rolled:,}; attempts meanwhile: {counts_text(its.calm)}"),
            ("followed", counts_text(its.followed)),
            ("clients late", f"{len(its.late):,} times, {worst:.1f} s at most: not judged then"),
        ]
        seconds = its.curves.interval_seconds
        return [
            *FaultReport.sections(self),
            Section(title="over HTTP", rows=rows),
            section_of(
                INTERVAL_COLUMNS,
                enumerate(its.curves.intervals),
                title=f"by intervals of {seconds:g} s; latencies from when a call was due, in ms",
                ends_in_text=True,
            ),
            section_of(
                MEMORY_COLUMNS,
                self.growth.items(),
                title="resident memory, MB: means of the first and the last quarter",
                caption=self.memory_verdict,
            ),
        ]

    @property
    def memory_verdict(self) -> str:
        """What can be said of leaks: by the one instance that ran all the time."""
        told = [
            f"{name}, never restarted: {growth.share:+.1%} from the first to the last quarter"
            for name, growth in self.growth.items()
            if not growth.restarts and name.endswith(STEADY)
        ]
        return "; ".join(told) or "no instance ran all the time"

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        its = self.progress
        found = {
            "interval_seconds": its.curves.interval_seconds,
            "intervals": [
                {
                    "from_seconds": place * its.curves.interval_seconds,
                    **{column.name: column.plain((place, one)) for column in INTERVAL_COLUMNS},
                    "outcomes": one.outcomes,
                    "attempts": one.attempts,
                }
                for place, one in enumerate(its.curves.intervals)
            ],
            "memory": its.curves.memory,
            "growth": self.growth,
            "memory_verdict": self.memory_verdict,
            "rolled": its.rolled,
            "calm": its.calm,
            "followed": its.followed,
            "late": its.late,
        }
        return {**FaultReport.as_json(self), **to_jsonable_python(found)}

    def draw(self, figure: Any) -> None:
        """Draw calls, latencies and memory over time."""
        its = self.progress.curves
        figure.set_size_inches(9, 10)
        calls, latencies, memory = figure.subplots(3, 1, sharex=True)
        minute = its.interval_seconds / 60
        axes = {"x_name": "minutes", "x_scale": "linear"}
        draw_lines(
            calls,
            "calls and failed attempts a second",
            {
                "calls": [
                    (place * minute, one.calls.total() / its.interval_seconds)
                    for place, one in enumerate(its.intervals)
                ],
                "failed attempts": [
                    (place * minute, one.failed.total() / its.interval_seconds)
                    for place, one in enumerate(its.intervals)
                ],
            },
            y_scale="linear",
            **axes,
        )
        draw_lines(latencies, "latency from when a call was due, ms", self._latencies(), **axes)
        draw_lines(
            memory,
            "resident memory, MB",
            {
                name: [(at / 60, size / MEGABYTE) for at, size in samples]
                for name, samples in its.memory.items()
            },
            y_scale="linear",
            **axes,
        )

    def _latencies(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        minute = self.progress.curves.interval_seconds / 60
        return {
            f"{kind} {name}": [
                (place * minute, value * MILLISECONDS)
                for place, one in enumerate(self.progress.curves.intervals)
                for known, value in _quantiles(one, kind)
                if known == name
            ]
            for kind in ("write", "read")
            for name in ("p50", "p99", "max")
        }


def _quantiles(interval: Interval, kind: str) -> Iterator[tuple[str, float]]:
    if latencies := interval.calls[kind] and interval.latencies[kind]:
        yield "p50", latencies.p50
        yield "p99", latencies.p99
        yield "max", latencies.worst


def _latency(kind: str, name: str) -> ReportColumn[tuple[int, Interval]]:
    return ReportColumn(
        f"{kind}_{name}_seconds",
        f"{kind} {name}",
        lambda subject: dict(_quantiles(subject[1], kind)).get(name),
        lambda seconds: f"{seconds * MILLISECONDS:,.0f}",
    )


INTERVAL_COLUMNS: Sequence[ReportColumn[tuple[int, Interval]]] = (
    ReportColumn("interval", "interval", lambda subject: subject[0]),
    ReportColumn("writes", "writes", lambda subject: subject[1].calls["write"]),
    *(_latency("write", name) for name in ("p50", "p99", "max")),
    ReportColumn("reads", "reads", lambda subject: subject[1].calls["read"]),
    *(_latency("read", name) for name in ("p50", "p99", "max")),
    ReportColumn("not_offered", "not offered", lambda subject: subject[1].calls["not offered"]),
    ReportColumn(
        "failed_attempts", "failed attempts", lambda subject: counts_text(subject[1].failed), str
    ),
)
MEMORY_COLUMNS: Sequence[ReportColumn[tuple[str, Growth]]] = (
    ReportColumn("process", "process", lambda subject: subject[0], str),
    ReportColumn(
        "first", "first", lambda subject: subject[1].first_bytes / MEGABYTE, "{:,.1f}".format
    ),
    ReportColumn(
        "last", "last", lambda subject: subject[1].last_bytes / MEGABYTE, "{:,.1f}".format
    ),
    ReportColumn(
        "peak", "peak", lambda subject: subject[1].peak_bytes / MEGABYTE, "{:,.1f}".format
    ),
    ReportColumn("growth", "growth", lambda subject: subject[1].share, "{:+.1%}".format),
    ReportColumn("restarts", "restarts", lambda subject: subject[1].restarts),
)
