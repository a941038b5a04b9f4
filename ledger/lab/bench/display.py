"""The report as tables on a terminal."""

from collections.abc import Callable, Mapping

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ledger.lab.bench.report import Curve, Figures, Report, Result

_TITLES = {
    "proof": "the stub endpoint's own limit, bare client",
    "write": "writes",
    "offered": "writes offered at a fixed rate, each batch answered after 5 ms",
    "read": "reads of one collection of 10,000 entries",
    "totals": "totals of many counters; a row's work is one total",
    "engine": "the same writes to dynoxide, which stores them",
    "life": "a change's whole life on a local table of two regions: written, merged, deleted",
}
_WIDE_CHARACTERS = 130
_Column = Callable[[Result, Figures], str]


def _or_nothing(value: float | None, form: str) -> str:
    return "" if value is None else f"{value:{form}}"


_NARROW: Mapping[str, _Column] = {
    "/CPU s": lambda _, its: f"{its.work_per_cpu_second:,.0f}",
    "x CPU": lambda row, _: _or_nothing(row.times_baseline_cpu, ",.1f"),
    "p50 ms": lambda _, its: f"{its.p50_milliseconds:,.1f}",
    "p99 ms": lambda _, its: f"{its.p99_milliseconds:,.1f}",
    "units": lambda _, its: f"{its.units_per_work:,.3f}",
}
_WIDE: Mapping[str, _Column] = {
    "/s": lambda _, its: f"{its.work_per_second:,.0f}",
    "x": lambda row, _: _or_nothing(row.times_baseline, ",.1f"),
    "/CPU s": _NARROW["/CPU s"],
    "x CPU": _NARROW["x CPU"],
    "CPU µs": lambda _, its: f"{its.cpu_microseconds_per_work:,.1f}",
    "p50 ms": lambda _, its: f"{its.p50_milliseconds:,.2f}",
    "p99 ms": lambda _, its: f"{its.p99_milliseconds:,.2f}",
    "units": _NARROW["units"],
    "MB more": lambda _, its: f"{its.memory_megabytes:,.0f}",
    "stub busy": lambda _, its: f"{its.stub_share:.0%}",
    "stub could": lambda row, _: _or_nothing(row.stub_limit_times, ",.1f"),
}


def show(report: Report, console: Console) -> None:
    """Print everything."""
    groups = dict.fromkeys(result.group for result in report.results)
    for group in groups:
        rows = [result for result in report.results if result.group == group]
        console.print(_table(_TITLES.get(group, group), rows, width=console.width))
        if any(row.stands_for_many and row.figures for row in rows):
            console.print(Text(report.note, style="italic"))
    for curve in report.curves:
        console.print(_curve_table(curve))
    if report.overload is not None:
        console.print(_overload(report))


def _table(title: str, rows: list[Result], *, width: int) -> Table:
    columns = _WIDE if width >= _WIDE_CHARACTERS else _NARROW
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("case", overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row.figures is None:
            why = row.failed or f"skipped: {row.skipped}"
            table.add_row(f"{escape(row.name)}: {escape(why)}")
        else:
            doubt = "" if row.is_trustworthy else " (the stub was too busy)"
            name = escape(row.name) + doubt
            table.add_row(name, *(text(row, row.figures) for text in columns.values()))
    return table


def _curve_table(curve: Curve) -> RenderableType:
    table = Table(title=curve.name, box=box.SIMPLE_HEAD, title_justify="left")
    names = list(dict.fromkeys(name for point in curve.points for name in point.figures))
    table.add_column(curve.x_name, justify="right")
    for name in names:
        table.add_column(name, justify="right")
    for point in curve.points:
        cells = [_number(point.figures.get(name)) for name in names]
        table.add_row(f"{point.x:,.0f}", *cells)
    return table if curve.failed is None else Group(table, Text(curve.failed, style="red"))


def _overload(report: Report) -> RenderableType:
    found = report.overload
    assert found is not None  # noqa: S101 (the caller has looked)
    lines = [f"overload for {found.seconds:,.0f} s: {found.work:,} changes acknowledged"]
    lines += [f"  {name}: {_number(value)}" for name, value in found.extra.items()]
    return Group(*map(Text, lines))


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:,.3f}"  # noqa: PLR2004
