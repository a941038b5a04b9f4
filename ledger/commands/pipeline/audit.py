"""`ledger pipeline audit` and `mend`: compare totals with states, and repair the totals."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import typer

from ledger.commands.options import PipelineOptions
from ledger.contract.open_regions import open_table
from ledger.core import amounts
from ledger.core.durations import spoken
from ledger.core.errors import InvalidInput
from ledger.pipeline.auditing.audit import Audit, LaneReport, Report
from ledger.pipeline.auditing.mend import Mend
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_options import spread_options
from ledger.runtime.loops import run_on_loop
from ledger.runtime.output import print_json, say
from ledger.runtime.services import Services
from ledger.settings import Settings

Made = TypeVar("Made")
Result = TypeVar("Result")


@spread_options
def audit(common: PipelineOptions) -> None:
    """Compare the totals of a pipeline with its records' states, at one moment, while lanes run.

    Reads every region's table once. Names each category that differs, and each lane that holds
    something back. Exits with 1 if a category differs; `ledger pipeline mend` then writes the
    difference. An interrupted audit is continued by the same command.
    """
    report = run_task(common.settings(), Audit, Audit.run)
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
        written = run_task(settings, Mend, Mend.run_totals)
        if common.as_json:
            print_json([{"written": written}])
            return
        for category, change in written.items():
            say(f"{category}: {amounts.to_text(change)} written")
        say(f"{len(written):,} totals mended")
        return
    done = run_task(settings, Mend, Mend.run_lane, lane=lane, closes=close)
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


def run_task(
    settings: Settings,
    task: Callable[..., Made],
    run: Callable[[Made], Coroutine[Any, Any, Result]],
    **more: Any,
) -> Result:
    """Run a task on all regions of the pipeline; its progress goes to standard error."""

    async def work() -> Result:
        async with open_table(settings, clock=SystemClock()) as table:
            made = task(table.stores, table.view, services=Services.of(), on_progress=_show, **more)
            return await run(made)

    return run_on_loop(work())


def _show(line: str) -> None:
    say(line, err=True)
