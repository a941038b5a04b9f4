"""The report of a bench: cases beside their baselines, as tables, CSV and a picture."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from lab.bench.measurement import Measured
from lab.bench.options import BenchOptions
from lab.bench.scale_stages import FIGURES, STAGES
from lab.harness.plots import draw_bars, draw_lines
from lab.harness.report_columns import ReportColumn, rows_of, section_of
from ledger.demo.harness.picture import OURS, THEIRS
from ledger.demo.harness.report import RunReport, Section, Verdict
from ledger.runtime.command_line import FAILED

VERSION = 3
STUB_SHARE_MAX = 0.8
"""Above this share of its core the stub may be what is measured."""
NOTE = "Batching saves client time, not write units; combining saves both."
_TITLES = {
    "write": "writes",
    "offered": "writes offered at a fixed rate, each batch answered after 5 ms",
    "hot": "changes of one counter, each kept with its id, in what one partition takes; three"
    " regions",
    "conditional": "writes on a condition, each with an outcome of its own",
    "overload": "more callers than can be served, each batch answered after 50 ms",
    "read": "entries read, collections of 10,000 unless another number is named",
    "totals": "totals of 1,000 merged counters, each read from the table or from the cache",
    "service": "requests over HTTP, each with a token: one write, or one total; beside"
    " endpoints that do nothing",
    "budgets": "spends of one counter's limit on a local table of two regions, beside no limit and"
    " other ways to keep one",
    "scale": "counters by Zipf's law, the hottest of 100,000 entries, in one region",
    "merge": "50,000 entries merged in three regions of a local table: read, folded, deleted,"
    " forgotten",
    "sharing": "the same by compactor processes that share the slices, the table beside them",
    "archive": "entries kept in an archive on files: the life of a change, merging in three"
    " regions, and the archive alone: put, read back as history, verified",
    "life": "a change's whole life on a local table of two regions: written, merged, deleted",
}
_NOTES = {"write": NOTE}
_BARS = {
    "conditional": "changes per second of one core",
    "write": "changes per second of one core",
    "read": "entries read per second of one core",
    "totals": "totals read per second of one core",
    "service": "requests answered per second of one core",
}
LADDER = "scale"
"""The group of the ladder's rungs, whose stages are drawn as curves."""
_CURVE_INCHES, _CURVES_A_ROW = 3.2, 2
_DRAWN_MIN = 0.001
"""Less is what the process itself needs, such as its reads of the contract, not its work."""
_ROW_INCHES, _TITLE_INCHES, _WIDE_INCHES = 0.34, 0.9, 11.0

ROUND_FIGURES: Mapping[str, Callable[[Measured], float]] = {
    "work_per_second": lambda one: one.work / one.seconds,
    "work_per_cpu_second": lambda one: one.work / one.cpu_seconds,
    "cpu_microseconds_per_work": lambda one: 1e6 * one.cpu_seconds / one.work,
    "p50_milliseconds": lambda one: 1e3 * one.p50_seconds,
    "p99_milliseconds": lambda one: 1e3 * one.p99_seconds,
    "units_per_work": lambda one: one.units / one.work,
    "requests_per_second": lambda one: one.requests / one.seconds,
    "rejected_per_second": lambda one: one.rejected / one.seconds,
    "stub_share": lambda one: one.stub_cpu_seconds / one.seconds,
}
"""The figures of a round; work is changes, or entries read."""
_RATIOS = {"times_baseline": "work_per_second", "times_baseline_cpu": "work_per_cpu_second"}
"""A figure as a multiple of the baseline's."""


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case: the medians of its figures by name and its rounds, or why there are none."""

    name: str
    group: str
    baseline: str | None = None
    figures: Mapping[str, float] = field(default_factory=dict)
    rounds: tuple[Measured, ...] = ()
    skipped: str | None = None
    failed: str | None = None

    @property
    def label(self) -> str:
        """The name, with whatever a reader of its figures must know."""
        if not self.figures:
            return f"{self.name}: {self.failed or f'skipped: {self.skipped}'}"
        is_busy = self.figures.get("stub_share", 0.0) > STUB_SHARE_MAX
        return f"{self.name} (the stub was too busy)" if is_busy else self.name

    @property
    def further(self) -> Mapping[str, float]:
        """The figures that only this case has."""
        names = {name for measured in self.rounds for name in measured.extra}
        return {name: self.figures[name] for name in sorted(names)}


@dataclass(frozen=True, slots=True)
class BenchReport(RunReport):
    """All of one run."""

    machine: dict[str, Any]
    options: BenchOptions
    results: tuple[CaseResult, ...]
    version: int = VERSION

    def sections(self) -> Iterable[Section]:
        """Return a table for each group of cases, and the figures that only one case has."""
        for group in dict.fromkeys(result.group for result in self.results):
            rows = [result for result in self.results if result.group == group]
            if group == LADDER:
                yield section_of(_STAGE_COLUMNS, _stages(rows), title=_TITLES[group])
                continue
            caption = _NOTES.get(group, "")
            yield section_of(_COLUMNS, rows, title=_TITLES[group], caption=caption)
            further = [
                (f"{row.name}: {name}", f"{value:,.3g}")
                for row in rows
                for name, value in row.further.items()
            ]
            if further:
                yield Section(rows=further)

    def verdict(self) -> Verdict | None:
        """Name what could not be measured, if anything."""
        failed = [result.name for result in self.results if result.failed]
        text = f"not everything could be measured: {', '.join(failed)}"
        return Verdict(text, "bold red", FAILED) if failed else None

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the figures for CSV, a row for each case."""
        cases = [result for result in self.results if result.group != LADDER]
        stages = _stages(result for result in self.results if result.group == LADDER)
        return [*rows_of(_COLUMNS, cases), *rows_of(_STAGE_COLUMNS, stages)]

    def draw(self, figure: Any) -> None:
        """Draw the cases of each group as bars, and the stages of the ladder as curves."""
        measured = [result for result in self.results if result.figures]
        groups = {group: [case for case in measured if case.group == group] for group in _BARS}
        shown = {group: cases for group, cases in groups.items() if cases}
        heights = [_ROW_INCHES * len(cases) + _TITLE_INCHES for cases in shown.values()]
        stages = _stages(case for case in measured if case.group == LADDER)
        curves = _curves(stages)
        heights += [_CURVE_INCHES] * -(-len(curves) // _CURVES_A_ROW)
        heights = heights or [1.0]
        figure.set_size_inches(_WIDE_INCHES, sum(heights))
        grid = figure.add_gridspec(len(heights), _CURVES_A_ROW, height_ratios=heights)
        for place, (group, cases) in enumerate(shown.items()):
            _draw_cases(figure.add_subplot(grid[place, :]), _BARS[group], cases)
        first = len(shown) * _CURVES_A_ROW
        for place, (curve, series) in enumerate(curves, first):
            axis = figure.add_subplot(grid[divmod(place, _CURVES_A_ROW)])
            curve.draw(axis, series)


def figures_of(rounds: Sequence[Measured]) -> dict[str, float]:
    """Return the median of each figure over the rounds."""
    found = [
        {**{name: figure(measured) for name, figure in ROUND_FIGURES.items()}, **measured.extra}
        for measured in rounds
    ]
    return {name: float(median(one[name] for one in found)) for name in found[0]}


def ratios_of(ours: Mapping[str, float], its: Mapping[str, float]) -> dict[str, float]:
    """Return figures as multiples of the baseline's."""
    return {name: ours[figure] / its[figure] for name, figure in _RATIOS.items()}


def _short(value: float) -> str:
    return f"{value:,.3g}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004


def _column(
    name: str, heading: str, form: str, *, wide_only: bool = False
) -> ReportColumn[CaseResult]:
    return ReportColumn(name, heading, lambda row: row.figures.get(name), form.format, wide_only)


_COLUMNS: tuple[ReportColumn[CaseResult], ...] = (
    ReportColumn("case", "", lambda row: row.name),
    ReportColumn("", "case", lambda row: row.label, str),
    _column("work_per_second", "/s", "{:,.0f}", wide_only=True),
    _column("times_baseline", "x", "{:,.1f}", wide_only=True),
    _column("work_per_cpu_second", "/CPU s", "{:,.0f}"),
    _column("times_baseline_cpu", "x CPU", "{:,.1f}"),
    _column("cpu_microseconds_per_work", "CPU µs", "{:,.1f}", wide_only=True),
    _column("p50_milliseconds", "p50 ms", "{:,.2f}"),
    _column("p99_milliseconds", "p99 ms", "{:,.2f}"),
    _column("units_per_work", "units", "{:,.3f}"),
    _column("requests_per_second", "", ""),
    _column("rejected_per_second", "rejected/s", "{:,.0f}", wide_only=True),
    _column("stub_share", "stub busy", "{:.0%}", wide_only=True),
)


def _draw_cases(axis: Any, title: str, rows: Sequence[CaseResult]) -> None:
    """Draw a bar for each case, with its ratio beside it; baselines have a colour of their own."""
    values = [row.figures["work_per_cpu_second"] for row in rows]
    times = [row.figures.get("times_baseline_cpu") for row in rows]
    baselines = {row.baseline for row in rows}
    draw_bars(
        axis,
        title,
        [row.name for row in rows],
        values,
        colours=[THEIRS if row.name in baselines else OURS for row in rows],
        labels=[
            f"{value:,.0f} x {ratio:,.1f}" if ratio else f"{value:,.0f}"
            for value, ratio in zip(values, times, strict=True)
        ],
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    """One stage of one rung of the ladder; a figure that was not kept is missing."""

    rung: str
    stage: str
    figures: Mapping[str, float]

    @property
    def counters(self) -> float:
        """How many counters the rung has, which its name says."""
        return float(self.rung.partition(" ")[0].replace(",", ""))

    def per_work(self, figure: str, times: float = 1.0) -> float | None:
        """Return a figure for each change, entry or total that the stage handled."""
        work, value = self.figures.get("work"), self.figures.get(figure)
        return times * value / work if work and value is not None else None


def _stages(rungs: Iterable[CaseResult]) -> list[_Stage]:
    found = []
    for rung in rungs:
        if not rung.figures:
            found.append(_Stage(rung.label, "", {}))
        for stage in STAGES if rung.figures else ():
            names = {name: f"{stage}: {name}" for name in FIGURES}
            known = {name: rung.figures[key] for name, key in names.items() if key in rung.figures}
            found.append(_Stage(rung.name, stage, known))
    return found


_STAGE_COLUMNS: tuple[ReportColumn[_Stage], ...] = (
    ReportColumn("case", "case", lambda row: row.rung, str),
    ReportColumn("stage", "stage", lambda row: row.stage, str),
    ReportColumn("work", "work", lambda row: row.figures.get("work"), "{:,.0f}".format),
    ReportColumn("seconds", "s", lambda row: row.figures.get("s"), "{:,.1f}".format),
    ReportColumn(
        "cpu_microseconds_per_work", "CPU µs", lambda row: row.per_work("CPU s", 1e6), _short
    ),
    ReportColumn(
        "write_units_per_work", "write units", lambda row: row.per_work("write units"), _short
    ),
    ReportColumn(
        "read_units_per_work", "read units", lambda row: row.per_work("read units"), _short
    ),
    ReportColumn("megabytes", "MB", lambda row: row.figures.get("MB"), "{:,.0f}".format),
)


@dataclass(frozen=True, slots=True)
class _Curve:
    """One figure of the stages against another, with a line for each stage."""

    title: str
    x_name: str
    x: Callable[[_Stage], float | None]
    y: Callable[[_Stage], float | None]
    y_scale: str = "log"

    def series(self, stages: Iterable[_Stage]) -> Mapping[str, Sequence[tuple[float, float]]]:
        """Return the points of each stage that has some, but for those next to nothing."""
        found: dict[str, list[tuple[float, float]]] = {}
        for stage in stages:
            x, y = self.x(stage), self.y(stage)
            if x and y is not None and y >= _DRAWN_MIN:
                found.setdefault(stage.stage, []).append((x, y))
        return found

    def draw(self, axis: Any, series: Mapping[str, Sequence[tuple[float, float]]]) -> None:
        """Draw the lines; a scale that is not logarithmic begins at 0."""
        draw_lines(axis, self.title, series, x_name=self.x_name, y_scale=self.y_scale, order=STAGES)
        if self.y_scale == "linear":
            axis.set_ylim(bottom=0)


def _by_counters(title: str, y: Callable[[_Stage], float | None], y_scale: str = "log") -> _Curve:
    return _Curve(title, "counters", lambda one: one.counters, y, y_scale)


_CURVES = (
    _Curve(
        "seconds of each stage: in proportion to its work, a straight line",
        "changes, entries or totals handled",
        lambda one: one.figures.get("work"),
        lambda one: one.figures.get("s"),
    ),
    _by_counters("CPU µs of each change, entry or total", lambda one: one.per_work("CPU s", 1e6)),
    _by_counters("write units of each", lambda one: one.per_work("write units")),
    _by_counters("read units of each", lambda one: one.per_work("read units")),
    _by_counters("MB of the client", lambda one: one.figures.get("MB"), "linear"),
)


def _curves(
    stages: Sequence[_Stage],
) -> list[tuple[_Curve, Mapping[str, Sequence[tuple[float, float]]]]]:
    """Return the curves of the ladder of which anything is known, each with its lines."""
    return [(curve, series) for curve in _CURVES if (series := curve.series(stages))]
