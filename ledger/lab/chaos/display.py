"""How a run looks: a live panel or plain lines, and the report at the end."""

from collections.abc import Mapping
from itertools import groupby

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ledger.lab.chaos.plan import Plan
from ledger.lab.chaos.state import Progress, Report

EVENTS_SHOWN = 8
WRONG_SHOWN_MAX = 5
EVIDENCE_SHOWN_MAX = 60
_VERDICTS = {
    "held": ("every promise held: no wrong total in any region", "bold green"),
    "interrupted": ("interrupted: what was checked so far held", "bold yellow"),
    "unfinished": ("nothing was wrong, but the end could not be checked", "bold red"),
    "broken": ("a promise was broken", "bold red"),
}


def panel(progress: Progress) -> Panel:
    """Return the live panel."""
    wrong = len(progress.wrong)
    table = Table(box=None, show_header=False)
    for name, value in _figures(progress):
        table.add_row(name, value)
    judged = f"reads judged: {sum(progress.reads.values()):,}, wrong: {wrong:,}"
    lines: list[RenderableType] = [
        Text(progress.phase, style="bold"),
        table,
        Text(judged, style="bold red" if wrong else "green"),
        *(Text(event, style="dim") for event in list(progress.events)[-EVENTS_SHOWN:]),
    ]
    return Panel(Group(*lines), title=f"ledger chaos, seed {progress.options.seed}", expand=False)


def line(progress: Progress) -> str:
    """Return the same in a line, where there is no terminal."""
    figures = "; ".join(f"{name}: {value}" for name, value in _figures(progress))
    judged = f"reads judged: {sum(progress.reads.values()):,}, wrong: {len(progress.wrong):,}"
    return f"{progress.phase}; {figures}; {judged}"


def plan_line(plan: Plan) -> str:
    """Say how much is going to go wrong."""
    names = sorted(type(event).__name__.lower() for event in plan.events)
    counts = {name: len(list(group)) for name, group in groupby(names)}
    return f"plan of seed {plan.seed}: {plan.seconds:g} s, {_told(counts)}"


def report_table(report: Report) -> Table:
    """Return the figures at the end."""
    facts = Table(box=box.SIMPLE_HEAD, title=f"chaos on {report.options.engine}", show_header=False)
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    for name, value in _facts(report):
        facts.add_row(name, value)
    return facts


def conclusion(report: Report) -> list[Text]:
    """Return the verdict in lines, after all that is known of the first wrong thing."""
    text, style = _VERDICTS[report.verdict]
    text = f"{text}: {report.obstacle}" if report.verdict == "unfinished" else text
    return [*_complaints(report), Text(text, style=style)]


def _figures(progress: Progress) -> list[tuple[str, str]]:
    return [
        ("elapsed", f"{progress.seconds:.0f} s of {progress.options.seconds:.0f} s and the end"),
        ("changes", _told(progress.changes)),
        ("blows", _told(progress.blows)),
        ("links paused", str(progress.paused)),
        ("faults served", f"{sum(progress.faults.values()):,}"),
        ("merged", f"{progress.merged:,}, entries left: {progress.entries:,}"),
    ]


def _facts(report: Report) -> list[tuple[str, str]]:
    return [
        ("time", f"{report.seconds:.0f} s"),
        ("changes", f"{_told(report.changes)}, in {report.counters:,} counters"),
        ("calls", _told(report.calls)),
        ("repeats", _told(report.repeats)),
        ("reads judged", f"{sum(report.reads.values()):,}: {_told(report.reads)}"),
        ("could not be read", f"{report.unread:,}"),
        ("weather", _told(report.planned)),
        ("faults injected", f"{sum(report.faults.values()):,}: {_told(report.faults)}"),
        ("processes struck", _told(report.blows)),
        ("merged", f"{report.merged:,} entries, under {report.leaders:,} leaders in turn"),
        *(("checked at rest", one) for one in report.checked),
        ("wrong", f"{len(report.wrong):,}"),
    ]


def _complaints(report: Report) -> list[Text]:
    if not report.wrong:
        return []
    first = report.wrong[0]
    lines = [Text(str(one), style="red") for one in report.wrong[:WRONG_SHOWN_MAX]]
    lines += [Text(f"  {one}") for one in first.knew]
    lines += [Text(f"  {one}", style="dim") for one in report.evidence[:EVIDENCE_SHOWN_MAX]]
    again = f"seed {report.options.seed}; the same plan again: {report.options.command}"
    return [*lines, Text(again, style="bold")]


def _told(counts: Mapping[str, int]) -> str:
    return (
        ", ".join(f"{counts[name]:,} {name}" for name in sorted(counts) if counts[name]) or "none"
    )
