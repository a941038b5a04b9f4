"""`ledger pipeline demo`: inject every kind of fault, and compare the totals with expected ones."""

from contextlib import ExitStack

import anyio
from rich.console import Console

from ledger.commands.paging import PagedCommand
from ledger.commands.pipeline.page import serve_page
from ledger.lab.demos.pipeline.options import PipelineDemoOptions
from ledger.lab.demos.pipeline.run import PipelineDemoRun
from ledger.lab.harness.display import run_shown
from ledger.lab.harness.options import command
from ledger.lab.harness.report import ReportFiles, finish
from ledger.runtime.clock import SystemClock, blocking_sleep
from ledger.runtime.command_line import new_app

LINGER_SECONDS = 3.0
"""How long the page is served after the end, so that browsers hear of it."""

app = new_app()


@app.command(cls=PagedCommand)
@command(PipelineDemoOptions)
def demo(options: PipelineDemoOptions) -> None:
    """Send corrected messages through the pipeline with faults injected, and verify its totals.

    A global table runs on this machine. Producers in each region send versions of trades: some
    duplicate, delayed, malformed, or through another region. Each lane is processed by a process of
    its own over the lean transport. Of each stage's requests a share is lost, loses its answer, is
    delayed, or crashes the worker before, after or during it; the home region is cut off for a
    while. Once the regions have healed, every category must have its expected total, which is
    computed independently, in every region. Exits with 1 if one has not.

    Messages a second per core count the CPU time of the pipeline's processes alone: neither that of
    the producers nor of the table. Latency is from the append to a lane's file until the totals of
    the lane's region show it. Without --rate the lanes are kept full, so it is mostly waiting.
    """
    files = ReportFiles(json_file=options.json_file)
    files.check()
    console = Console(highlight=False)
    run = PipelineDemoRun(options, clock=SystemClock())
    with ExitStack() as stack:
        if options.page is not None:
            shown = stack.enter_context(serve_page(options.page))
            run.publish = shown.publish
            console.print(f"totals on {shown.url}")
        report = anyio.run(run_shown, run.run, console, run.progress.view)
        if options.page is not None:
            blocking_sleep(LINGER_SECONDS)
    finish(report, console, files)
