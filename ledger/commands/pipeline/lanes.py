"""`ledger pipeline status`: how far lanes have come, and how far behind their sources they are.

A lane's progress is a panel on a terminal, otherwise a line; a summary ends it.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import anyio
import typer
from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Column as RichColumn
from rich.table import Table

from ledger.commands.options import PipelineOptions
from ledger.core.durations import spoken
from ledger.pipeline.core.items import lane_id
from ledger.pipeline.core.registry import region_key, task_of
from ledger.pipeline.file_runs import lane_of
from ledger.pipeline.progress import Figures, LaneProgress, StreamProgress
from ledger.pipeline.sources.file_positions import place_of
from ledger.pipeline.sources.files import FileSource
from ledger.pipeline.sources.source import LagUnit
from ledger.pipeline.stages.lanes import Lanes
from ledger.pipeline.stream_runs import open_stream
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid
from ledger.runtime.output import print_json, say
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Get

LaneRegion = Annotated[
    str | None,
    typer.Option(help="Region of the lane.", show_default="the settings' home, or first region"),
]


class LaneRow(NamedTuple):
    """A line of the table."""

    lane: str
    position: str
    size: str
    behind: str
    waiting: int


@spread_options
def status(
    lanes: Annotated[
        list[str],
        typer.Argument(
            help="Files of records; names of lanes; kinesis:// or kafka:// (all its lanes).",
            metavar="LANE",
        ),
    ],
    *,
    region: LaneRegion = None,
    common: PipelineOptions,
) -> None:
    """Show how far each lane has come, how far behind it is, and how many map items wait.

    The backlog is in bytes of a file, in records of a Kafka partition, and in seconds of a Kinesis
    shard, which reports no more. It is unknown for a compressed file, and for a lane given by its
    name. An audit, a rebuild or other work on the whole pipeline that is under way, or was
    interrupted, is named below the table.
    """
    settings = common.settings()
    place = settings.home if region is None else region
    anyio.run(partial(_show, settings, place, lanes, as_json=common.as_json))


async def _show(settings: Settings, region: str, lanes: Sequence[str], *, as_json: bool) -> None:
    headings = ("position", "of bytes", "behind", "map items waiting")
    found: list[LaneRow] = []
    async with open_store(settings, region) as store:
        for given in lanes:
            async with aclosing(_rows(given, store, settings)) as rows:
                found += [row async for row in rows]
        task = task_of(await store.get(Get(region_key(region, settings.pipeline.name))))
    if as_json:
        print_json({**row._asdict(), "task": task} for row in found)
        return
    cells = [
        (row.lane, row.position or "-", row.size, row.behind, f"{row.waiting:,}") for row in found
    ]
    print_grid(Grid((Column("lane"), *map(number, headings)), cells))
    if task:
        say(
            f"`ledger pipeline {task}` is under way in {region}: if no process runs it, run it"
            " again to continue it"
        )


async def _rows(given: str, store: Store, settings: Settings) -> AsyncGenerator[LaneRow, None]:
    """Yield the lines of a file, of a lane by its name, or of a stream's lanes."""
    clock = SystemClock()
    if "://" in given:
        async with open_stream(given, settings, store.region, clock=clock) as stream:
            for part in await stream.parts():
                lanes, waiting = await _read(part.lane, store, settings)
                lag = await stream.lag(part, lanes.position)
                behind = lag_text(stream.lag_unit, lag)
                yield LaneRow(lanes.lane, lanes.position.lstrip("0"), "", behind, waiting)
        return
    file = Path(given)
    if not file.is_file():  # noqa: ASYNC240
        lanes, waiting = await _read(given, store, settings)
        yield LaneRow(lanes.lane, lanes.position.lstrip("0"), "", "", waiting)
        return
    lanes, waiting = await _read(await lane_of(file, store, settings), store, settings)
    source, at = FileSource(file), str(place_of(lanes.position) or "")
    behind = lag_text(source.lag_unit, source.lag_after(lanes.position))
    size = f"{file.stat().st_size:,}"  # noqa: ASYNC240
    yield LaneRow(lanes.lane, at, size, behind, waiting)


async def _read(name: str, store: Store, settings: Settings) -> tuple[Lanes, int]:
    """Return a lane as the table has it, and how many of its map items wait."""
    lane = lane_id(store.region, name)
    lanes = Lanes(lane, store, SystemClock(), pipeline=settings.pipeline.name)
    return lanes, len(await lanes.load())


def lag_text(unit: LagUnit | None, lag: float) -> str:
    """Return the backlog in words; empty if it is unknown."""
    if unit is None:
        return ""
    return spoken(lag) if unit == "seconds" else f"{lag:,.0f} {unit}"


BAR_CHARACTERS = 50


def panel(progress: LaneProgress | StreamProgress) -> Panel:
    """Return the live panel."""
    table = Table(
        RichColumn(overflow="fold"), RichColumn(overflow="fold"), box=None, show_header=False
    )
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
