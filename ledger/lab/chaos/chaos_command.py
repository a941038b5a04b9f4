"""`ledger chaos`: inject faults into a local global table, and verify every read."""

import anyio
from rich.console import Console

from ledger.lab.chaos.report import ChaosOptions, schedule_line
from ledger.lab.chaos.run import ChaosRun
from ledger.lab.harness.display import run_shown
from ledger.lab.harness.options import command
from ledger.lab.harness.report import ReportFiles, finish
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import new_app

app = new_app()


@app.command()
@command(ChaosOptions)
def chaos(options: ChaosOptions) -> None:
    """Inject faults into a local global table and verify every read.

    Writers, readers and compactors are real processes on a real engine. By schedule they are killed
    and suspended, regions are cut off from each other, and requests fail, hang, are slow or lose
    their answers. Every read in every region is checked from outside; at the end all faults stop,
    everything is merged, and the totals must be exact everywhere. Exits with 1 if a promise was
    broken.

    The schedule is a function of the seed alone. How the processes and the engine meet it in real
    time is not: the same seed gives the same faults, not the same run. What replays exactly is
    `python -m ledger.lab.simulator`.
    """
    files = ReportFiles(json_file=options.json_file)
    files.check()
    run = ChaosRun(options, clock=SystemClock())
    console = Console(highlight=False)
    console.print(schedule_line(run.schedule), markup=False)
    report = anyio.run(run_shown, run.run, console, run.progress.view)
    finish(report, console, files)
