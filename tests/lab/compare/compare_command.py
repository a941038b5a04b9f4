"""`lab compare`: run every way of counting, and compare guarantees with measurements."""

from lab.compare.options import CompareOptions
from lab.compare.session import compare as run
from ledger.demo.harness.report import ReportFiles, finish
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console

app = new_app()


@app.command()
@spread_options
def compare(options: CompareOptions) -> None:
    """Compare all ways of counting on one workload, and show which met which need.

    Each method counts the same changes on a local global table while answers are lost, then in all
    regions during a partition, then sells a stock that must not fall below 0. Repeated tokens and
    contention are measured on a model in virtual time. Each guarantee of a method is shown beside
    the figure that checks it. Exits with 1 if a figure contradicts one.

    The seed decides which writes are lost, but not how requests meet on a real engine. With
    `--engine model` everything runs in virtual time and replays exactly.
    """
    files = ReportFiles.checked(options)
    console = new_console()
    with console.status("") as status:
        report = run(options.measured(), on_step=status.update)
    finish(report, console, files)
