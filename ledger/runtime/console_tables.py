"""Tables on a terminal and elsewhere, in which no name and no digit is ever cut.

A table that is wider than the terminal is shown row by row, a line for each cell. Without a
terminal, as in a pipe or a file, its lines are as long as its cells need.
"""

import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ledger.runtime.output import printable

PIPED_CHARACTERS_MAX = 10_000
"""The longest line of a table without a terminal: a note can have 400 KB."""
PROSE_CHARACTERS = 16
_GAP_CHARACTERS = 2  # between two columns
_EDGE_CHARACTERS = 3  # both sides of a table

Cell = str | Text


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its cells are never broken, unless they may fold to `least` characters or more."""

    name: str
    _: KW_ONLY
    is_number: bool = False
    least: int | None = None


def number(name: str) -> Column:
    """Return a column of numbers."""
    return Column(name, is_number=True)


def prose(name: str) -> Column:
    """Return a column of text that a terminal may fold."""
    return Column(name, least=PROSE_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Grid:
    """A table to be printed; `str` cells are printed literally, without markup."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    _: KW_ONLY
    title: str = ""
    caption: str = ""
    is_headed: bool = True

    def widths(self, characters: int, *, folds: bool = True) -> list[int] | None:
        """Return the widths of the columns in a table of this width; None if it does not fit.

        If not everything fits and cells may fold, the last column that can fold gets all the room
        left, and each of the others is whole or at its least.
        """
        heads = [cell_len(column.name) if self.is_headed else 0 for column in self.columns]
        whole = [max(head, self._widest(place)) for place, head in enumerate(heads)]
        found = [
            max(head, min(width, column.least)) if folds and column.least else width
            for column, head, width in zip(self.columns, heads, whole, strict=True)
        ]
        gaps = _GAP_CHARACTERS * (len(found) - 1) + _EDGE_CHARACTERS
        room = characters - gaps - sum(found)
        if room < 0:
            return None
        foldable = [place for place, column in enumerate(self.columns) if column.least]
        for place in reversed(foldable):
            more = whole[place] - found[place]
            if more <= room or place == foldable[-1]:
                found[place] += min(more, room)
                room -= min(more, room)
        return found

    def _widest(self, place: int) -> int:
        lines = (line for row in self.rows for line in _text(row[place]).plain.split("\n"))
        return max(map(cell_len, lines), default=0)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end as with any error: rich would exit from within a task."""
        raise BrokenPipeError


def new_console(*, err: bool = False) -> Console:
    """Return a console as wide as the terminal, or else `PIPED_CHARACTERS_MAX` wide.

    It raises BrokenPipeError once the reader is gone.
    """
    stream = sys.stderr if err else sys.stdout
    width = None if stream.isatty() else PIPED_CHARACTERS_MAX
    return _Console(stderr=err, width=width, markup=False, emoji=False, highlight=False)


def print_grid(grid: Grid, console: Console | None = None) -> None:
    """Print a table, or its rows one by one if it does not fit.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    console = console or new_console()
    if grid.title:
        console.print(_text(grid.title))
    widths = grid.widths(console.width, folds=console.width < PIPED_CHARACTERS_MAX)
    if widths and console.width < PIPED_CHARACTERS_MAX:
        console.print(as_table(grid, widths))
    elif widths:
        _print_unpadded(as_table(grid, widths), console)
    else:
        for row in grid.rows:
            if grid.is_headed:
                _print_row(grid.columns, row, console)
            else:
                print_line(Text("  ").join(map(_text, row)), console)
    if grid.caption:
        console.print(_text(grid.caption))


def print_line(line: Cell, console: Console) -> None:
    """Print one line on a console, above its live display; a terminal may wrap it.

    Raises:
        OSError: it cannot be written, as on a full disk.
    """
    console.print(_text(line), soft_wrap=True)


def as_table(grid: Grid, widths: Sequence[int] = ()) -> Table:
    """Return a table without its title; its cells are folded to the widths, else as rich does."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_header=grid.is_headed)
    for place, column in enumerate(grid.columns):
        table.add_column(
            Text(column.name),
            justify="right" if column.is_number else "left",
            width=widths[place] if widths else None,
            overflow="fold",
        )
    for row in grid.rows:
        table.add_row(*map(_text, row))
    return table


def _print_unpadded(table: Table, console: Console) -> None:
    """Print a table whose lines end with their texts, and its rule with the head."""
    with console.capture() as captured:
        console.print(table)
    head = 0
    for line in captured.get().splitlines():
        text = line.rstrip()
        is_rule = bool(text) and not text.strip(f" {box.SIMPLE_HEAD.head_row_horizontal}")
        print_line(text[:head] if is_rule else text, console)
        head = head or len(text)


def _print_row(columns: Sequence[Column], row: Sequence[Cell], console: Console) -> None:
    """Print the cells of a row that are not empty, a line for each, and an empty line."""
    widest = max(cell_len(column.name) for column in columns)
    for column, cell in zip(columns, row, strict=True):
        if text := _text(cell):
            name = column.name + " " * (widest - cell_len(column.name))
            print_line(Text(f"{name}  ").append_text(text), console)
    console.print()


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(printable(cell))
