"""The report of a bench: cases beside their baselines, curves, an overload; and its picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.options import BenchOptions
from ledger.lab.harness.picture import INK, OURS, THEIRS, draw_bars, draw_lines
from ledger.lab.harness.report import Report, Section, Verdict
from ledger.runtime.command_line import FAILED

VERSION = 2
STUB_SHARE_MAX = 0.8
"""Above this share of its core the stub may be what is measured."""
NOTE = (
    "Batching saves client time, not write units; only combining saves both, at the price of one"
    " item standing for many changes."
)
_TITLES = {
    "proof": "the stub endpoint's own limit, bare client",
    "write": "writes",
    "offered": "writes offered at a fixed rate, each batch answered after 5 ms",
    "read": "reads of one collection of 10,000 entries",
    "totals": "totals of many counters; a row's work is one total",
    "engine": "the same writes to dynoxide, which stores them",
    "life": "a change's whole life on a local table of two regions: written, merged, deleted",
}
_BARS = {
    "write": "changes per second of one core",
    "read": "entries read per second of one core",
    "totals": "totals per second of one core",
}
_ROW_INCHES, _WIDE_INCHES, _CURVE_INCHES = 0.34, 11.0, 3.2
_CURVE_COLUMNS = 2
_WHOLE_FROM = 100
"""Figures from this size on are shown without decimals."""


@dataclass(frozen=True, slots=True)
class CaseFigures:
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
class CaseResult:
    """One case: its figures and rounds, or why there are none."""

    name: str
    group: str
    baseline: str | None = None
    figures: CaseFigures | None = None
    rounds: tuple[Measured, ...] = ()
    skipped: str | None = None
    failed: str | None = None
    times_baseline: float | None = None
    """Work per second, the baseline being 1."""
    times_baseline_cpu: float | None = None
    """Work per second of processor time, the baseline being 1."""
    stub_limit_times: float | None = None
    """How many times as many requests of this kind the stub has been shown to answer."""
    is_trustworthy: bool = True
    is_batched: bool = False


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
class BenchReport(Report):
    """All of one run."""

    machine: dict[str, Any]
    options: BenchOptions
    results: tuple[CaseResult, ...]
    curves: tuple[Curve, ...] = ()
    overload: Measured | None = None
    note: str = NOTE
    version: int = VERSION

    def sections(self) -> Iterable[Section]:
        """Return a table for each group of cases and each curve, and the overload."""
        for group in dict.fromkeys(result.group for result in self.results):
            yield self._group(group)
        yield from map(_curve_section, self.curves)
        if self.overload is not None:
            yield _overload_section(self.overload)

    def verdict(self) -> Verdict | None:
        """Name what could not be measured, if anything."""
        failed = [result.name for result in self.results if result.failed]
        failed += [curve.name for curve in self.curves if curve.failed]
        text = f"not everything could be measured: {', '.join(failed)}"
        return Verdict(text, "bold red", FAILED) if failed else None

    def draw(self, figure: Any) -> None:
        """Draw the cases of each group as bars, and the curves."""
        groups = {
            group: cases
            for group in _BARS
            if (
                cases := [
                    result for result in self.results if result.group == group and result.figures
                ]
            )
        }
        heights = [_ROW_INCHES * len(cases) + 0.9 for cases in groups.values()]
        heights += [_CURVE_INCHES] * -(-len(self.curves) // _CURVE_COLUMNS)
        figure.set_size_inches(_WIDE_INCHES, max(1.0, sum(heights)))
        grid = figure.add_gridspec(
            max(1, len(heights)), _CURVE_COLUMNS, height_ratios=heights or [1.0]
        )
        for place, (group, cases) in enumerate(groups.items()):
            _draw_cases(figure.add_subplot(grid[place, :]), _BARS[group], cases)
        for place, curve in enumerate(self.curves):
            row, column = divmod(place, _CURVE_COLUMNS)
            _draw_curve(figure.add_subplot(grid[len(groups) + row, column]), curve)
        if any(case.is_batched for cases in groups.values() for case in cases):
            figure.supxlabel(self.note, fontsize=7, color=INK)

    def _group(self, group: str) -> Section:
        rows = [result for result in self.results if result.group == group]
        return Section(
            title=_TITLES.get(group, group),
            columns=("case", *_COLUMNS),
            rows=[_case_row(row) for row in rows],
            wide_only=_WIDE_ONLY,
            caption=self.note if any(row.is_batched and row.figures for row in rows) else "",
        )


def figures_of(rounds: Sequence[Measured]) -> CaseFigures:
    """Return the median of each figure over the rounds."""

    def middle(figure: Callable[[Measured], float]) -> float:
        return float(median(map(figure, rounds)))

    return CaseFigures(
        work_per_second=middle(lambda one: one.work / one.seconds),
        work_per_cpu_second=middle(lambda one: one.work / one.cpu_seconds),
        cpu_microseconds_per_work=middle(lambda one: 1e6 * one.cpu_seconds / one.work),
        p50_milliseconds=middle(lambda one: 1e3 * one.p50_seconds),
        p99_milliseconds=middle(lambda one: 1e3 * one.p99_seconds),
        units_per_work=middle(lambda one: one.units / one.work),
        requests_per_second=middle(lambda one: one.requests / one.seconds),
        stub_share=middle(lambda one: one.stub_cpu_seconds / one.seconds),
        memory_megabytes=middle(lambda one: one.memory_bytes / 2**20),
    )


_Cell = Callable[[CaseResult, CaseFigures], str]
_COLUMNS: Mapping[str, _Cell] = {
    "/s": lambda _, its: f"{its.work_per_second:,.0f}",
    "x": lambda row, _: _times(row.times_baseline),
    "/CPU s": lambda _, its: f"{its.work_per_cpu_second:,.0f}",
    "x CPU": lambda row, _: _times(row.times_baseline_cpu),
    "CPU µs": lambda _, its: f"{its.cpu_microseconds_per_work:,.1f}",
    "p50 ms": lambda _, its: f"{its.p50_milliseconds:,.2f}",
    "p99 ms": lambda _, its: f"{its.p99_milliseconds:,.2f}",
    "units": lambda _, its: f"{its.units_per_work:,.3f}",
    "MB more": lambda _, its: f"{its.memory_megabytes:,.0f}",
    "stub busy": lambda _, its: f"{its.stub_share:.0%}",
    "stub could": lambda row, _: _times(row.stub_limit_times),
}
_WIDE_ONLY = {"/s", "x", "CPU µs", "MB more", "stub busy", "stub could"}


def _case_row(row: CaseResult) -> Sequence[str]:
    if row.figures is None:
        return (f"{row.name}: {row.failed or f'skipped: {row.skipped}'}",)
    doubt = "" if row.is_trustworthy else " (the stub was too busy)"
    return row.name + doubt, *(cell(row, row.figures) for cell in _COLUMNS.values())


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}"


def _curve_section(curve: Curve) -> Section:
    names = list(dict.fromkeys(name for point in curve.points for name in point.figures))
    return Section(
        title=curve.name,
        columns=(curve.x_name, *names),
        left=0,
        wraps=True,
        rows=[
            (f"{point.x:,.0f}", *(_number(point.figures.get(name)) for name in names))
            for point in curve.points
        ],
        caption=curve.failed or "",
    )


def _overload_section(found: Measured) -> Section:
    return Section(
        title=f"overload for {found.seconds:,.0f} s: {found.work:,} changes acknowledged",
        rows=[(name, _number(value)) for name, value in found.extra.items()],
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    is_whole = abs(value) >= _WHOLE_FROM or value == int(value)
    return f"{value:,.0f}" if is_whole else f"{value:,.3f}"


def _draw_cases(axis: Any, title: str, rows: Sequence[CaseResult]) -> None:
    """Draw a bar for each case, with its ratio beside it; baselines have a colour of their own."""
    values = [row.figures.work_per_cpu_second for row in rows if row.figures]
    baselines = {row.baseline for row in rows}
    times = [f" x {row.times_baseline_cpu:,.1f}" if row.times_baseline_cpu else "" for row in rows]
    draw_bars(
        axis,
        title,
        [row.name for row in rows],
        values,
        colours=[THEIRS if row.name in baselines else OURS for row in rows],
        labels=[f"{value:,.0f}{ratio}" for value, ratio in zip(values, times, strict=True)],
    )


def _draw_curve(axis: Any, curve: Curve) -> None:
    """Draw every figure of a curve over its size, but those that a logarithmic axis cannot show."""
    names = curve.points[0].figures if curve.points else ()
    series = {name: [(point.x, point.figures[name]) for point in curve.points] for name in names}
    shown = {
        name: points for name, points in series.items() if all(value > 0 for _, value in points)
    }
    draw_lines(axis, curve.name, shown, x_name=curve.x_name)
