"""`ledger pipeline audit` and `mend`: compare totals with states, and repair the totals."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Annotated

import typer

from ledger.commands.options import PipelineOptions
from ledger.contract.open_regions import OpenTable, open_table
from ledger.core import amounts
from ledger.core.durations import spoken
from ledger.core.errors import InvalidInput
from ledger.pipeline.auditing.audit import Audit, LaneReport, Report
from ledger.pipeline.auditing.mend import Mend, Mended
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_options import spread_options
from ledger.runtime.loops import run_on_loop
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.settings import Settings


@spread_options
def audit(common: PipelineOptions) -> None:
    """Compare the totals of a pipeline with its records' states, at one moment, while lanes run.

    Reads every region's table once. Names each category that differs, and each lane that holds
    something back. Exits with 1 if a category differs; `ledger pipeline mend` then writes the
    difference. An interrupted audit is continued by the same command.
    """
    report = run_on_loop(_audit(common.settings()))
    if common.as_json:
        print_json([report])
    else:
        for line in audit_lines(report):
            say(line)
    if report.differences:
        raise typer.Exit(1)


@spread_options
def mend(
    lane: Annotated[
        str | None,
        typer.Argument(help="A lane, by REGION/NAME or, of the home region, by its name."),
    ] = None,
    *,
    close: Annotated[
        bool, typer.Option("--close", help="Close the lane for good: no worker continues it.")
    ] = False,
    common: PipelineOptions,
) -> None:
    """Write the differences that the last audit found, or commit what a lane left open.

    Without LANE each difference becomes an entry whose note names the audit, once. With LANE, whose
    workers must have stopped, what is in states and not in totals is committed; then it
    may be continued under any settings, or, with --close, never again.
    """
    if close and lane is None:
        raise InvalidInput(
            "--close requires LANE: REGION/NAME, as `ledger pipeline audit` shows it"
        )
    settings = common.settings()
    if lane is not None and lane.partition("/")[0] not in settings.regions:
        lane = f"{settings.home}/{lane}"
    if lane is None:
        written = run_on_loop(_mend_totals(settings))
        if common.as_json:
            print_json([{"written": written}])
            return
        for category, change in written.items():
            say(f"{category}: {amounts.to_text(change)} written")
        say(f"{len(written):,} totals mended")
        return
    done = run_on_loop(_mend_lane(settings, lane, closes=close))
    if common.as_json:
        print_json(
            [{"lane": lane, "records": done.records, "closed": close, "changes": done.changes}]
        )
        return
    for category, change in done.changes.items():
        say(f"{category}: {amounts.to_text(change)}")
    end = "closed" if close else "free to continue"
    say(f"lane {lane}: {done.records:,} records committed, {end}")


def audit_lines(report: Report) -> list[str]:
    """Return the findings of an audit, line by line."""
    lines = [
        f"{difference.category}: total {amounts.to_text(difference.total)}, states say"
        f" {amounts.to_text(difference.truth)} ({amounts.to_text(difference.change)} missing)"
        for difference in report.differences
    ]
    lines += [_lane_line(lane) for lane in report.lanes.values() if lane.records or lane.is_open]
    found = f"{len(report.differences):,} differ" if report.differences else "all exact"
    gone = f" and {report.forgotten:,} forgotten" if report.forgotten else ""
    counted = f"{report.records:,} records{gone}, {report.categories:,} categories"
    return [*lines, f"audit {report.number}: {counted}, {found}"]


def _lane_line(lane: LaneReport) -> str:
    kind = "closed" if lane.is_closed else "open" if lane.is_open else "at rest"
    held = f", holds back {lane.records:,} records from {lane.first}" if lane.records else ""
    at = lane.position.lstrip("0") or "its beginning"
    since = (
        "" if lane.held_seconds is None else f", last written {spoken(lane.held_seconds)} before"
    )
    return f"lane {lane.lane} ({kind}) at {at}{held}{since}"


def _show_progress(line: str) -> None:
    say(line, err=True)


async def _audit(settings: Settings) -> Report:
    async with _opened(settings) as table:
        return await Audit(
            table.stores,
            table.view,
            services=Services.of(),
            on_progress=_show_progress,
        ).run()


async def _mend_totals(settings: Settings) -> Mapping[str, Decimal]:
    async with _opened(settings) as table:
        return await Mend(
            table.stores,
            table.view,
            services=Services.of(),
            on_progress=_show_progress,
        ).run_totals()


async def _mend_lane(settings: Settings, lane: str, *, closes: bool) -> Mended:
    async with _opened(settings) as table:
        return await Mend(
            table.stores,
            table.view,
            services=Services.of(),
            lane=lane,
            closes=closes,
            on_progress=_show_progress,
        ).run_lane()


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[OpenTable]:
    async with open_table(settings, clock=SystemClock()) as table:
        yield table
