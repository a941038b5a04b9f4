"""A comparison as a picture: errors, regions, prices, and the curves of contention."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger.lab.bench.picture import check
from ledger.lab.compare.report import Figures, Report

_INK, _RIGHT, _WRONG = "#333333", "#2f6db3", "#c8553d"
_INCHES = (12.0, 11.0)
__all__ = ["check", "draw"]


def draw(report: Report, path: Path) -> None:
    """Draw the report into a file."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (heavy, optional)

    figure = Figure(figsize=_INCHES, layout="constrained")
    axes = figure.subplots(3, 2)
    lossy = f"{report.options.lost:.0%} of the writes without an answer"
    _bars(axes[0, 0], report, f"error in one region, {lossy}", lambda one: one.counted.error)
    _bars(axes[0, 1], report, "changes lost, every region writing", lambda one: one.apart.lost)
    _bars(axes[1, 0], report, "write units a change", lambda one: one.price, is_fault=False)
    _bars(axes[1, 1], report, "oversold, regions cut off", lambda one: one.sold_apart.oversold)
    _lines(axes[2, 0], report, "useful changes a second (model)", "useful_per_second", "log")
    _lines(axes[2, 1], report, "share of writes repeated (model)", "repeated", "linear")
    figure.savefig(path, dpi=120)


def _bars(
    axis: Any,
    report: Report,
    title: str,
    figure: Callable[[Figures], float],
    *,
    is_fault: bool = True,
) -> None:
    """Draw a bar for each method, the first on top; what should be 0 and is not is red."""
    values = [figure(one) for one in report.figures]
    colours = [_WRONG if is_fault and value else _RIGHT for value in values]
    bars = axis.barh([one.method for one in report.figures], values, color=colours)
    labels = [f" {value:,.1f}" if value % 1 else f" {value:,.0f}" for value in values]
    axis.bar_label(bars, labels=labels, fontsize=8, color=_INK)
    axis.invert_yaxis()
    axis.margins(x=0.2)
    _finish(axis, title)


def _lines(axis: Any, report: Report, title: str, figure: str, scale: str) -> None:
    """Draw a figure of every curve over the writers."""
    for method, points in report.curves.items():
        values = [getattr(point, figure) for point in points]
        writers = [point.writers for point in points]
        axis.plot(writers, values, marker="o", markersize=3, label=method)
    axis.set(xscale="log", yscale=scale, xlabel="writers at one counter")
    axis.legend(fontsize=7, frameon=False)
    _finish(axis, title)


def _finish(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=10, loc="left")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
