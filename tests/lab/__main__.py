"""`python -m lab`: programs that measure and shake the ledger, from a clone."""

from ledger.runtime.command_line import new_app, run
from ledger.runtime.lazy_commands import LazyCommand, add_lazily

COMMANDS = (
    LazyCommand(
        "compare",
        "lab.compare.compare_command",
        "Compare all ways of counting on one workload, and show which met which need.",
    ),
    LazyCommand(
        "chaos",
        "lab.chaos.chaos_command",
        "Inject faults into a local global table and verify every read.",
    ),
    LazyCommand(
        "soak",
        "lab.soak.soak_command",
        "Load the service while instances, regions and requests fail; verify every answer.",
    ),
    LazyCommand(
        "bench",
        "lab.bench.bench_command",
        "Measure the ledger's throughput and cost, each case beside its baseline.",
    ),
    LazyCommand(
        "budget-day",
        "lab.budget_day.budget_day_command",
        "Run days of demand that moves between four regions, on virtual time.",
    ),
    LazyCommand(
        "pipeline-demo",
        "lab.pipeline_demo.pipeline_demo_command",
        "Send corrected messages through the pipeline with faults injected, and verify its totals.",
    ),
    LazyCommand(
        "produce",
        "lab.pipeline_demo.producer.produce_command",
        "Write records to a stream, a queue, a topic or a file, at a steady rate, to try a"
        " pipeline.",
    ),
)

app = new_app(name="python -m lab", about="Measure the ledger, and shake it.")
add_lazily(app, *COMMANDS)


def main() -> None:
    """Run the command line."""
    run(app)


if __name__ == "__main__":
    main()
