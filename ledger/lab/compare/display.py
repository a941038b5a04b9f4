"""A comparison as tables on a terminal: figures, and beside them the promise that they show."""

from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ledger.lab.compare.promises import About, Claim, Verdict, claims
from ledger.lab.compare.report import MODEL, MOMENTS, Figures, Options, Point, Repeat, Report

_STYLES: Mapping[Verdict, str] = {"shown": "green", "unseen": "yellow", "broken": "bold red"}
_SIGNS: Mapping[Verdict, str] = {"shown": "", "unseen": " (not seen)", "broken": " (BROKEN)"}
_SOURCES = (
    "Figures marked (model) are of virtual time and replay from the seed {seed}; the others come"
    " from a local global table of {regions} regions, {engine}, and from this machine."
)
_PROMISE_CHARACTERS = 13
_Cells = Callable[[Figures], Sequence[str]]


def show(report: Report, console: Console) -> None:
    """Print everything."""
    where = _where(report.options)
    tables = (
        _accuracy(report, where),
        _prices(report, where),
        _repeats(report),
        _apart(report, where),
        _sales(report, where),
        _curves(report),
    )
    options = report.options
    told = _SOURCES.format(seed=options.seed, regions=options.regions, engine=options.engine)
    if options.engine != MODEL:
        console.print(Text(told, style="italic"))
    for table in tables:
        console.print(table)
    advice = Group(*(Text(f"- {line}") for line in report.advice))
    console.print(Panel(advice, title="advice, drawn from these figures", title_align="left"))


def _where(options: Options) -> str:
    return MODEL if options.engine == MODEL else f"local table, {options.engine}"


def _accuracy(report: Report, where: str) -> Table:
    options = report.options
    title = (
        f"1. One region: {options.changes:,} changes of +1 by {options.writers} writers at once;"
        f" {options.lost:.0%} of the writes get no answer ({where})"
    )
    caption = (
        "Of the writes without an answer half are applied. True: without what was rejected."
        " Untold: error that no caller was told of."
    )
    names = ("true", "kept", "error", "untold", "unknown", "rejected")

    def cells(one: Figures) -> Sequence[str]:
        its = one.counted
        told = (its.untold, its.unknown, its.rejected + its.refused)
        return f"{its.true_value:,}", f"{its.value:,}", _signed(its.error), *map(_count, told)

    return _table(report, title, names, cells, ("unknown", "after lost answers"), caption)


def _prices(report: Report, where: str) -> Table:
    title = f"2. What these changes took ({where})"
    clock = "the model's" if report.options.engine == MODEL else "this machine's, just now"
    caption = (
        "Units a change: written / read, in one region; each further region writes as many again."
        f" Alone: by a lone writer with nothing wrong (model). Milliseconds are {clock}."
    )
    names = ("repeated", "units", "p50 ms", "p99 ms", "alone")

    def cells(one: Figures) -> Sequence[str]:
        its = one.counted
        units = f"{one.price:.2f} / {its.read_units / its.changes:.2f}"
        times = (f"{its.p50_milliseconds:,.1f}", f"{its.p99_milliseconds:,.0f}")
        alone = f"{one.alone.write_units:g} / {one.alone.read_units:g}"
        return f"{its.repeated:.0%}", units, *times, alone

    return _table(report, title, names, cells, ("cost", "promised alone"), caption)


def _repeats(report: Report) -> Table:
    title = f"3. The same token again: how often the change counts ({MODEL})"
    caption = "Away: in another region, once all has replicated. Refused: counted once."

    def cells(one: Figures) -> Sequence[str]:
        return [_times(one.repeats[moment]) for moment in MOMENTS]

    return _table(report, title, MOMENTS, cells, ("tokens", "a token is known"), caption)


def _apart(report: Report, where: str) -> Table:
    title = f"4. Every region writes while all are cut off; then they heal ({where})"
    regions = list(report.figures[0].apart.values) if report.figures else []
    names = ("true", *regions, "lost")

    def cells(one: Figures) -> Sequence[str]:
        its = one.apart
        kept = [f"{its.values[region]:,}" for region in regions]
        return f"{its.applied:,}", *kept, _count(its.lost)

    return _table(report, title, names, cells, ("regions", "more regions"))


def _sales(report: Report, where: str) -> Table:
    sales = [one.sold for one in report.figures[:1]]
    what = "".join(f"{one.stock:,} pieces, {one.buyers:,} buyers" for one in sales)
    title = f"5. A stock with a minimum of 0: {what} ({where})"
    caption = (
        "Sold: buyers told so. Over: sold, but not there. Unsold: although buyers were sent away."
        " Apart: sold in regions that are cut off, each with as many buyers."
    )
    names = ("sold", "unknown", "over", "unsold", "apart", "over")

    def cells(one: Figures) -> Sequence[str]:
        here, apart = one.sold, one.sold_apart
        counts = map(_count, (here.unknown, here.oversold, here.turned_away))
        return f"{here.sold:,}", *counts, f"{apart.sold:,}", _count(apart.oversold)

    return _table(report, title, names, cells, ("thresholds", "limit in one region"), caption)


def _curves(report: Report) -> Table:
    title = f"6. Writers at one counter: useful changes a second, writes repeated ({MODEL})"
    table = _empty(title)
    table.add_column("writers", justify="right")
    rows: dict[int, list[str]] = {}
    for method, points in report.curves.items():
        table.add_column(method.replace("-", "-\n"), justify="right")
        for point in points:
            rows.setdefault(point.writers, []).append(_point(point))
    for writers, cells in rows.items():
        table.add_row(f"{writers}", *cells)
    return table


def _table(
    report: Report,
    title: str,
    names: Sequence[str],
    cells: _Cells,
    promise: tuple[About, str],
    caption: str | None = None,
) -> Table:
    """Return a table with a row for each method, and what it promises in the last column."""
    about, heading = promise
    table = _empty(title, caption)
    table.add_column("method", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(heading, min_width=_PROMISE_CHARACTERS)
    for one in report.figures:
        claim = claims(one, report.options)[about]
        table.add_row(one.method, *map(escape, cells(one)), _promise(claim))
    return table


def _empty(title: str, caption: str | None = None) -> Table:
    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        padding=(0, 1, 0, 0),
    )


def _promise(claim: Claim) -> Text:
    return Text(claim.text + _SIGNS[claim.verdict], style=_STYLES[claim.verdict])


def _times(repeat: Repeat) -> str:
    is_once = repeat == Repeat(1, refused=True)
    return "refused" if is_once else f"{repeat.times}{', refused' * repeat.refused}"


def _point(point: Point) -> str:
    return f"{point.useful_per_second:,.0f} {point.repeated:4.0%}"


def _signed(number: int) -> str:
    return f"{number:+,}" if number else "0"


def _count(number: int) -> str:
    return f"{number:,}" if number else "-"
