"""The display of a lane's progress: a panel on a terminal, otherwise a line; and the summary."""

from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column, Table

from ledger.pipeline.progress import Figures, LaneProgress, StreamProgress

BAR_CHARACTERS = 50


def panel(progress: LaneProgress | StreamProgress) -> Panel:
    """Return the live panel."""
    table = Table(Column(overflow="fold"), Column(overflow="fold"), box=None, show_header=False)
    table.add_row("in the totals", _reached(progress))
    for name, value in _named(progress.figures()):
        table.add_row(name, f"{value:,}")
    if isinstance(progress, StreamProgress):
        return Panel(table, title="ledger pipeline", expand=False)
    there = max(1, progress.bytes_there())
    bar = ProgressBar(total=there, completed=progress.bytes_counted, width=BAR_CHARACTERS)
    return Panel(Group(bar, table), title="ledger pipeline", expand=False)


def line(progress: LaneProgress | StreamProgress) -> str:
    """Return the same as a plain line."""
    done = progress.figures()
    return (
        f"{_reached(progress)} in the totals;"
        f" {done.records:,} records read, {done.additions:,} additions to totals"
    )


def _reached(progress: LaneProgress | StreamProgress) -> str:
    if isinstance(progress, StreamProgress):
        return f"{len(progress.lanes):,} lanes"
    return f"{progress.bytes_counted:,} of {progress.bytes_there():,} bytes"


def summary(done: Figures) -> str:
    """Return the line that summarizes a run."""
    return "; ".join(f"{value:,} {name}" for name, value in _named(done))


def _named(done: Figures) -> list[tuple[str, int]]:
    named = [
        ("records in", done.records),
        ("duplicate", done.duplicates),
        ("stale", done.stale),
        ("dead", done.dead),
        ("additions to totals", done.additions),
    ]
    others = [("requests retried", done.retried), ("restarts", done.restarts)]
    return named + [(name, value) for name, value in others if value]
