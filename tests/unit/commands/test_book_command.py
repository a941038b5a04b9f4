"""`ledger book`, and the commands that show entries, over a table that has books."""

import csv
import io
import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from support import needs
from support.commands import Ran, run_command_here
from support.ledgers import AWAY, HOME

from ledger.commands.export import FIELDS, LEG_FIELDS
from ledger.commands.journal import account_text
from ledger.core import books
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.testing import MemoryGlobalTable

BOOK = "book/shop"
SALE = ("cash", "EUR", "-12.50", "customer/alice", "EUR", "12.50")


@dataclass
class Desk:
    """A table in memory that the commands open."""

    world: MemoryGlobalTable
    folder: Path

    def run(self, *arguments: str) -> Ran:
        """Run `ledger` with these arguments."""
        return run_command_here("ledger", *arguments, folder=self.folder)

    def out(self, *arguments: str) -> str:
        """Return what it prints, on one line."""
        ran = self.run(*arguments)
        assert ran.status == 0, ran
        return " ".join(ran.out.split())

    def json(self, *arguments: str) -> list[Any]:
        """Return what it prints with --json."""
        ran = self.run(*arguments, "--json")
        assert ran.status == 0, ran
        return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """A table of two regions without anything in it."""
    world = MemoryGlobalTable(books=["book/*"])
    regions = f"regions: {{{HOME}: {{}}, {AWAY}: {{}}}}\n"
    (tmp_path / "regions.yaml").write_text(regions, encoding="utf-8")

    def opened(settings: Settings, *, region: str, **_: object) -> Ledger:
        del settings
        return world.ledger(region)

    monkeypatch.setattr(Ledger, "open", opened)
    return Desk(world, tmp_path)


def test_a_transfer_is_made_and_shown(desk: Desk) -> None:
    """Its legs and metadata in the history, the balances by account, and their sum of 0."""
    said = ("--note", "order 17", "--metadata", "order=17", "--metadata", "of=a=b")
    out = desk.out("book", "transfer", BOOK, *SALE, *said)
    assert "cash -12.5 EUR, customer/alice 12.5 EUR: transferred in" in out
    (row,) = desk.json("history", BOOK)
    assert row["legs"] == [
        {"account": "cash", "asset": "EUR", "amount": "-12.5"},
        {"account": "customer/alice", "asset": "EUR", "amount": "12.5"},
    ]
    assert (row["change"], row["metadata"]) == ("0", {"order": "17", "of": "a=b"})
    shown = desk.out("history", BOOK)
    assert f"{BOOK} in {HOME} is a book: `ledger book balances {BOOK}` shows" in shown
    assert "cash -12.5 EUR, customer/alice 12.5 EUR" in shown
    assert "of=a=b, order=17" in shown
    assert "is a book" in desk.out("total", BOOK)
    balances = desk.run("book", "balances", BOOK).out.splitlines()
    assert [line.split() for line in balances if "EUR" in line] == [
        ["cash", "-12.5", "EUR"],
        ["customer/alice", "12.5", "EUR"],
        ["sum:", "0", "EUR"],
    ]


def test_balances_are_of_a_prefix_in_json_and_of_a_moment(desk: Desk) -> None:
    """One object for each account that has something; before the transfer none has."""
    desk.out("book", "transfer", BOOK, *SALE)
    (row,) = desk.json("book", "balances", BOOK, "--prefix", "customer/")
    assert (row["book"], row["account"], row["asset"]) == (BOOK, "customer/alice", "EUR")
    assert (row["balance"], row["region"], row["at"]) == ("12.5", HOME, None)
    text = desk.out("book", "balances", BOOK, "--prefix", "customer/")
    assert text.endswith("sum of customer/...: 12.5 EUR")
    assert desk.json("book", "balances", BOOK, "--at", "2001-01-01T00:00Z") == []
    assert desk.out("book", "balances", BOOK, "--prefix", "x") == (
        f"no account of {BOOK} has a balance in {HOME}"
    )


def test_a_transfer_under_a_key_is_made_once_and_reversed_by_its_legs(desk: Desk) -> None:
    """As a change of a counter."""
    key = ("--key", "order-17", "--at", desk.world.clock.now().isoformat())
    (made,) = desk.json("book", "transfer", BOOK, *SALE, *key, "--effective", "2026-11-01")
    assert made["effective"] == "2026-11-01"
    assert desk.json("book", "transfer", BOOK, *SALE, *key, "--effective", "2026-11-01") == [made]
    desk.world.replicate()
    shown = desk.out("reverse", BOOK, made["id"])
    assert "reversed by cash 12.5 EUR, customer/alice -12.5 EUR, recorded" in shown
    assert desk.json("book", "balances", BOOK) == []


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            (BOOK, "a", "EUR", "1", "b", "EUR", "-2"),
            2,
            "must sum to 0 in each asset, got -1 in EUR",
        ),
        ((BOOK, "a", "EUR", "1", "b", "EUR"), 2, "ACCOUNT ASSET AMOUNT of each, got 5 arguments"),
        ((BOOK, "a", "EUR", "x", "b", "EUR", "1"), 2, "'x'"),
        (("stock", *SALE), 2, "'stock' is no book"),
        ((BOOK, *SALE, "--metadata", "order"), 2, "must be NAME=VALUE, got 'order'"),
        ((BOOK, *SALE, "--metadata", "a=1", "--metadata", "a=2"), 2, "names 'a' twice"),
        ((BOOK, *SALE, "--metadata", "=1"), 2, "a name of metadata"),
        ((BOOK, *SALE, "--key", "k"), 2, "key 'k' needs at"),
    ],
)
def test_what_breaks_a_rule_is_refused_in_one_line(
    desk: Desk, arguments: Sequence[str], status: int, said: str
) -> None:
    """And nothing is written."""
    ran = desk.run("book", "transfer", *arguments)
    assert ran.status == status, ran
    assert said in ran.errors
    assert len(ran.errors.splitlines()) == 1
    assert desk.run("history", BOOK, "--json").out == ""


def test_a_full_book_is_refused_by_the_state_of_the_table(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line is right, so it exits with 1, in one line that says what is to be done."""
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_OPEN", 0)
    ran = desk.run("book", "transfer", BOOK, *SALE)
    assert ran.status == 1
    assert "has no room for account" in ran.errors


def test_a_plain_change_takes_metadata(desk: Desk) -> None:
    """The same attribute as a transfer's."""
    (made,) = desk.json("record", "stock", "-2", "--metadata", "order=17")
    assert made["metadata"] == {"order": "17"}
    (row,) = desk.json("history", "stock")
    assert row["metadata"] == {"order": "17"}
    assert "legs" not in row
    assert "order=17" in desk.out("history", "stock")
    assert "is a book" not in desk.out("total", "stock")


def filled(desk: Desk) -> None:
    """Make transfers of several assets, one with a name that a journal would misread."""
    now = desk.world.clock.now()
    first, second = (
        ("--key", key, "--at", (now - timedelta(seconds=ago)).isoformat())
        for key, ago in (("a", 2), ("b", 1))
    )
    said = ("--note", "order;\n 17", "--metadata", "order=17")
    desk.out("book", "transfer", BOOK, *SALE, *said, *first)
    legs = (
        "cash",
        "USD/2",
        "3",
        "(due)  to  B",
        "USD/2",
        "-3",
        "cash",
        "EUR",
        "1",
        "x",
        "EUR",
        "-1",
    )
    desk.out("book", "transfer", BOOK, *legs, "--effective", "2026-11-02", *second)


def test_an_export_of_a_book_has_a_row_for_each_leg(desk: Desk) -> None:
    """In text and JSON Lines; those of the book's table that are no transfers have none."""
    filled(desk)
    desk.out("record", "stock", "3")
    rows = list(csv.DictReader(io.StringIO(desk.run("export", "--format", "csv").out)))
    assert list(rows[0]) == [*FIELDS, *LEG_FIELDS]
    shown = [(row["counter"], row["account"], row["asset"], row["amount"]) for row in rows]
    assert shown == [
        (BOOK, "cash", "EUR", "-12.5"),
        (BOOK, "customer/alice", "EUR", "12.5"),
        (BOOK, "cash", "EUR", "1"),
        (BOOK, "x", "EUR", "-1"),
        (BOOK, "(due)  to  B", "USD/2", "-3"),
        (BOOK, "cash", "USD/2", "3"),
        ("stock", "", "", ""),
    ]
    made = desk.world.clock.now()
    times = [datetime.fromisoformat(row["time"]) for row in rows]
    assert times == [made - timedelta(seconds=ago) for ago in (2, 2, 1, 1, 1, 1, 0)]
    assert {row["effective"] for row in rows[2:6]} == {"2026-11-02"}
    lines = [json.loads(line) for line in desk.run("export").out.splitlines()]
    assert [line.pop("metadata", None) for line in lines[:3]] == [{"order": "17"}] * 2 + [None]
    assert [(line["counter"], line["account"] or "") for line in lines] == [
        (book, account) for book, account, _, _ in shown
    ]


def test_an_export_without_a_book_has_the_columns_that_it_had(desk: Desk) -> None:
    """Whatever else the table has."""
    filled(desk)
    desk.out("record", "stock", "3")
    rows = csv.DictReader(io.StringIO(desk.run("export", "stock", "--format", "csv").out))
    assert rows.fieldnames == list(FIELDS)
    (line,) = desk.run("export", "stock").out.splitlines()
    assert list(json.loads(line)) == list(FIELDS)


@pytest.mark.tools("pyarrow")
def test_a_parquet_file_of_a_book_has_exact_amounts(desk: Desk) -> None:
    """Decimals, in the columns change and amount."""
    from pyarrow import parquet  # noqa: PLC0415 (of another extra)

    filled(desk)
    out = desk.folder / "out.parquet"
    desk.out("export", BOOK, "--format", "parquet", "--scale", "2", "--output", str(out))
    table = parquet.read_table(out)
    assert table.column_names == [*FIELDS, *LEG_FIELDS]
    assert table.column("amount").to_pylist()[:2] == [Decimal("-12.50"), Decimal("12.50")]
    assert set(table.column("change").to_pylist()) == {Decimal(0)}


def test_a_journal_has_a_transaction_for_each_transfer(desk: Desk) -> None:
    """Date, id and note; one line a leg, in the order of the ids."""
    filled(desk)
    sale, other = desk.json("history", BOOK)
    today = sale["id"].partition("T")[0]
    assert desk.run("export", BOOK, "--format", "journal").out == (
        f"{today} ({sale['id']}) order, 17\n"
        "    cash  -12.5 EUR\n"
        "    customer/alice  12.5 EUR\n"
        "\n"
        f"2026-11-02 ({other['id']})\n"
        "    cash  1 EUR\n"
        "    x  -1 EUR\n"
        '    \'(due) to B  -3 "USD/2"\n'
        '    cash  3 "USD/2"\n'
        "\n"
    )


def hledger(journal: str) -> list[tuple[str, str, str]]:
    """Return account, asset and amount of each balance that hledger finds in a journal."""
    options = ("balance", "--flat", "--output-format", "csv", "--layout", "bare")
    command = [needs.program("hledger"), "-f", "-", *options]
    ran = subprocess.run(command, input=journal, capture_output=True, text=True, check=True)
    rows = csv.DictReader(io.StringIO(ran.stdout))
    return [(row["account"], row["commodity"], row["balance"]) for row in rows]


@pytest.mark.tools("hledger")
def test_hledger_finds_the_balances_in_a_journal(desk: Desk) -> None:
    """It reads each transaction, each asset sums to 0, and the balances are the book's."""
    drawn = random.Random(5)  # noqa: S311 (amounts of a test)
    accounts = [
        "cash",
        "customer/a b",
        "*due",
        "!x",
        "[y]",
        "<z>",
        "; n",
        "'q",
        "ü=#1",
        "a:b",
        "1 2",
    ]
    assets = ["EUR", "USD/2", "$", "X1", "a-b", "%"]
    for turn in range(40):
        legs = list[str]()
        for asset in drawn.sample(assets, 2):
            amount = Decimal(f"{drawn.randint(1, 10**9)}E-{drawn.randint(0, 9)}")
            one, two = drawn.sample(accounts, 2)
            legs += [one, asset, f"-{amount:f}", two, asset, f"{amount:f}"]
        desk.out("book", "transfer", BOOK, *legs, "--note", f"* ! (turn) {turn} date:2001-01-01;=~")
    journal = desk.run("export", BOOK, "--format", "journal").out
    found = hledger(journal)
    totals = [row for row in found if row[0] == "total"]
    assert {amount for _, _, amount in totals} == {"0"}
    shown = {
        (account_text(row["account"]), row["asset"]): Decimal(row["balance"])
        for row in desk.json("book", "balances", BOOK)
    }
    assert {(row[0], row[1]): Decimal(row[2]) for row in found if row not in totals} == shown


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "a journal is of one book"),
        ((BOOK, "book/other"), 2, "a journal is of one book"),
        (("stock",), 2, "'stock' is no book"),
    ],
)
def test_a_journal_is_of_one_book(
    desk: Desk, arguments: Sequence[str], status: int, said: str
) -> None:
    """Accounts of two would be the same account in it."""
    ran = desk.run("export", *arguments, "--format", "journal")
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.errors


async def test_a_journal_that_would_lack_transfers_is_refused(desk: Desk) -> None:
    """Those that are merged are in no archive, which the table has not."""
    async with desk.world.table(HOME) as table:
        for _ in range(30):
            await table.book(BOOK).transfer([("a", "EUR", -1), ("b", "EUR", 1)])
    merged = await desk.world.merge()
    run = partial(desk.run, "export", BOOK, "--format", "journal")
    ran = await anyio.to_thread.run_sync(run)
    assert (ran.status, ran.out) == (1, "")
    assert f"has balances of {merged} merged transfers that are in no archive" in ran.errors
