"""`ledger demo`: the ledger beside single-item counters on this machine, and a verdict."""

from ledger.demo.change_sample import load_sample
from ledger.demo.harness.display import run_and_report
from ledger.demo.harness.report import ReportFiles
from ledger.demo.report import DemoOptions
from ledger.demo.run import DemoRun
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
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
    files = ReportFiles.checked(options)
    sample = load_sample(options.input, counter=options.counter, change=options.change)
    run = DemoRun(sample, options, clock=SystemClock())
    say(f"{len(sample.changes):,} changes of {len(sample.expected):,} counters: {sample.name}")
    run_and_report(run, files)
