"""No command cuts a digit of an amount, or a character of a name, at any width."""

import io
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ledger.commands.counters import listed_grid
from ledger.commands.history import history_grid
from ledger.commands.total import periods_grid, totals_grid
from ledger.commands.watch import watches_grid
from ledger.core import amounts
from ledger.core.index import Listed
from ledger.core.values import Entry
from ledger.demo.harness.report import Section, render
from ledger.reads.period_totals import Period, PeriodTotals
from ledger.reads.total import Total
from ledger.runtime.console_tables import PIPED_CHARACTERS_MAX, Grid, print_grid

AT = datetime(2026, 11, 24, 11, 23, tzinfo=UTC)
ENTRY_ID = "2026-11-24T11:23:10.305055Z#5f4892776634b802"
Pair = tuple[str, Decimal]

NAMES = st.text("abcxyz0123456789-/ é金[]", min_size=1, max_size=60).filter(str.strip)
AMOUNTS = st.decimals(allow_nan=False, allow_infinity=False, places=4).filter(
    lambda value: abs(value) < Decimal(10) ** 30
)
PAIRS = st.lists(st.tuples(NAMES.map(str.strip), AMOUNTS), min_size=1, max_size=4)
WIDTHS = st.one_of(st.integers(1, 200), st.just(PIPED_CHARACTERS_MAX))


def _totals(pairs: Sequence[Pair]) -> Grid:
    return totals_grid(
        Total(name, value, AT, "ap-southeast-1", 1, ended=AT) for name, value in pairs
    )


def _history(pairs: Sequence[Pair]) -> Grid:
    return history_grid(
        [
            Entry(counter="a", id=ENTRY_ID, change=value, note=name, region="us-east-1")
            for name, value in pairs
        ]
    )


def _listed(pairs: Sequence[Pair]) -> Grid:
    return listed_grid(
        (
            Listed(
                counter=name, value=value, count=1, as_of=AT, is_exact=False, description={"a": "b"}
            )
            for name, value in pairs
        ),
        "us-east-1",
    )


def _watches(pairs: Sequence[Pair]) -> Grid:
    return watches_grid(
        [
            {
                "watch": "low",
                "counter": name,
                "phase": "armed",
                "crossings": 3,
                "value": amounts.to_text(value),
                "at": None,
            }
            for name, value in pairs
        ],
        "us-east-1",
    )


GRIDS: Sequence[Callable[[Sequence[Pair]], Grid]] = (_totals, _history, _listed, _watches)


def _shown(grid: Grid, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_grid(grid, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@given(make=st.sampled_from(GRIDS), pairs=PAIRS, width=WIDTHS)
def test_names_and_amounts_are_whole(
    make: Callable[[Sequence[Pair]], Grid], pairs: Sequence[Pair], width: int
) -> None:
    """Totals, histories, lists and watches have each amount, and each name, in one piece."""
    out = _shown(make(pairs), width)
    for name, value in pairs:
        assert amounts.to_text(value) in out
        if make is not _history:  # whose names are notes, which fold
            assert name in out
    if make is _history:
        signs = "".join(name for name, _ in pairs)
        assert all(out.count(sign) >= signs.count(sign) for sign in {*signs} - {" "})
        assert ENTRY_ID[:28] in out


@given(values=st.lists(AMOUNTS, min_size=1, max_size=4), width=WIDTHS)
def test_sums_by_period_are_whole(values: Sequence[Decimal], width: int) -> None:
    """`total --by` has each sum in one piece, also beside the remark on what is missing."""
    periods = tuple(Period(AT, AT, value, is_whole=False) for value in values)
    found = PeriodTotals(
        counter="a", region="us-east-1", as_of=AT, by="hour", zone="UTC", effective=False,
        opening=values[0], total=values[-1], periods=periods,
    )  # fmt: skip
    out = _shown(periods_grid(found), width)
    assert all(amounts.to_text(value) in out for value in values)


@given(value=AMOUNTS, width=st.integers(16, 200))
def test_live_panels_fold_and_do_not_cut(value: Decimal, width: int) -> None:
    """A live panel of a narrow terminal breaks an amount over lines, and shows every digit."""
    text = amounts.to_text(value)
    section = Section(columns=("region", "sum"), rows=[("us-east-1", text)])
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render(section))
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    shown = "".join("".join(line) for line in lines)
    assert sum(map(shown.count, "0123456789")) >= sum(map(text.count, "0123456789"))
