"""The `ledger` command: the table of its commands, each imported when it is used."""

from ledger.runtime.command_line import new_app, run
from ledger.runtime.lazy_commands import LazyCommand, add_lazily

COMMANDS = (
    LazyCommand(
        "record",
        "ledger.commands.record",
        "Record a change to a counter; it is durable in its region when the command returns.",
    ),
    LazyCommand(
        "total",
        "ledger.commands.total",
        "Show the current totals of counters, or their sums by hour, day or month.",
    ),
    LazyCommand(
        "history",
        "ledger.commands.history",
        "Show a counter's entries in order; merged entries are summed in the first line.",
    ),
    LazyCommand(
        "counters",
        "ledger.commands.counters",
        "List counters by prefix with their merged changes only, from the table's index.",
    ),
    LazyCommand(
        "top",
        "ledger.commands.top",
        "Show the counters of a prefix that came to most, by merged changes only unless --exact.",
    ),
    LazyCommand(
        "describe",
        "ledger.commands.describe",
        "Show what a counter is described by, after setting and removing attributes.",
    ),
    LazyCommand(
        "watch",
        "ledger.commands.watch",
        "Show the watched counters that crossed their bound: where each stands, and how often.",
    ),
    LazyCommand(
        "webhook",
        "ledger.commands.webhook",
        "Deliver webhooks; show how far they came; send again what was not taken.",
    ),
    LazyCommand(
        "reconcile",
        "ledger.commands.reconcile",
        "Correct a total by a physical count, through the home region, once for each count.",
    ),
    LazyCommand(
        "reverse",
        "ledger.commands.reverse",
        "Reverse an entry by the opposite change, through the home region, once.",
    ),
    LazyCommand(
        "import",
        "ledger.commands.imports",
        "Import changes from a file, each exactly once, even if interrupted and repeated.",
    ),
    LazyCommand(
        "lease",
        "ledger.commands.lease",
        "Run a command under a lease; list the leases of a table, show one.",
    ),
    LazyCommand(
        "budget",
        "ledger.commands.budget",
        "Make, show, change and spend from limits that hold across regions.",
    ),
    LazyCommand(
        "book",
        "ledger.commands.book",
        "Make transfers between the accounts of a book, and show their balances.",
    ),
    LazyCommand(
        "serve",
        "ledger.commands.serve",
        "Serve the ledger of one region over HTTP, until SIGTERM.",
    ),
    LazyCommand(
        "token", "ledger.commands.token", "Make, list, rotate and revoke tokens of the service."
    ),
    LazyCommand(
        "doctor",
        "ledger.commands.doctor",
        "Check settings, credentials, table, clock, permissions and more, each line with what to"
        " do.",
    ),
    LazyCommand("table", "ledger.commands.table", "Create, inspect and delete the global table."),
    LazyCommand(
        "verify",
        "ledger.commands.verify",
        "Compare totals, items and nets of all regions; exit with 1 if anything is damaged.",
    ),
    LazyCommand(
        "archive",
        "ledger.commands.archive",
        "Sweep a table's archive, erase notes from it, or rebuild a table from it.",
    ),
    LazyCommand(
        "export",
        "ledger.commands.export",
        "Write the entries of counters, from table and archive, each once, in order.",
    ),
    LazyCommand(
        "init",
        "ledger.commands.init",
        "Write regions.yaml and deploy/ for a new table: templates, policies, alerts, runbooks.",
    ),
    LazyCommand(
        "deploy",
        "ledger.commands.deploy",
        "Write CloudFormation templates and IAM policies for the regions of regions.yaml.",
    ),
    LazyCommand(
        "estimate",
        "ledger.commands.estimate",
        "Estimate units, dollars, shards and processes of a workload, and what gives out first.",
    ),
    LazyCommand(
        "pipeline",
        "ledger.commands.pipeline.run",
        "Process a stream of corrected records into exact totals.",
    ),
    LazyCommand("local", "ledger.commands.local", "Run a DynamoDB global table on this machine."),
    LazyCommand(
        "demo",
        "ledger.demo.demo_command",
        "Write real bank changes from three regions, and compare the ledger with single items.",
    ),
)

app = new_app(
    name="ledger",
    about="Counters and balances that stay exact when many regions write at once.",
    add_completion=True,
)
add_lazily(app, *COMMANDS)


def main() -> None:
    """Run the command."""
    run(app)
