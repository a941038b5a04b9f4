"""What comes out of a bench: frozen values, written as JSON, and the figures derived from them."""

from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pydantic import TypeAdapter

from ledger.lab.bench.measuring import Measured

VERSION = 1
STUB_SHARE_MAX = 0.8
"""Above this share of its core the stub may be what is measured."""
NOTE = (
    "Batching saves client time, not write units; only combining saves both, at the price of one"
    " item standing for many changes."
)


@dataclass(frozen=True, slots=True)
class Figures:
    """The medians over the rounds of one case; `work` is changes, or entries read."""

    work_per_second: float
    work_per_cpu_second: float
    cpu_microseconds_per_work: float
    p50_milliseconds: float
    p99_milliseconds: float
    units_per_work: float
    requests_per_second: float
    stub_share: float
    memory_megabytes: float


@dataclass(frozen=True, slots=True)
class Result:
    """One case: its figures and rounds, or why there are none."""

    name: str
    group: str
    baseline: str | None = None
    figures: Figures | None = None
    rounds: tuple[Measured, ...] = ()
    skipped: str | None = None
    failed: str | None = None
    times_baseline: float | None = None
    """Work per second of the clock, the baseline being 1."""
    times_baseline_cpu: float | None = None
    """Work per second of processor time, the baseline being 1."""
    stub_limit_times: float | None = None
    """How many times as many requests of this kind the stub has been shown to answer."""
    is_trustworthy: bool = True
    stands_for_many: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve: at `x`, each figure by its name."""

    x: float
    figures: dict[str, float]


@dataclass(frozen=True, slots=True)
class Curve:
    """How figures grow with one size."""

    name: str
    x_name: str
    points: tuple[Point, ...]
    failed: str | None = None
    """Why there are no further points."""


@dataclass(frozen=True, slots=True)
class Report:
    """All of one run."""

    machine: dict[str, Any]
    options: dict[str, Any]
    results: tuple[Result, ...]
    curves: tuple[Curve, ...] = ()
    overload: Measured | None = None
    note: str = NOTE
    version: int = VERSION


def figures_of(rounds: tuple[Measured, ...]) -> Figures:
    """Return the median of each figure over the rounds."""

    def middle(values: list[float]) -> float:
        return float(median(values))

    return Figures(
        work_per_second=middle([one.work / one.seconds for one in rounds]),
        work_per_cpu_second=middle([one.work / one.cpu_seconds for one in rounds]),
        cpu_microseconds_per_work=middle([1e6 * one.cpu_seconds / one.work for one in rounds]),
        p50_milliseconds=middle([1e3 * one.p50_seconds for one in rounds]),
        p99_milliseconds=middle([1e3 * one.p99_seconds for one in rounds]),
        units_per_work=middle([one.units / one.work for one in rounds]),
        requests_per_second=middle([one.requests / one.seconds for one in rounds]),
        stub_share=middle([one.stub_cpu_seconds / one.seconds for one in rounds]),
        memory_megabytes=middle([one.memory_bytes / 2**20 for one in rounds]),
    )


def write(report: Report, path: Path) -> None:
    """Write the report as JSON; `read` gives it back."""
    path.write_bytes(TypeAdapter(Report).dump_json(report, indent=2) + b"\n")


def read(path: Path) -> Report:
    """Read a report from JSON.

    Raises:
        pydantic.ValidationError: it is none.
    """
    return TypeAdapter(Report).validate_json(path.read_bytes(), strict=False)
