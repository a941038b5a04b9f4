"""`ledger history`: show the entries of a counter."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

import anyio
import typer

from ledger.commands.entries import about_book, entry_fields, legs_text, metadata_text
from ledger.commands.options import iso_time
from ledger.commands.regions import RegionOptions
from ledger.core import amounts
from ledger.core.errors import InvalidInput
from ledger.core.ids import split, suffix_of
from ledger.core.keys import checked_counter
from ledger.core.tokens import one_spelling
from ledger.core.values import Entry
from ledger.reads.history import Bound
from ledger.reads.total import Total
from ledger.runtime.command_line import new_app
from ledger.runtime.command_options import spread_options
from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose
from ledger.runtime.output import print_json, say
from ledger.session.ledger import Ledger, live_settings
from ledger.writes.entry_plan import checked_key

app = new_app()

_TIME_CHARACTERS = 28
_BEGINNING = datetime.min.replace(tzinfo=UTC)
_ALWAYS = ("id", "change", "region")
_COLUMNS: tuple[tuple[Column, Callable[[Entry], str]], ...] = (
    # In a narrow terminal an id breaks after its time, not anywhere.
    (Column("id", least=_TIME_CHARACTERS), lambda entry: entry.id),
    (number("change"), lambda entry: amounts.to_text(entry.change)),
    (number("combined of"), lambda entry: f"{entry.count:,}" if entry.count > 1 else ""),
    (prose("legs"), lambda entry: legs_text(entry.legs)),
    (Column("region"), lambda entry: entry.region or ""),
    (
        Column("effective"),
        lambda entry: entry.effective.isoformat() if entry.effective else "",
    ),
    (prose("note"), lambda entry: entry.note or ""),
    (prose("metadata"), lambda entry: metadata_text(entry.metadata)),
)


@app.command()
@spread_options
def history(
    counter: Annotated[str, typer.Argument(help="Counter id.")],
    *,
    after: Annotated[
        str | None, typer.Option(help="Only entries after this ISO time or entry id.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Only entries before this ISO time or entry id.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="Only entries from this ISO time on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only entries before this ISO time.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Only entries that were recorded under this key.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of entries shown.")] = 1000,
    common: RegionOptions,
) -> None:
    """Show a counter's entries in order; merged entries are summed in the first line.

    If the table has an archive, entries merged since it began are shown, too.
    """
    checked = checked_counter(counter)
    suffix = None if key is None else f"{suffix_of(checked, one_spelling(checked_key(key))):016x}"
    settings, place = common.chosen()
    bounds = (_first(since, after), _last(until, before))

    async def call() -> tuple[Total, list[Entry], bool, bool]:
        async with Ledger.open(settings, region=place) as ledger:
            now = await ledger.total(counter, max_age=0)
            is_archived = bool(live_settings(ledger).current.terms.archive)
            entries: list[Entry] = []
            async for entry in ledger.history(counter, after=bounds[0], before=bounds[1]):
                if suffix is not None and not split(entry.id)[0].endswith(f"#{suffix}"):
                    continue
                if len(entries) == limit:
                    return now, entries, True, is_archived
                entries.append(entry)
            return now, entries, False, is_archived

    now, entries, more, is_archived = anyio.run(call)
    if common.as_json:
        print_json(map(entry_fields, entries))
        return
    if not now.is_known:
        say(f"{counter} in {now.region}: unknown, nothing is recorded of it")
        return
    if now.accounts is None:
        say(f"{counter} in {now.region}: total {amounts.to_text(now.value)}")
    else:
        say(about_book(counter, now.region))
    if now.merged and not is_archived:
        older = "1 older entry is" if now.merged == 1 else f"{now.merged:,} older entries are"
        say(f"{older} merged into the net change")
    print_grid(history_grid(entries))
    if more:
        say(f"more entries follow: continue with --after '{entries[-1].id}'")


def history_grid(entries: Sequence[Entry]) -> Grid:
    """Return entries as a table, with the columns that any of them uses."""
    every = [(column, [cell(entry) for entry in entries]) for column, cell in _COLUMNS]
    used = [(column, cells) for column, cells in every if any(cells) or column.name in _ALWAYS]
    rows = list(zip(*(cells for _, cells in used), strict=True))
    return Grid([column for column, _ in used], rows)


def _first(since: str | None, after: str | None) -> Bound:
    start = iso_time("--since", since)
    if start is None:
        return _bound("--after", after)
    if after is not None:
        raise InvalidInput("--since and --after are both lower bounds: give one of them")
    if start == _BEGINNING:
        return None
    return start - timedelta(microseconds=1)  # bounds are exclusive


def _last(until: str | None, before: str | None) -> Bound:
    if until is not None and before is not None:
        raise InvalidInput("--until and --before are both upper bounds: give one of them")
    return iso_time("--until", until) if until is not None else _bound("--before", before)


def _bound(option: str, text: str | None) -> Bound:
    return text if text is None or "#" in text else iso_time(option, text)
