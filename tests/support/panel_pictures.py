"""The panels of the dashboard, drawn from what Prometheus answers: a picture for each row.

Grafana lays out and colours otherwise. What this shows is what a panel shows at all: whether its
lines can be told apart, whether its unit fits, whether it is empty.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from support.dashboards import filled
from support.prometheus import Prometheus

from ledger.demo.harness.picture import finish_axis, save_picture

COLUMNS = 24
COLUMN_INCHES, LINE_INCHES = 0.75, 0.4
STEPS = 60
LEGEND_MAX = 12
LEGEND_ROOM = 1.4
"""Of the highest value, so that the legend stands above the lines."""
UNITS = {
    "s": ("s", 1.0), "ops": ("ops/s", 1.0), "opm": ("ops/min", 1.0), "reqps": ("req/s", 1.0),
    "cps": ("counts/s", 1.0), "short": ("", 1.0), "bytes": ("KiB", 1024.0),
    "Bps": ("kB/s", 1000.0), "currencyUSD": ("$", 1.0),
}  # fmt: skip
"""What is written at an axis for each unit of Grafana, and how many of it are one there."""
Line = tuple[str, Sequence[tuple[float, float]]]


def draw_rows(
    board: Mapping[str, Any],
    server: Prometheus,
    folder: Path,
    *,
    start: float,
    end: float,
    interval: str,
) -> list[Path]:
    """Draw each row of the dashboard into a file of the folder; times in seconds since 1970."""
    made = []
    for number, (title, panels) in enumerate(_rows(board)):
        lines = {
            panel["id"]: list(_lines(board, panel, server, start, end, interval))
            for panel in panels
        }
        path = folder / f"{number}-{re.sub('[^a-z]+', '-', title.lower())}.png"
        save_picture(partial(_draw_row, panels=panels, lines=lines, start=start), path)
        made.append(path)
    return made


def _rows(board: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield each row's title and panels."""
    title, panels = "", list[dict[str, Any]]()
    for panel in sorted(
        board["panels"], key=lambda one: (one["gridPos"]["y"], one["gridPos"]["x"])
    ):
        if panel["type"] != "row":
            panels.append(panel)
            continue
        if panels:
            yield title, panels
        title, panels = panel["title"], []
    yield title, panels


def _place(panel: Mapping[str, Any]) -> tuple[int, int]:
    return panel["gridPos"]["y"], panel["gridPos"]["x"]


def _lines(
    board: Mapping[str, Any],
    panel: Mapping[str, Any],
    server: Prometheus,
    start: float,
    end: float,
    interval: str,
) -> Iterator[Line]:
    """Yield a panel's series by the names that its legend gives them."""
    for target in panel["targets"]:
        expression = filled(board, target["expr"], region=".*", interval=interval)
        step = (end - start) / STEPS
        for labels, values in server.range(expression, start=start, end=end, step=step):
            yield _name(target["legendFormat"], labels), values


def _name(form: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


def _draw_row(
    figure: Any,
    panels: Sequence[Mapping[str, Any]],
    lines: Mapping[int, Sequence[Line]],
    start: float,
) -> None:
    places = [panel["gridPos"] for panel in panels]
    top = min(place["y"] for place in places)
    height = max(place["y"] + place["h"] for place in places) - top
    figure.set_size_inches(COLUMNS * COLUMN_INCHES, height * LINE_INCHES)
    grid = figure.add_gridspec(height, COLUMNS)
    for panel, place in zip(panels, places, strict=True):
        y, x = place["y"] - top, place["x"]
        axis = figure.add_subplot(grid[y : y + place["h"], x : x + place["w"]])
        finish_axis(axis, panel["title"])
        found, config = lines[panel["id"]], panel["fieldConfig"]
        apart = {each["matcher"]["options"]: _unit_of(each) for each in config["overrides"]}
        if not found:
            axis.text(0.5, 0.5, "no data", ha="center", va="center")
        elif panel["type"] == "stat":
            _draw_numbers(axis, found, config["defaults"]["unit"])
        else:
            left = [line for line in found if line[0] not in apart]
            _draw_lines(axis, left, config["defaults"]["unit"], start, colour=0)
            for name, unit in apart.items():
                right = [line for line in found if line[0] == name]
                _draw_lines(axis.twinx(), right, unit, start, colour=len(left))


def _unit_of(override: Mapping[str, Any]) -> str:
    """Return the unit of a series that has an axis of its own."""
    found: str = next(one["value"] for one in override["properties"] if one["id"] == "unit")
    return found


def _draw_numbers(axis: Any, lines: Sequence[Line], unit: str) -> None:
    name, size = UNITS[unit]
    text = "\n".join(f"{values[-1][1] / size:.4g} {name} {line}" for line, values in lines)
    axis.set_axis_off()
    axis.text(0.5, 0.5, text, fontsize=12, ha="center", va="center")


def _draw_lines(axis: Any, lines: Sequence[Line], unit: str, start: float, *, colour: int) -> None:
    name, size = UNITS[unit]
    for number, (line, values) in enumerate(lines, colour):
        times = [at - start for at, _ in values]
        axis.plot(
            times, [value / size for _, value in values], f"C{number % 10}", label=line, linewidth=1
        )
    axis.set_ylim(0, axis.get_ylim()[1] * LEGEND_ROOM)
    axis.set_ylabel(name, fontsize=8)
    place = "upper right" if colour else "upper left"
    axis.legend(fontsize=6, frameon=False, loc=place, ncols=1 + len(lines) // LEGEND_MAX)
