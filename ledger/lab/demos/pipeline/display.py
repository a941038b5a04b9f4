"""How the pipeline's demo looks: a live panel, a plain line, and the comparison at the end."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ledger.lab.demos.pipeline.options import Options
from ledger.lab.demos.pipeline.report import Outcome, Report
from ledger.lab.demos.pipeline.state import Progress

BAR_CHARACTERS = 60
EXAMPLES_MAX = 5


def panel(progress: Progress) -> Panel:
    """Return the live panel."""
    messages = progress.options.messages
    bar = ProgressBar(total=messages, completed=progress.counted, width=BAR_CHARACTERS)
    lines: list[RenderableType] = [
        Text(progress.phase, style="bold"),
        bar,
        Text(
            f"{progress.sent:,} of {messages:,} sent, {progress.counted:,} in the totals;"
            f" {progress.per_second:,.0f} a second"
        ),
        Text(_latency(progress)),
        _totals(progress),
        Text(progress.cut, style="yellow"),
    ]
    return Panel(Group(*lines), title="ledger pipeline demo", expand=False)


def line(progress: Progress) -> str:
    """Return the same as a plain line."""
    return (
        f"{progress.phase}: {progress.sent:,} of {progress.options.messages:,} sent,"
        f" {progress.counted:,} in the totals, {progress.per_second:,.0f} a second;"
        f" {_latency(progress)}"
    )


def report_table(report: Report) -> Group:
    """Return the comparison at the end, and what was measured."""
    table = Table(box=box.SIMPLE_HEAD, title_justify="left")
    table.title = f"{report.messages:,} messages of {report.options.trade_count:,} trades"
    table.add_column("region")
    for name in ("categories right", "wrong"):
        table.add_column(name, justify="right")
    for one in report.outcomes:
        style = "bold red" if one.wrong else "green"
        table.add_row(one.region, f"{one.right:,}", f"{one.wrong:,}", style=style)
    facts = Table(box=None, show_header=False)
    for fact, value in _facts(report):
        facts.add_row(fact, value)
    return Group(table, facts, *(Text(text, style="red") for text in _examples(report.outcomes)))


def _totals(progress: Progress) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("category")
    table.add_column("true, of all sent", justify="right")
    for name in progress.options.names:
        table.add_column(name, justify="right")
    for category, value in progress.truth.items():
        shown = [progress.shown.get(name, {}).get(category) for name in progress.options.names]
        cells = [Text("") if one is None else _amount(one == value, one) for one in shown]
        table.add_row(category, f"{value:,}", *cells)
    return table


def _amount(is_right: bool, value: object) -> Text:  # noqa: FBT001 (a cell)
    return Text(f"{value:,}", style="green" if is_right else "yellow")


def _latency(progress: Progress) -> str:
    return f"latency {_times(*map(progress.latencies.at, (0.5, 0.99, 1.0)))}"


def _facts(report: Report) -> list[tuple[str, str]]:
    counts = report.counts
    spoiled = ", ".join(
        f"{stage} {spoiled:,} of {asked:,}" for stage, (spoiled, asked) in report.spoiled.items()
    )
    own = f"{report.cpu_seconds:,.1f} s of the pipeline's own {len(report.options.lane_names)}"
    times = (report.p50_seconds, report.p99_seconds, report.worst_seconds)
    left_out = f"{counts['doubled']:,} doubled, {counts['outdated']:,} outdated"
    units = f"{report.write_units / report.messages:.2f} write units a message in one region"
    return [
        ("messages a second", f"{report.per_second:,.0f}, {report.seconds:,.1f} s in all"),
        ("of one core", f"{report.per_core:,.0f} a second ({own} processes)"),
        ("sent to counted", f"{_times(*times)}, {_pace(report.options)}"),
        ("memory of a process", f"up to {report.memory_bytes / 2**20:,.0f} MB"),
        ("records read", f"{counts['records']:,}: {left_out}, {counts['dead']:,} dead"),
        ("dead letters", f"{report.letters:,} of {report.poison:,} broken messages"),
        ("requests gone wrong", spoiled),
        ("requests repeated", f"{counts['retried']:,}"),
        ("lanes begun again", f"{counts['crashes']:,} crashes, {counts['restarts']:,} others"),
        ("written", f"{counts['entries']:,} entries; {units}"),
        ("left on the way", f"{report.waiting:,} map items"),
    ]


def _times(p50: float, p99: float, worst: float) -> str:
    return f"p50 {p50:.2f} s, p99 {p99:.2f} s, worst {worst:.2f} s"


def _pace(options: Options) -> str:
    if options.rate:
        return f"at {options.rate:,g} messages a second"
    return f"as fast as they are taken, {options.lead:,} ahead in each lane"


def _examples(outcomes: Sequence[Outcome]) -> list[str]:
    found = [
        f"{one.region}: {name} shows {shown}, not {true}"
        for one in outcomes
        for name, (shown, true) in one.examples.items()
    ]
    return found[:EXAMPLES_MAX]
