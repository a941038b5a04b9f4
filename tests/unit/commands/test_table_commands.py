import dataclasses
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from ledger.administration.table import Patience, TableProgress, TableState
from ledger.administration.table_plan import KEYS, STREAM_VIEW, StepKind, TableStep, TableView
from ledger.administration.warm_throughput import WarmThroughput
from ledger.commands import contract as contract_commands
from ledger.commands import table as table_commands
from ledger.core.contract_item import Contract
from ledger.core.errors import InvalidInput, SettingsError, TableMissing, Unreachable
from ledger.settings import Settings

FILE = "table: books\nhome: us-east-1\nregions:\n  us-east-1:\n"
WHOLE = TableView("us-east-1", "ACTIVE", KEYS, stream=STREAM_VIEW, recovery=True, protected=True)
STEP = TableStep(StepKind.CREATE, "us-east-1")


def state(view: TableView | None = WHOLE, **values: Any) -> TableState:
    """Give the state of a table in its one region."""
    return TableState("books", "us-east-1", {"us-east-1": view}, **values)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Give the path of a settings file."""
    path = tmp_path / "regions.yaml"
    path.write_text(FILE)
    return str(path)


def run(*arguments: str) -> Result:
    """Run `ledger table` with these arguments."""
    return CliRunner().invoke(table_commands.app, arguments)


async def established(settings: Settings, **_: object) -> Contract:
    """Stand in for the writing of the contract."""
    return Contract(terms=settings.terms)


def test_create_says_what_it_did(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step taken is a line; progress goes to the other stream."""

    def create(
        settings: Settings, *, patience: Patience, report: Any, warm: WarmThroughput | None
    ) -> TableState:
        assert (settings.table, patience.timeout_seconds, warm) == ("books", 5, None)
        report(TableProgress(STEP, 0, 1, waiting=False, elapsed_seconds=0))
        return state(taken=(STEP,))

    monkeypatch.setattr(table_commands, "create_table", create)
    monkeypatch.setattr(contract_commands, "establish", established)
    result = run("create", "--config", config, "--timeout", "5")
    assert result.exit_code == 0
    assert result.stdout == (
        "done: us-east-1: create the table\nrevision 0 of the contract is in force\n"
    )
    assert "us-east-1: create the table" in result.stderr


def test_create_asks_for_warm_throughput(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--warm` reaches the table as units; a value that every new table has is refused."""
    asked: list[WarmThroughput | None] = []

    def create(*_: object, warm: WarmThroughput | None, **__: object) -> TableState:
        asked.append(warm)
        return state()

    monkeypatch.setattr(table_commands, "create_table", create)
    monkeypatch.setattr(contract_commands, "establish", established)
    assert run("create", "--config", config, "--warm", "40000,20000").exit_code == 0
    assert run("create", "--config", config, "--warm", "40000").exit_code == 0
    assert asked == [WarmThroughput(40_000, 20_000), WarmThroughput(40_000)]
    assert isinstance(run("create", "--config", config, "--warm", "400").exception, InvalidInput)


def test_the_markers_table_is_made_without_a_contract(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--markers` is for the table that the settings name, and refused where they name none."""
    asked: list[tuple[str, bool]] = []

    def create(settings: Settings, **_: object) -> TableState:
        asked.append((settings.table, settings.time_to_live))
        return state()

    monkeypatch.setattr(table_commands, "create_table", create)
    assert isinstance(run("create", "--config", config, "--markers").exception, SettingsError)
    monkeypatch.setenv("LEDGER_MARKER_TABLE", "marks")
    result = run("create", "--config", config, "--markers")
    assert (result.exit_code, "contract" in result.stdout) == (0, False)
    assert asked == [("marks", True)]


def test_status_and_delete_reach_the_markers_table(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both take `--markers`; the name to confirm is that table's."""
    monkeypatch.setenv("LEDGER_MARKER_TABLE", "marks")
    seen: list[str] = []

    def observe(settings: Settings, **_: object) -> TableState:
        seen.append(settings.table)
        return state()

    monkeypatch.setattr(table_commands, "table_state", observe)
    monkeypatch.setattr(table_commands, "delete_table", observe)
    assert run("status", "--config", config, "--markers").exit_code == 0
    wrong = run("delete", "--config", config, "--markers", "--confirm", "books")
    assert isinstance(wrong.exception, InvalidInput)
    assert run("delete", "--config", config, "--markers", "--confirm", "marks").exit_code == 0
    assert seen == ["marks", "marks"]


def test_the_tables_of_states_are_reached_by_an_option(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--states` is for all that pipelines name, without a contract; one of several is deleted."""
    seen: list[str] = []

    def observe(settings: Settings, **_: object) -> TableState:
        seen.append(settings.table)
        return state()

    for name in ("create_table", "table_state", "delete_table"):
        monkeypatch.setattr(table_commands, name, observe)
    assert isinstance(run("create", "--config", config, "--states").exception, SettingsError)
    monkeypatch.setenv("LEDGER_PIPELINE__STATE_TABLE", "one-aside")
    monkeypatch.setenv("LEDGER_PIPELINES", '{"fx": {"state_table": "two-aside"}}')
    created = run("create", "--config", config, "--states")
    assert (created.exit_code, "contract" in created.stdout) == (0, False)
    assert run("status", "--config", config, "--states").exit_code == 0
    assert seen == ["one-aside", "two-aside"] * 2
    assert isinstance(run("delete", "--config", config, "--states").exception, SettingsError)
    given = ("delete", "--config", config, "--states", "--confirm", "two-aside")
    assert run(*given).exit_code == 0
    assert seen[4:] == ["two-aside"]
    both = run("status", "--config", config, "--states", "--markers")
    assert isinstance(both.exception, InvalidInput)


def test_status_names_a_replica_that_does_not_replicate(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails the command, and says how long there is to mend it."""
    broken = dataclasses.replace(WHOLE, replicas={"eu-west-1": "REPLICATION_NOT_AUTHORIZED"})
    monkeypatch.setattr(table_commands, "table_state", lambda _: state(broken))
    result = run("status", "--config", config)
    assert result.exit_code == 1
    assert "problem: the replica in eu-west-1 is REPLICATION_NOT_AUTHORIZED" in result.stdout
    assert "after 20 hours" in result.stdout


def test_status_shows_the_warm_throughput(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the table serves at once is a line of its own."""
    warm = dataclasses.replace(WHOLE, warm=WarmThroughput(4_000, 12_000))
    monkeypatch.setattr(table_commands, "table_state", lambda _: state(warm))
    shown = run("status", "--config", config).stdout
    assert "warm throughput of each replica, a second: 4,000 writes, 12,000 reads" in shown


def test_create_with_all_there_says_so(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run reports that there was nothing to do."""
    monkeypatch.setattr(table_commands, "create_table", lambda *_, **__: state())
    monkeypatch.setattr(contract_commands, "establish", established)
    assert run("create", "--config", config).stdout == (
        "table books: nothing to do\nrevision 0 of the contract is in force\n"
    )


def test_a_wrong_file_reaches_the_caller_as_our_error(config: str) -> None:
    """The commands leave errors to the program, which prints them as one line."""
    Path(config).write_text(FILE + "settle: 1\n")
    assert isinstance(run("create", "--config", config).exception, SettingsError)


def test_status_of_a_whole_table_succeeds(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Region, state and protections are shown."""
    monkeypatch.setattr(table_commands, "table_state", lambda _: state())
    result = run("status", "--config", config)
    assert result.exit_code == 0
    assert "us-east-1 (home)" in result.stdout
    assert "missing" not in result.stdout


def test_status_names_what_is_missing(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A region without protection fails the command, for use in scripts."""
    bare = TableView("us-east-1", "ACTIVE", KEYS, stream=STREAM_VIEW, recovery=True)
    monkeypatch.setattr(table_commands, "table_state", lambda _: state(bare))
    result = run("status", "--config", config)
    assert result.exit_code == 1
    assert "missing: us-east-1: turn on deletion protection" in result.stdout


def test_status_without_a_table_says_how_to_make_it(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that is nowhere is the same error as elsewhere."""
    monkeypatch.setattr(table_commands, "table_state", lambda _: state(None))
    assert isinstance(run("status", "--config", config).exception, TableMissing)


def test_status_shows_a_region_that_cannot_be_read(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is shown and the command fails."""
    gone = Unreachable("us-east-1, table books: no answer")
    monkeypatch.setattr(
        table_commands, "table_state", lambda _: state(None, errors={"us-east-1": gone})
    )
    result = run("status", "--config", config)
    assert result.exit_code == 1
    assert "unreadable" in result.stdout
    assert str(gone) in result.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [((), "confirm with --confirm books"), (("--confirm", "Books"), "got 'Books'")],
)
def test_delete_needs_the_name_of_the_table(
    config: str, arguments: tuple[str, ...], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the name, or with another, nothing is asked of DynamoDB."""
    monkeypatch.setattr(table_commands, "delete_table", lambda *_, **__: pytest.fail("deleted"))
    error = run("delete", "--config", config, *arguments).exception
    assert isinstance(error, InvalidInput)
    assert named in str(error)


def test_delete_with_the_name_deletes(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name on the command line is enough where no one can be asked."""
    gone = state(None, taken=(TableStep(StepKind.DELETE, "us-east-1"),))
    monkeypatch.setattr(table_commands, "delete_table", lambda *_, **__: gone)
    result = run("delete", "--config", config, "--confirm", "books")
    assert result.stdout == "done: us-east-1: delete the table\n"
