"""What `ledger import` says, returns and writes, over a store in memory."""

import os
import signal
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from support.importing import (
    HOME,
    SETTINGS,
    FateStore,
    csv_of,
    entries_of,
    markers_of,
    sums_of,
    sums_of_csv,
)
from support.live import Live
from typer.testing import CliRunner, Result

from ledger.commands import imports
from ledger.commands.imports import import_file
from ledger.core.entry import entry_of
from ledger.core.errors import ImportRefused, InvalidInput, OutcomeUnknown
from ledger.settings import Settings
from ledger.store.memory import MemoryTable
from ledger.store.port import Store
from ledger.store.writes import Action, Outcome

REGIONS = f"home: {HOME}\nregions:\n  {HOME}:\n  eu-west-1:\nwrite_deadline: 0s\n"


class Desk:
    """A directory with settings, a table in memory, and the command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.table = MemoryTable()
        self.store: Store = FateStore(self.table)
        self.lost: tuple[str, ...] = ()
        self.view = Live(SETTINGS)
        (directory / "regions.yaml").write_text(REGIONS)

    @asynccontextmanager
    async def open_table(self, settings: Settings, **_options: object) -> AsyncIterator[Any]:
        """Stand in for the connections to DynamoDB, under a contract of these settings."""
        self._settings = settings
        self.view = Live(self.settings_after(self.lost))
        yield SimpleNamespace(stores={HOME: self.store}, view=self.view)

    def settings_after(self, lost: tuple[str, ...]) -> Settings:
        """Return the settings after losses of regions."""
        return self._settings.under(replace(self._settings.terms, lost=lost), home=HOME)

    def file(self, name: str, content: str | bytes) -> str:
        """Make a file."""
        path = self.directory / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    def run(self, *arguments: str, input: bytes | None = None) -> Result:  # noqa: A002
        """Run the command."""
        app = typer.Typer()
        app.command()(import_file)
        config = str(self.directory / "regions.yaml")
        return CliRunner().invoke(app, [*arguments, "--config", config], input=input)

    def refusal(self, *arguments: str, input: bytes | None = None) -> str:  # noqa: A002
        """Run the command, which refuses, and return why; nothing is in the table."""
        result = self.run(*arguments, input=input)
        assert isinstance(result.exception, ImportRefused | InvalidInput), result.output
        assert list(self.table.items()) == []
        return str(result.exception)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Give the command a store in memory."""
    made = Desk(tmp_path)
    monkeypatch.setattr(imports, "open_table", made.open_table)
    return made


def test_a_file_is_imported_and_said_in_one_line(desk: Desk) -> None:
    """The line on standard output tells rows, batches and cost; a second run writes nothing."""
    name = desk.file("changes.csv", csv_of(250))
    first = desk.run(name)
    assert (first.exit_code, first.stderr) == (0, "")
    assert first.stdout == "imported 250 rows in 3 batches; 507 write units in us-east-1\n"
    second = desk.run(name)
    assert second.stdout == (
        "imported 0 rows in 0 batches; 250 rows in 3 batches already there;"
        " 0 write units in us-east-1\n"
    )
    assert sums_of(desk.table) == sums_of_csv(250)


def test_options_name_the_columns(desk: Desk) -> None:
    """Every option reaches the entries."""
    name = desk.file("bank.txt", "konto;am;kc;co\n7;1993-01-31;-1.50;vklad\n".encode("utf-16"))
    result = desk.run(
        name, "--format", "csv", "--delimiter", ";", "--encoding", "utf-16",
        "--counter", "konto", "--change", "kc", "--note", "co", "--effective", "am",
        "--counter-format", "account-{}",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    (entry,) = map(entry_of, entries_of(desk.table))
    assert (entry.counter, str(entry.change), entry.note) == ("account-7", "-1.5", "vklad")
    assert (str(entry.effective), entry.region) == ("1993-01-31", HOME)


def test_tabs_can_be_named(desk: Desk) -> None:
    """A tab, which is hard to type, has a name."""
    name = desk.file("changes.csv", "counter\tchange\na\t1\n")
    assert desk.run(name, "--delimiter", "tab").exit_code == 0
    assert len(entries_of(desk.table)) == 1


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson", "JSONL"])
def test_json_lines_by_suffix(desk: Desk, suffix: str) -> None:
    """The suffix tells the format."""
    name = desk.file(f"changes.{suffix}", '{"counter": "a", "change": 0.10}\n')
    assert desk.run(name).exit_code == 0
    assert entries_of(desk.table)[0]["change"] == {"N": "0.1"}


def test_standard_input_is_the_same_file(desk: Desk) -> None:
    """The bytes alone are the file's name: through standard input they are known again."""
    name = desk.file("changes.csv", csv_of(250))
    desk.run(name)
    result = desk.run("-", "--format", "csv", input=csv_of(250).encode())
    assert "250 rows in 3 batches already there" in result.stdout
    assert sums_of(desk.table) == sums_of_csv(250)
    assert "--format is required" in str(desk.run("-", input=b"").exception)


def test_a_pipe_by_name_is_read_once(desk: Desk) -> None:
    """What is no plain file is copied first, since it cannot be read twice."""
    reading, writing = os.pipe()
    os.write(writing, csv_of(250).encode())
    os.close(writing)
    try:
        result = desk.run(f"/dev/fd/{reading}", "--format", "csv")
    finally:
        os.close(reading)
    assert result.exit_code == 0, result.output
    assert sums_of(desk.table) == sums_of_csv(250)


def test_bad_rows_refuse_the_file_before_anything_is_written(desk: Desk) -> None:
    """Bad rows are named by line and rule, all are counted, and the table stays empty."""
    bad = "".join(f"a,x{row}\n" for row in range(30))
    name = desk.file("changes.csv", csv_of(200) + "~a,1\n" + bad)
    result = desk.run(name)
    assert isinstance(result.exception, ImportRefused)
    assert "31 of 231 rows break a rule, the first on line 202; nothing was written" in str(
        result.exception
    )
    shown = result.stderr.splitlines()
    assert shown[0] == "line 202: counter must not begin with '~', which is reserved, got '~a'"
    assert shown[1] == "line 203: amount must be a decimal number, got 'x0'"
    assert (len(shown), shown[-1]) == (21, "... and 11 more bad rows")
    assert list(desk.table.items()) == []


def test_bad_rows_are_mended_in_a_file_of_their_own(desk: Desk) -> None:
    """Rows left out stand in the rejects as they stood, which is a file that can be imported."""
    content = csv_of(150).replace("c3,103\n", 'c3,"103,0"\r\n') + "c4,"
    name, rejects = desk.file("changes.csv", content), desk.directory / "rejects.csv"
    result = desk.run(name, "--skip-bad", "--rejects", str(rejects))
    assert result.exit_code == 0
    assert "imported 149 rows in 2 batches; 2 bad rows skipped" in result.stdout
    assert rejects.read_bytes() == b'counter,change\nc3,"103,0"\r\nc4,\n'
    rejects.write_text(rejects.read_text().replace('"103,0"', "103").replace("c4,", "c4,0"))
    assert desk.run(str(rejects)).exit_code == 0
    assert sums_of(desk.table) == sums_of_csv(150)


def test_bytes_that_are_no_text_come_back_as_they_stood(desk: Desk) -> None:
    """A row in another encoding is among the rejects byte for byte."""
    name = desk.file("changes.csv", b"counter,change\na,1\ncaf\xe9,2\n")
    rejects = desk.directory / "rejects.csv"
    assert desk.run(name, "--skip-bad", "--rejects", str(rejects)).exit_code == 0
    assert rejects.read_bytes() == b"counter,change\ncaf\xe9,2\n"


def test_rejects_being_mended_are_never_replaced(desk: Desk) -> None:
    """The same run may write its rejects again, but not over a file that holds something else."""
    name, rejects = desk.file("changes.csv", "counter,change\na,x\nb,1\n"), "rejects.csv"
    arguments = (name, "--skip-bad", "--rejects", str(desk.directory / rejects))
    desk.file(rejects, "counter,change\na,5\n")
    assert "exists with other content" in desk.refusal(*arguments)
    assert (desk.directory / rejects).read_text() == "counter,change\na,5\n"
    (desk.directory / rejects).unlink()
    assert [desk.run(*arguments).exit_code for _ in range(2)] == [0, 0]
    left = sorted(path.name for path in desk.directory.iterdir())
    assert left == ["changes.csv", "regions.yaml", rejects]


def test_no_bad_rows_no_rejects(desk: Desk) -> None:
    """A file without bad rows leaves no rejects behind."""
    name, rejects = desk.file("changes.csv", csv_of(5)), desk.directory / "rejects.csv"
    assert desk.run(name, "--skip-bad", "--rejects", str(rejects)).exit_code == 0
    assert not rejects.exists()


def test_rejects_need_rows_left_out(desk: Desk) -> None:
    """--rejects alone would promise a file that is never written."""
    result = desk.run(desk.file("changes.csv", csv_of(5)), "--rejects", "rejects.csv")
    assert isinstance(result.exception, InvalidInput)
    assert list(desk.table.items()) == []


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (["missing.csv"], "missing.csv: the file cannot be read: No such file or directory"),
        ([".", "--format", "csv"], "the file cannot be read: Is a directory"),
        (["changes.xlsx"], "unknown suffix (known: .csv, .jsonl, .ndjson)"),
        (["-"], "--format is required for standard input"),
        (["good.csv", "--counter", "account"], "good.csv: the file has no column 'account'"),
        (["good.csv", "--encoding", "klingon"], "encoding 'klingon' is unknown"),
        (["good.csv", "--counter-format", "x"], "exactly one {} stands for the value"),
        (
            ["bad.csv", "--skip-bad", "--rejects", "no/where.csv"],
            "no/where.csv: cannot be written: No such file or directory",
        ),
        (["bad.csv", "--skip-bad", "--rejects", "bad.csv"], "exists with other content"),
    ],
)
def test_wrong_calls_are_refused_in_one_line(
    desk: Desk, arguments: Sequence[str], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be done is said with the name and the rule, and nothing is written."""
    monkeypatch.chdir(desk.directory)
    desk.file("good.csv", csv_of(3))
    desk.file("bad.csv", csv_of(3) + "a,x\n")
    message = desk.refusal(*arguments)
    assert rule in message
    assert "\n" not in message


class SignalledStore(FateStore):
    """A store at which signals come in while it works."""

    def __init__(self, table: MemoryTable, signals: Sequence[int]) -> None:
        super().__init__(table)
        self._signals = list(signals)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Send the next signal to this process, then do the transaction."""
        if self._signals:
            signal.raise_signal(self._signals.pop(0))
        return await super().transact(actions, token=token)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_between_batches(desk: Desk, number: signal.Signals) -> None:
    """A signal lets the batches in flight end, says so, and the same command finishes."""
    name = desk.file("changes.csv", csv_of(3_000))
    desk.store = SignalledStore(desk.table, [number])
    result = desk.run(name)
    assert result.exit_code == 128 + number
    assert "stopping after the batches in flight" in result.stderr
    assert "run the same command again to finish: nothing is counted twice" in result.stderr
    assert "rows left" in result.stdout
    assert 0 < len(entries_of(desk.table)) < 3_000
    desk.store = FateStore(desk.table)
    assert desk.run(name).exit_code == 0
    assert sums_of(desk.table) == sums_of_csv(3_000)


def test_an_error_on_the_way_says_how_far_it_came(desk: Desk) -> None:
    """If some rows are in when it fails, that is said, and that the command can be repeated."""
    name = desk.file("changes.csv", csv_of(500))
    desk.store = FateStore(desk.table, ["applied", *["lost, no answer"] * 1_000])  # type: ignore[list-item]
    result = desk.run(name)
    assert isinstance(result.exception, OutcomeUnknown)
    assert "rows are in the table; run the same command again to finish" in result.stderr
    desk.store = FateStore(desk.table)
    assert desk.run(name).exit_code == 0
    assert sums_of(desk.table) == sums_of_csv(500)
    assert len(markers_of(desk.table)) == 6


def test_an_import_begun_before_a_loss_is_refused_but_on_demand(desk: Desk) -> None:
    """The refusal says what to do; with the option it goes on, and warns of what that may do."""
    name = desk.file("changes.csv", csv_of(250))
    assert desk.run(name, "--after-loss").stderr == ""
    desk.lost = ("ap-southeast-1",)
    refused = desk.run(name)
    assert isinstance(refused.exception, ImportRefused)
    assert "ledger import --after-loss" in str(refused.exception)
    result = desk.run(name, "--after-loss")
    assert result.exit_code == 0
    assert "250 rows in 3 batches already there" in result.stdout
    assert "warning: this import began before the loss of ap-southeast-1" in result.stderr
    assert sums_of(desk.table) == sums_of_csv(250)


def test_a_refusal_on_the_way_does_not_ask_to_run_again(desk: Desk) -> None:
    """Rows are in the table, and the same command would be refused."""
    name = desk.file("changes.csv", csv_of(500))

    class Losing(FateStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            desk.view.current = desk.settings_after(("ap-southeast-1",))
            return await super().transact(actions, token=token)

    desk.store = Losing(desk.table)
    result = desk.run(name)
    assert isinstance(result.exception, ImportRefused)
    assert "rows are in the table\n" in result.stderr
    assert "run the same command" not in result.stderr


def test_rejects_are_private(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejects hold a bank's rows: no one else can read them."""
    name, rejects = desk.file("changes.csv", "counter,change\na,x\nb,1\n"), "rejects.csv"
    monkeypatch.chdir(desk.directory)
    desk.run(name, "--skip-bad", "--rejects", rejects)
    assert stat.S_IMODE(Path(rejects).stat().st_mode) == stat.S_IRUSR | stat.S_IWUSR


def test_help_names_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """The help is the command's documentation; what an error proposes alone stands in the error."""
    monkeypatch.setenv("COLUMNS", "200")
    app = typer.Typer()
    app.command()(import_file)
    text: Any = CliRunner().invoke(app, ["--help"], env={"TERM": "dumb"}).stdout
    for option in ("--counter-format", "--skip-bad", "--rejects", "--delimiter"):
        assert option in text
    assert "--after-loss" not in text


@pytest.mark.parametrize("options", [(), ("--skip-bad",)])
def test_a_row_of_a_book_is_refused_before_anything_is_written(
    desk: Desk, options: Sequence[str]
) -> None:
    """A book takes transfers alone, so what was exported of one is not imported."""
    settings = REGIONS + "books: ['book/*']\n"
    (desk.directory / "regions.yaml").write_text(settings)
    plain = "".join(f"stock,{number}\n" for number in range(300))
    refused = desk.file("changes.csv", f"counter,change\n{plain}book/shop,0\n")
    said = desk.refusal(refused, *options)
    assert "changes.csv: line 302: 'book/shop' is a book, by a pattern of `books`" in said
    desk.run(desk.file("others.csv", f"counter,change\n{plain}"))
    assert len(entries_of(desk.table)) == 300


def test_columns_become_metadata(desk: Desk) -> None:
    """Columns named are kept with a change; an empty name leaves out the usual column."""
    content = "counter,change,order,channel,metadata\na,1,17,web,x\n"
    name = desk.file("changes.csv", content)
    assert "line 2: metadata is not JSON" in desk.refusal(name)
    assert desk.run(name, "--metadata", "order", "--metadata", "channel").exit_code == 0
    assert desk.run(desk.file("others.csv", f"{content}\n"), "--metadata", "").exit_code == 0
    found = [entry_of(item).metadata for item in entries_of(desk.table)]
    assert sorted(found, key=str) == [None, {"channel": "web", "order": "17"}]
