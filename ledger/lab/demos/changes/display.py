"""How the demo looks: a live panel, and the table at the end."""

from decimal import Decimal

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ledger.lab.demos.changes.state import WRONG_SHOWN_MAX, Outcome, Progress, Verdict


def panel(progress: Progress) -> Panel:
    """Return the live panel."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("region")
    for name in ("ledger changes", "single-item ADDs", "entries not merged"):
        table.add_column(name, justify="right")
    for region in progress.regions:
        table.add_row(
            region,
            f"{progress.recorded.get(region, 0):,}",
            f"{progress.added.get(region, 0):,}",
            _known(progress.entries.get(region)),
        )
    merged = progress.compactor.get("compactor_entries_merged_total", 0)
    deleted = progress.compactor.get("compactor_entries_deleted_total", 0)
    folds = progress.compactor.get("compactor_folds_total", 0)
    wrong = len(progress.wrong)
    done = sum(progress.recorded.values())
    total = len(progress.sample.changes)
    lines: list[RenderableType] = [
        Text(progress.phase, style="bold"),
        Text(f"{min(done, total):,} of {total:,} changes written"),
        ProgressBar(total=total, completed=min(done, total), width=60),
        table,
        Text(f"compactor: {folds:,.0f} folds, {merged:,.0f} merged, {deleted:,.0f} deleted"),
        Text(
            f"reads checked: {progress.reads:,}, wrong: {wrong:,}",
            style="green" if not wrong else "bold red",
        ),
        Text(progress.partition, style="yellow"),
    ]
    return Panel(Group(*lines), title="ledger demo", expand=False)


def verdict_table(verdict: Verdict) -> Group:
    """Return the comparison at the end."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=f"{verdict.changes:,} changes from three regions",
        caption="exact: counters with the true sum; lost: changes that vanished silently",
    )
    table.add_column("counted by", no_wrap=True)
    table.add_column("region", no_wrap=True)
    for name in ("sum", "error", "exact", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("truth", "", _money(verdict.truth, verdict), "", f"{verdict.counters:,}", "")
    for name, outcomes in (("ledger", verdict.ledger), ("single item", verdict.single)):
        for one in outcomes:
            table.add_row(name, one.region, *_figures(one, verdict))
    facts = Table(box=None, show_header=False)
    for name, value in _facts(verdict):
        facts.add_row(name, value)
    complaints = [Text(one, style="red") for one in verdict.wrong[:WRONG_SHOWN_MAX]]
    return Group(table, facts, *complaints)


def _figures(one: Outcome, verdict: Verdict) -> tuple[str, str, str, str]:
    error = one.total - verdict.truth
    style = "green" if one.exact == verdict.counters else "red"
    return (
        _money(one.total, verdict),
        f"[{style}]{_money(error, verdict)}[/]",
        f"[{style}]{one.exact:,}[/]",
        f"[{style}]{one.lost:,}[/]",
    )


def _facts(verdict: Verdict) -> list[tuple[str, str]]:
    changes = verdict.changes
    write, merge = verdict.write_units / changes, verdict.merge_units / changes
    single = verdict.single_units / changes
    return [
        ("reads checked", f"{verdict.reads:,}, of which wrong: {len(verdict.wrong):,}"),
        ("ledger items", f"{verdict.items_before:,} written, {verdict.items_after:,} left"),
        ("write units per change", f"{write:.2f} to write, {merge:.2f} to merge and delete"),
        ("", f"(by folds of {verdict.entries_per_fold:.0f} entries on average)"),
        ("", f"({single:.2f} for the single items)"),
        ("read units per change", f"{verdict.merge_read_units / changes:.2f} to merge"),
        ("time", f"{verdict.seconds:.0f} s"),
    ]


def _known(entries: int | None) -> str:
    """Return a count, nothing while it has not been taken yet."""
    return "" if entries is None else f"{entries:,}"


def _money(amount: Decimal, verdict: Verdict) -> str:
    """Return an amount with as many decimals as the truth, or more if it has them."""
    return f"{amount:,.{max(_decimals(amount), _decimals(verdict.truth))}f}"


def _decimals(amount: Decimal) -> int:
    exponent = amount.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0
