"""Tables: whole where they fit, row by row where not, and as wide as they need in a pipe."""

import io

import pytest
from rich.console import Console

from ledger.runtime.console_tables import Column, Grid, number, print_grid, prose

GRID = Grid(
    (Column("counter"), number("total"), prose("note")),
    [("customer-balance-eur", "98765432109876.54", "a refund " * 9), ("a[b]", "-1", "")],
    title="all of them",
)


def shown(grid: Grid, width: int) -> list[str]:
    """Return the lines of a table on a terminal of a width."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_grid(grid, console)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_prose_folds_before_a_table_stands_upright() -> None:
    """At 80 columns a long note takes lines of its own; names and amounts stay in one piece."""
    lines = shown(GRID, 80)
    assert max(map(len, lines)) <= 80
    assert [line.split()[:2] for line in lines if "customer" in line] == [
        ["customer-balance-eur", "98765432109876.54"]
    ]
    assert " ".join(lines).count("refund") == 9


def test_a_narrow_terminal_shows_row_by_row() -> None:
    """At 40 columns each cell has a line; cells without text have none."""
    lines = shown(GRID, 40)
    assert lines[:3] == [
        "all of them",
        "counter  customer-balance-eur",
        "total    98765432109876.54",
    ]
    assert lines[4:] == ["", "counter  a[b]", "total    -1", ""]


def test_facts_without_a_head_keep_their_line() -> None:
    """A list of facts that does not fit has a line for each, which the terminal wraps."""
    facts = Grid((prose("name"), Column("value")), [("sum", "9" * 30)], is_headed=False)
    assert shown(facts, 20) == [f"sum  {'9' * 30}"]


def test_without_a_terminal_a_line_is_as_long_as_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into a pipe a row is one line, whatever COLUMNS says; one of 10,000 characters is upright."""
    monkeypatch.setenv("COLUMNS", "20")
    print_grid(GRID)
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "customer" in line]
    assert row.split()[:2] == ["customer-balance-eur", "98765432109876.54"]
    assert row.count("refund") == 9
    print_grid(Grid((Column("counter"), prose("note")), [("a", "n" * 10_000)]))
    assert capsys.readouterr().out == f"counter  a\nnote     {'n' * 10_000}\n\n"


def test_without_a_terminal_no_line_is_padded(capsys: pytest.CaptureFixture[str]) -> None:
    """To the widest cell: the rule ends with the head."""
    columns = (Column("check"), prose("what"))
    print_grid(Grid(columns, [["a", "short"], ["b", "long " * 60 + "end\nto do"]]))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    head, rule, short = [line for line in lines if line][:3]
    assert (len(rule), short) == (len(head), " a      short")


def test_cells_cannot_act_on_the_terminal() -> None:
    """Escapes in a note are shown, and take part in the width."""
    grid = Grid((Column("counter"), prose("note")), [("a", "\x1b[2Kpaid\u202e")])
    assert r"\x1b[2Kpaid\u202e" in "".join(shown(grid, 80))
