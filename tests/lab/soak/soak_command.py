"""`lab soak`: the service under load while instances, regions and requests fail."""

from lab.soak.report import SoakOptions
from ledger.demo.harness.display import run_and_report
from ledger.demo.harness.report import ReportFiles
from ledger.runtime.clock import SystemClock
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.output import needing

app = new_app()


@app.command()
@spread_options
def soak(options: SoakOptions) -> None:
    """Load the service while instances, regions and requests fail; verify every answer.

    Starts a global table of three regions on this machine, two compactors, and instances of
    `ledger serve` in each region, behind a load balancer that asks /readyz. Clients offer calls at
    a fixed rate, whether earlier ones were answered or not, and repeat them under their keys at
    other instances. Instances are killed, suspended and restarted, regions are cut off, requests
    fail, hang or lose their answers; then, with nothing else wrong, all instances are restarted,
    one after another. No acknowledged change may be lost or counted twice, no refused one counted,
    no total wrong, no entry missing in the feed; no request may break off while an instance drains,
    and none fail in a rolling restart, for a client that repeats on 503 and refused connections
    alone. Reports latencies and memory over time. Exits with 1 if a promise is broken.
    """
    files = ReportFiles.checked(options)
    with needing("`lab soak`"):
        from lab.soak.run import SoakRun  # noqa: PLC0415 (httpx is an extra)
        from ledger.http.service import server  # noqa: F401, PLC0415 (so is what instances need)
    run_and_report(SoakRun(options, clock=SystemClock()), files)
