"""`lab pipeline-demo`: inject every kind of fault, and compare the totals with expected ones."""

import math
from contextlib import ExitStack

import anyio

from lab.pipeline_demo.ladder import climb
from lab.pipeline_demo.model import MEASURED
from lab.pipeline_demo.model_report import model_report
from lab.pipeline_demo.options import PipelineDemoOptions
from lab.pipeline_demo.page import serve_page
from lab.pipeline_demo.report import PipelineDemoReport
from lab.pipeline_demo.run import PipelineDemoRun
from ledger.core.errors import InvalidInput
from ledger.demo.harness.display import run_shown
from ledger.demo.harness.report import ReportFiles, finish
from ledger.runtime.clock import SystemClock, blocking_sleep
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import new_console, print_line

LINGER_SECONDS = 3.0
"""How long the page is served after the end, so that browsers can load the result."""

app = new_app()


@app.command()
@spread_options
def demo(options: PipelineDemoOptions) -> None:
    """Send corrected messages through the pipeline with faults injected, and verify its totals.

    Starts a global table on this machine, and a process for each lane of each region. Messages are
    versions of trades; some are duplicated, delayed, malformed, or sent through another region. In
    each stage some requests are lost, lose their answer, are delayed, or crash the worker before,
    during or after them. The home region is cut off for a while. At the end every category must
    have its expected total in every region; these are computed independently. Exits with 1 if a
    total is wrong.

    "Of one core" divides by the CPU time of the lanes' processes alone. Latency is measured from
    the append to a lane's file until the lane's region shows the message in its totals; without a
    rate the lanes are kept --lead messages ahead, so most of it is waiting. At a rate (--rate,
    --ladder) messages are sent by the clock, however far the lanes are, and the latency is from
    when a message was due. --csv and --picture have throughput and latency over time. With one
    region and the engine dynoxide, the lanes use the engine directly.

    --model runs nothing: from measured runs it computes the processes, shards, units and dollars
    of a rate, for as many regions as --regions says, and what a trial of --messages at that rate
    costs by the shipped templates.

    More options: --lead, --seconds (of each run of a ladder), --batch, --no-failures, --lambda
    (events to the Lambda function), --mutant (no-version, no-hash, no-token), --processes,
    --trades-max, --seed, --lag and --jitter of replication, --json.
    """
    files = ReportFiles.checked(options)
    console = new_console()
    if options.model:
        if not math.isfinite(options.model):
            raise InvalidInput(f"--model {options.model}: messages a second are a number")
        computed = model_report(
            options.model, MEASURED, regions=options.regions, messages=options.messages
        )
        finish(computed, console, files)
        return
    with ExitStack() as stack:
        publish = None
        if options.page is not None:
            shown = stack.enter_context(serve_page(options.page))
            publish = shown.publish
            print_line(f"totals on {shown.url}", console)

        def run_one(chosen: PipelineDemoOptions) -> PipelineDemoReport:
            run = PipelineDemoRun(chosen, clock=SystemClock())
            run.publish = publish or run.publish
            return anyio.run(run_shown, run.run, console, run.progress.view)

        is_one = not (options.ladder or options.beside)
        report = run_one(options) if is_one else climb(options, run_one)
        if options.page is not None:
            blocking_sleep(LINGER_SECONDS)
    finish(report, console, files)
