"""`lab bench`: measure cases beside their baselines."""

from dataclasses import replace

import anyio

from lab.bench.cases import GROUPS, chosen
from lab.bench.earlier import read_reports
from lab.bench.options import BenchOptions
from lab.bench.runner import run_bench
from ledger.core.errors import InvalidInput
from ledger.demo.harness.report import ReportFiles, finish
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console

app = new_app()


@app.command()
@spread_options
def bench(options: BenchOptions) -> None:
    """Measure the ledger's throughput and cost, each case beside its baseline.

    The client runs in a process of its own against a stub of DynamoDB in another, on this machine;
    read the ratios. Every row shows how busy the stub was. --json is written after each round: of a
    run that is interrupted it has what was measured.
    """
    files = ReportFiles.checked(options)
    console = new_console()
    if options.earlier:
        finish(read_reports(options.earlier, options.measured()), console, files)
        return
    asked = chosen(options.cases, full=options.full)
    if not asked:
        words = ", ".join(options.cases or ())
        raise InvalidInput(f"--cases {words!r} fits no case; the groups are {', '.join(GROUPS)}")
    so_far = replace(files, csv_file=None, picture=None)
    with console.status("") as status:
        report = anyio.run(run_bench, asked, options.measured(), status.update, so_far.write)
    finish(report, console, files)
