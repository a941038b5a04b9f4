"""`ledger chaos`: everything goes wrong on real engines, and every read is judged."""

import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console

from ledger.commands.live import with_display
from ledger.lab.chaos.display import conclusion, line, panel, plan_line, report_table
from ledger.lab.chaos.run import Chaos
from ledger.lab.chaos.state import Options, Report
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import FAILED, INTERRUPTED, new_app
from ledger.runtime.signals import STOP_SIGNALS, stopped_by_signals

app = new_app()


@app.command()
def chaos(
    *,
    seed: Annotated[int, typer.Option(help="Of the plan: what goes wrong, and when.")] = 1,
    minutes: Annotated[float, typer.Option(min=0.05, help="How long all goes wrong.")] = 1.0,
    engine: Annotated[
        str, typer.Option(help="Of the local global table: memory, dynoxide.")
    ] = "memory",
    compactors: Annotated[int, typer.Option(min=1, max=8, help="Compactor processes.")] = 2,
    lag: Annotated[float, typer.Option(min=0, help="Least replication lag, seconds.")] = 0.05,
    jitter: Annotated[float, typer.Option(min=0, help="Up to this much more, seconds.")] = 0.3,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the report to this file, too.")
    ] = None,
) -> None:
    """Inject faults into a local global table and verify every read.

    Writers, readers and compactors are real processes on a real engine. By plan they are killed
    and stopped, regions are cut off from each other, and requests fail, hang, are slow or lose
    their answers. Every read in every region is judged from outside; at the end all heals, is
    merged to rest, and must be exact everywhere. Exits with 1 if a promise was broken.

    The plan is a function of the seed alone. How the processes and the engine meet it in real time
    is not: the same seed again is the same weather, not the same run. What replays exactly is
    `python -m ledger.lab.simulator`.
    """
    options = Options(seed, minutes * 60, engine, compactors, lag, jitter)
    run = Chaos(options, clock=SystemClock())
    console = Console(highlight=False)
    console.print(plan_line(run.plan), markup=False)
    report = anyio.run(_with_display, run, console)
    console.print(report_table(report))
    for text in conclusion(report):
        console.print(text, soft_wrap=True)
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    if report.verdict != "held":
        raise typer.Exit(FAILED if report.is_wrong else INTERRUPTED)


async def _with_display(run: Chaos, console: Console) -> Report:
    """Run under a live panel; a signal ends it with the report of what was checked so far."""
    return await with_display(
        lambda: _stoppable(run.run),
        console,
        panel=lambda: panel(run.progress),
        line=lambda: line(run.progress),
    )


async def _stoppable(work: Callable[[anyio.Event], Awaitable[Report]]) -> Report:
    stop = anyio.Event()
    async with stopped_by_signals(lambda _: stop.set(), watched=(*STOP_SIGNALS, signal.SIGHUP)):
        return await work(stop)
