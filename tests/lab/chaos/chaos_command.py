"""`lab chaos`: inject faults into a local global table, and verify every read."""

from lab.chaos.run import ChaosOptions, ChaosRun
from ledger.demo.harness.display import run_and_report
from ledger.demo.harness.report import ReportFiles
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console, print_line

app = new_app()


@app.command()
@spread_options
def chaos(options: ChaosOptions) -> None:
    """Inject faults into a local global table and verify every read.

    Starts a global table of three regions on this machine, a writer process for each region and two
    compactor processes. A schedule kills and suspends processes, cuts regions off, delays
    replication, and makes requests fail, hang, arrive late or lose their answers. Clocks stand
    still or are wrong, settings disagree with the table's contract, operators change it; with
    `--profile lost-home` the home is lost for good. Every read in every region is checked. At the
    end the faults stop, everything is merged, and the totals must be exact in every region. Exits
    with 1 if a promise is broken.

    The same seed gives the same schedule, but not the same run: the timing of processes and engine
    differs. `python -m proof.simulator` has runs that replay exactly.
    """
    files = ReportFiles.checked(options)
    run = ChaosRun(options, clock=SystemClock())
    console = new_console()
    for line in str(run.schedule).splitlines():
        print_line(line, console)
    run_and_report(run, files)
