"""Plots that pictures of several reports have: bars, and lines through points."""

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.demo.harness.picture import INK, finish_axis


def draw_bars(
    axis: Any,
    title: str,
    names: Sequence[str],
    values: Sequence[float],
    *,
    colours: Sequence[str],
    labels: Sequence[str],
) -> None:
    """Draw a labelled bar for each name, the first on top."""
    bars = axis.barh(names, values, color=colours)
    axis.bar_label(bars, labels=labels, padding=3, fontsize=8, color=INK)
    axis.invert_yaxis()
    axis.margins(x=0.25)
    finish_axis(axis, title)


def draw_lines(
    axis: Any,
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x_name: str,
    x_scale: str = "log",
    y_scale: str = "log",
    order: Sequence[str] = (),
) -> None:
    """Draw a named line through the points of each series.

    Names in `order` have the same colour in every picture with that order.
    """
    for name, points in series.items():
        colour = f"C{order.index(name)}" if name in order else None
        axis.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name, color=colour)
    axis.set(xscale=x_scale, yscale=y_scale, xlabel=x_name)
    axis.legend(fontsize=7, frameon=False)
    finish_axis(axis, title)
