"""`ledger demo`: the ledger beside single-item counters on this machine, and a verdict."""

import anyio

from ledger.demo.change_sample import load_sample
from ledger.demo.harness.display import run_shown
from ledger.demo.harness.report import ReportFiles, finish
from ledger.demo.report import DemoOptions
from ledger.demo.run import DemoRun
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console
from ledger.runtime.output import say

app = new_app()


@app.command()
@spread_options
def demo(options: DemoOptions) -> None:
    """Write real bank changes from three regions, and compare the ledger with single items.

    Starts a global table of three regions on this machine, with replication lag and a temporary
    partition. Writes each change twice: to the ledger, and to a single-item counter with ADD. Reads
    and checks totals in every region while the compactor merges. Exits with 1 if any total of the
    ledger is wrong.
    """
    files = ReportFiles.of(options)
    files.check()
    sample = load_sample(options.input, counter=options.counter, change=options.change)
    run = DemoRun(sample, options, clock=SystemClock())
    console = new_console()
    say(f"{len(sample.changes):,} changes of {len(sample.expected):,} counters: {sample.name}")
    report = anyio.run(lambda: run_shown(run.run, console, run.progress.view))
    finish(report, console, files)
