"""The `ledger` command: record changes, read totals and histories, and reach all other parts."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Annotated, Any

import anyio
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ledger.commands.deploy import app as deploy_app
from ledger.commands.importing.commands import import_file
from ledger.commands.local import app as local_app
from ledger.commands.pipeline.commands import app as pipeline_app
from ledger.commands.table import app as table_app
from ledger.core import amounts
from ledger.core.errors import InvalidEntry, OutcomeUnknown
from ledger.core.values import Entry
from ledger.lab.bench.commands import bench
from ledger.lab.chaos.commands import chaos
from ledger.lab.compare.commands import compare
from ledger.lab.demos.changes.commands import demo
from ledger.ledger import Ledger
from ledger.runtime.command_line import Config, run
from ledger.settings import Settings
from ledger.totals.history import Bound
from ledger.totals.reader import Total

app = typer.Typer(
    name="ledger",
    help="Counters and balances that stay exact when many regions write at once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(local_app, name="local")
app.add_typer(table_app, name="table")
app.add_typer(deploy_app, name="deploy")
app.add_typer(pipeline_app, name="pipeline")
app.command("import")(import_file)
app.command("demo")(demo)
app.command("bench")(bench)
app.command("chaos")(chaos)
app.command("compare")(compare)

Region = Annotated[
    str | None, typer.Option(help="Region to talk to; else the home region.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
_TIME_CHARACTERS = 28
_WIDE_CHARACTERS = 120


# A negative amount is an argument, not an option.
@app.command(context_settings={"ignore_unknown_options": True})
def record(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    change: Annotated[str, typer.Argument(help="Exact decimal number, such as 3 or -2.50.")],
    *,
    note: Annotated[str | None, typer.Option(help="Free text kept with the change.")] = None,
    effective: Annotated[str | None, typer.Option(help="ISO date the change is for.")] = None,
    key: Annotated[str | None, typer.Option(help="Your own key; needs --at.")] = None,
    at: Annotated[str | None, typer.Option(help="ISO time of the change, with its zone.")] = None,
    region: Region = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Record a change of a counter; it is durable in the region when this returns.

    With --key and --at the same command again changes nothing, in any region, until the retry
    horizon has passed.
    """
    amount, day, moment = amounts.parse(change), _date(effective), _time("--at", at)

    async def call() -> Entry:
        async with Ledger.open(Settings.load(config), region=region) as ledger:
            try:
                return await ledger.record(
                    counter, amount, note=note, effective=day, key=key, at=moment
                )
            except OutcomeUnknown as error:
                raise _told(error, keyed=key is not None) from None

    entry = anyio.run(call)
    if as_json:
        _print_json([_entry_fields(entry)])
    else:
        typer.echo(
            f"{entry.counter}: {amounts.to_text(entry.change)} recorded in {entry.region}"
            f" as {entry.id}"
        )


@app.command()
def total(
    counters: Annotated[list[str], typer.Argument(help="Counter ids.")],
    *,
    region: Region = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="In every region.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show the totals of counters, read now."""
    settings = Settings.load(config)
    regions = list(settings.regions) if everywhere else [region or settings.home]

    async def call() -> list[Total]:
        totals: list[Total] = []
        for one in regions:
            async with Ledger.open(settings, region=one) as ledger:
                found = await ledger.totals(counters, max_age=0)
                totals += [found[counter] for counter in counters]
        return totals

    totals = anyio.run(call)
    if as_json:
        _print_json(map(_total_fields, totals))
    else:
        Console().print(_totals_table(totals))


@app.command()
def history(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    *,
    after: Annotated[str | None, typer.Option(help="ISO time, or an entry's id.")] = None,
    before: Annotated[str | None, typer.Option(help="ISO time, or an entry's id.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Entries shown at most.")] = 1000,
    region: Region = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show a counter's entries in order; merged ones are summed up in the first line."""
    bounds = (_bound("--after", after), _bound("--before", before))

    async def call() -> tuple[Total, list[Entry], bool]:
        async with Ledger.open(Settings.load(config), region=region) as ledger:
            now = await ledger.total(counter, max_age=0)
            entries: list[Entry] = []
            async for entry in ledger.history(counter, after=bounds[0], before=bounds[1]):
                if len(entries) == limit:
                    return now, entries, True
                entries.append(entry)
            return now, entries, False

    now, entries, more = anyio.run(call)
    if as_json:
        _print_json(map(_entry_fields, entries))
        return
    console = Console()
    console.print(f"{counter} in {now.region}: total {amounts.to_text(now.value)}", markup=False)
    if now.merged:
        older = "1 older entry is" if now.merged == 1 else f"{now.merged:,} older entries are"
        console.print(f"{older} merged into the net change", highlight=False)
    console.print(_history_table(entries, console.width))
    if more:
        console.print(f"there are more: go on with --after '{entries[-1].id}'", markup=False)


def _told(error: OutcomeUnknown, *, keyed: bool) -> OutcomeUnknown:
    """Say what to do about a change that may or may not be there, at a command line."""
    entry = error.entries[0]
    advice = (
        "the same command again is safe"
        if keyed
        else f"look for {entry.id} in `ledger history {entry.counter}` before you record it again"
    )
    return OutcomeUnknown(f"{error}; at the command line: {advice}", entries=error.entries)


def _totals_table(totals: Iterable[Total]) -> Table:
    table = Table(box=box.SIMPLE)
    for name in ("counter", "region", "total", "entries", "merged", "as of (UTC)"):
        table.add_column(
            name, justify="right" if name in {"total", "entries", "merged"} else "left"
        )
    for one in totals:
        when = one.as_of.strftime("%H:%M:%S")
        table.add_row(
            escape(one.counter), one.region, amounts.to_text(one.value), f"{one.entries:,}",
            f"{one.merged:,}", when,
        )  # fmt: skip
    return table


def _history_table(entries: Sequence[Entry], width: int) -> Table:
    table = Table(box=box.SIMPLE)
    dated, noted = any(one.effective for one in entries), any(one.note for one in entries)
    combined = any(one.count > 1 for one in entries)
    # In a narrow terminal an id breaks after its time, not anywhere.
    is_narrow = width < _WIDE_CHARACTERS and (dated or noted)
    table.add_column("id", width=_TIME_CHARACTERS if is_narrow else None, overflow="fold")
    table.add_column("change", justify="right", no_wrap=True)
    if combined:
        table.add_column("combined of", justify="right", no_wrap=True)
    table.add_column("region", no_wrap=True)
    for name, is_used in (("effective", dated), ("note", noted)):
        if is_used:
            table.add_column(name, overflow="fold")
    for entry in entries:
        cells = [escape(entry.id), amounts.to_text(entry.change)]
        cells += [f"{entry.count:,}" if entry.count > 1 else ""] if combined else []
        cells += [entry.region or ""]
        cells += [entry.effective.isoformat() if entry.effective else ""] if dated else []
        cells += [escape(entry.note or "")] if noted else []
        table.add_row(*cells)
    return table


def _entry_fields(entry: Entry) -> dict[str, Any]:
    return {
        "counter": entry.counter,
        "id": entry.id,
        "change": amounts.to_text(entry.change),
        "region": entry.region,
        "note": entry.note,
        "effective": entry.effective.isoformat() if entry.effective else None,
        "count": entry.count,
    }


def _total_fields(one: Total) -> dict[str, Any]:
    return {
        "counter": one.counter,
        "value": amounts.to_text(one.value),
        "region": one.region,
        "as_of": one.as_of.isoformat(),
        "entries": one.entries,
        "merged": one.merged,
    }


def _print_json(objects: Iterable[dict[str, Any]]) -> None:
    for one in objects:
        sys.stdout.write(json.dumps(one, ensure_ascii=False) + "\n")


def _date(text: str | None) -> date | None:
    if text is None:
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidEntry(f"--effective {text!r} is no ISO date such as 2026-11-21") from None


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidEntry(f"{option} {text!r} is no ISO time such as 2026-11-21T06:50Z") from None
    if moment.tzinfo is None:
        raise InvalidEntry(f"{option} {text!r} has no zone: end it with Z or +01:00")
    return moment


def _bound(option: str, text: str | None) -> Bound:
    return text if text is None or "#" in text else _time(option, text)


def main() -> None:
    """Run the command."""
    run(app)
