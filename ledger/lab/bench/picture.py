"""The report as a picture: bars of the cases of each group, and curves."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ledger.core.errors import InvalidInput, LedgerError
from ledger.lab.bench.report import Curve, Report, Result

_KINDS = {".svg", ".png"}
_BARS = {
    "write": "changes a second of one core",
    "read": "entries read a second of one core",
    "totals": "totals a second of one core",
}
_INK, _OURS, _THEIRS = "#333333", "#2f6db3", "#b8b8b8"
_ROW_INCHES, _WIDE_INCHES, _CURVE_INCHES = 0.34, 11.0, 3.2
_CURVE_COLUMNS = 2


def check(path: Path) -> None:
    """See that such a picture can be drawn, before anything is measured.

    Raises:
        InvalidInput: neither .svg nor .png.
        LedgerError: matplotlib is not installed.
    """
    if path.suffix.lower() not in _KINDS:
        raise InvalidInput(f"--picture {path}: end it with {' or '.join(sorted(_KINDS))}")
    if find_spec("matplotlib") is None:
        raise LedgerError("a picture needs matplotlib: pip install 'multi-region-ledger[bench]'")


def draw(report: Report, path: Path) -> None:
    """Draw the report into a file."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (heavy, optional)

    groups = {
        group: cases
        for group in _BARS
        if (cases := [case for case in report.results if case.group == group and case.figures])
    }
    rows = [len(cases) for cases in groups.values()]
    heights = [_ROW_INCHES * row + 0.9 for row in rows]
    heights += [_CURVE_INCHES] * -(-len(report.curves) // _CURVE_COLUMNS)
    figure = Figure(figsize=(_WIDE_INCHES, max(1.0, sum(heights))), layout="constrained")
    grid = figure.add_gridspec(max(1, len(heights)), _CURVE_COLUMNS, height_ratios=heights or [1.0])
    for place, (group, cases) in enumerate(groups.items()):
        _bars(figure.add_subplot(grid[place, :]), _BARS[group], cases)
    for place, curve in enumerate(report.curves):
        row, column = divmod(place, _CURVE_COLUMNS)
        _lines(figure.add_subplot(grid[len(groups) + row, column]), curve)
    if any(case.stands_for_many for cases in groups.values() for case in cases):
        figure.supxlabel(report.note, fontsize=7, color=_INK)
    figure.savefig(path, dpi=120)


def _bars(axis: Any, title: str, rows: list[Result]) -> None:
    """Draw a bar for each case, the first on top, with its ratio beside it."""
    names = [row.name for row in rows]
    values = [row.figures.work_per_cpu_second for row in rows if row.figures]
    baselines = {row.baseline for row in rows}
    colours = [_THEIRS if row.name in baselines else _OURS for row in rows]
    bars = axis.barh(names, values, color=colours)
    times = [f" x {row.times_baseline_cpu:,.1f}" if row.times_baseline_cpu else "" for row in rows]
    labels = [f" {value:,.0f}{ratio}" for value, ratio in zip(values, times, strict=True)]
    axis.bar_label(bars, labels=labels, fontsize=8, color=_INK)
    axis.invert_yaxis()
    axis.margins(x=0.25)
    axis.set_title(title, fontsize=10, loc="left")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def _lines(axis: Any, curve: Curve) -> None:
    """Draw every figure of a curve over its size, both logarithmic."""
    for name in curve.points[0].figures if curve.points else ():
        points = [(point.x, point.figures[name]) for point in curve.points]
        if all(value > 0 for _, value in points):
            axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
    axis.set(xscale="log", yscale="log", xlabel=curve.x_name)
    axis.set_title(curve.name, fontsize=10, loc="left")
    axis.legend(fontsize=7, frameon=False)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
