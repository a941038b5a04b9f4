"""`ledger table adopt`, `show` and `set` on the local table; what they wait for takes no time."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from anyio.from_thread import BlockingPortal, start_blocking_portal
from support.contracts import announce, remove_contract
from typer.testing import CliRunner, Result

from ledger.administration import contract_changes as administration
from ledger.commands import table as table_commands
from ledger.contract import contract_writer
from ledger.core.errors import (
    ContractChangeRefused,
    ContractConflict,
    ContractMissing,
    InvalidInput,
    LedgerError,
)
from ledger.core.periods import PeriodRule
from ledger.local import LocalGlobalTable
from ledger.runtime.clock import SystemClock
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.testing.clock import ManualClock

pytestmark = pytest.mark.slow

HOME, AWAY = "us-east-1", "eu-west-1"


class Desk:
    """A local table, a settings file that reaches it, and commands that wait on a fast clock."""

    def __init__(self, portal: BlockingPortal, world: LocalGlobalTable, folder: Path) -> None:
        self.portal, self.world, self.folder = portal, world, folder
        self.settings = world.settings()
        self.clock = ManualClock(SystemClock().now(), instant=True)

    def file(self, name: str = "regions.yaml", **values: Any) -> str:
        """Write a settings file that says how to reach the table, and these values."""
        reach = {region: {"endpoint": url} for region, url in self.world.endpoints.items()}
        path = self.folder / name
        path.write_text(yaml.safe_dump({"regions": reach, **values}, sort_keys=False))
        return str(path)

    def run(self, *arguments: str, **values: Any) -> Result:
        """Run `ledger table` with these arguments and a file of these values."""
        given = [*arguments, "--config", self.file(**values)]
        return CliRunner().invoke(table_commands.app, given, catch_exceptions=True)

    def shown(self) -> Any:
        """Return what `show --json` prints."""
        return json.loads(self.run("show", "--json").stdout)

    def call(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something on the table's loop."""
        return self.portal.call(work, *arguments)


@pytest.fixture(scope="module")
def local() -> Iterator[tuple[BlockingPortal, LocalGlobalTable]]:
    """A table of two regions that replicates at once."""
    starting = LocalGlobalTable.start(regions=[HOME, AWAY], lag=0.001, jitter=0.0)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(starting) as world,
    ):
        yield portal, world


@pytest.fixture
def desk(
    local: tuple[BlockingPortal, LocalGlobalTable],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Desk]:
    """The table with a contract of the defaults in force."""
    desk = Desk(*local, tmp_path)
    monkeypatch.setattr(administration, "SystemClock", lambda: desk.clock)
    # The desk's clock runs half an hour ahead of the table's in no time.
    monkeypatch.setattr(contract_writer, "check_offset", lambda _offset, **_rule: None)
    yield desk
    desk.world.heal_all()
    desk.call(desk.world.wait_replicated)


def error_of(result: Result, kind: type[LedgerError]) -> str:
    """Return the message of the error that a command ended with."""
    assert isinstance(result.exception, kind), result.output
    return str(result.exception)


def test_a_table_without_a_contract_says_how_to_write_one(desk: Desk) -> None:
    """`show` and `set` end with the command that does it."""
    desk.call(remove_contract, desk.settings)
    message = error_of(desk.run("show"), LedgerError)
    assert "no contract" in message
    assert "ledger table adopt" in message
    assert "ledger table adopt" in error_of(desk.run("set", "settle", "1h"), ContractMissing)


def test_adopt_writes_what_the_settings_say(desk: Desk) -> None:
    """A table without a contract gets one; again is harmless; another one is refused."""
    desk.call(remove_contract, desk.settings)
    values = {"settle": "30m", "shards": {"hot-*": 4}}
    for _again in range(2):
        result = desk.run("adopt", **values)
        assert result.stdout == "revision 2 of the contract is in force\n", result.exception
    terms = desk.shown()["terms"]
    assert (terms["settle"], terms["regions"]) == (1800.0, [HOME, AWAY])
    assert terms["shards"] == {"hot-*": [{"count": 4, "since": None}]}
    message = error_of(desk.run("adopt", settle="40m"), ContractConflict)
    assert "settle is 2400 s in the settings, 1800 s in the contract" in message


def test_first_values_may_be_given_in_place_of_a_files(desk: Desk) -> None:
    """The file that every process has then says nothing of them."""
    desk.call(remove_contract, desk.settings)
    given = ["--set", "settle=30m", "--set", "shards=a=b=4", "--set", "shards=hot-*=2"]
    assert desk.run("adopt", *given).exit_code == 0
    terms = desk.shown()["terms"]
    assert terms["settle"] == 1800.0
    assert {name: steps[0]["count"] for name, steps in terms["shards"].items()} == {
        "a=b": 4,
        "hot-*": 2,
    }
    result = desk.run("create")
    assert "of the contract is in force" in result.stdout, result.exception
    message = error_of(desk.run("create", "--set", "settle=40m"), ContractConflict)
    assert "settle is 2400 s" in message


def test_a_contract_that_changes_is_left_alone(desk: Desk) -> None:
    """`adopt` beside a pending change neither waits nor ends it."""
    desk.call(announce, desk.settings, replace(desk.settings.terms, settle=4000.0))
    result = desk.run("adopt")
    assert result.stdout.endswith("of the contract is pending\n"), result.exception


def test_show_prints_what_is_in_force_and_pending(desk: Desk) -> None:
    """A change that is pending has a column of its own; without one there is none."""
    result = desk.run("show")
    assert result.exit_code == 0
    assert "contract of table ledger, revision" in result.stdout
    assert "1320 s" in result.stdout
    assert "pending" not in result.stdout
    desk.call(announce, desk.settings, replace(desk.settings.terms, settle=4000.0))
    result = desk.run("show")
    assert result.exit_code == 0
    assert "pending" in result.stdout
    assert "4000 s" in result.stdout
    shown = desk.shown()
    assert (shown["terms"]["settle"], shown["pending"]["settle"]) == (1320.0, 4000.0)
    assert f"pending since {shown['pending_since']}" in " ".join(result.stdout.split())


def test_combined_counters_are_set_and_shown(desk: Desk) -> None:
    """The whole list at once, with commas between."""
    assert desk.run("set", "combine", "usage/*,votes").exit_code == 0
    assert desk.shown()["terms"]["combine"] == ["usage/*", "votes"]
    assert "usage/*, votes" in desk.run("show").stdout


def test_books_are_set_with_what_they_need_for_a_journal(desk: Desk) -> None:
    """Said on standard error, since the change is in force; not of another value."""
    desk.run("adopt")
    result = desk.run("set", "books", "book/*")
    assert result.exit_code == 0, result.output
    assert "keeps balances, and no journal of its merged transfers" in result.stderr
    assert desk.shown()["terms"]["books"] == ["book/*"]
    assert "journal" not in desk.run("set", "combine", "usage/*").stderr


def test_periods_are_shown_set_and_taken_back(desk: Desk) -> None:
    """Also while they are pending, where the other side has none."""
    rule = {"usage/*": PeriodRule(24, 62, 120)}
    some = replace(desk.settings.terms, periods=rule)
    desk.call(announce, desk.settings, some)
    shown = desk.run("show")
    assert shown.exit_code == 0, shown.exception
    assert "usage/*" in shown.stdout
    assert desk.run("set", "--resume").exit_code == 0
    assert desk.run("set", "periods", "usage/*=hours:24").exit_code == 0
    assert desk.shown()["terms"]["periods"]["usage/*"]["hours"] == 24
    desk.call(announce, desk.settings, desk.settings.terms)
    assert desk.run("show").exit_code == 0
    assert desk.run("set", "--resume").exit_code == 0
    assert desk.shown()["terms"]["periods"] == {}


def test_show_names_the_regions_that_wait(desk: Desk) -> None:
    """A region that is behind, and one that cannot be read, fail the command."""
    desk.world.pause(HOME, AWAY)
    desk.call(announce, desk.settings, replace(desk.settings.terms, settle=4000.0), [HOME])
    result = desk.run("show")
    assert result.exit_code == 1
    assert f"{AWAY} shows revision" in result.stderr
    assert json.loads(desk.run("show", "--json").stdout)["behind"] == [AWAY]


def test_set_takes_half_an_hour_on_its_clock(desk: Desk) -> None:
    """It says what it waits for, and ends with the revision that is in force."""
    before, begun = desk.shown()["revision"], desk.clock.elapsed
    result = desk.run("set", "settle", "1h")
    assert result.exit_code == 0, result.exception
    assert result.stdout == f"revision {before + 2} of the contract is in force\n"
    assert f"revision {before + 1} comes into force in" in result.stderr
    assert desk.clock.elapsed - begun >= 1260
    assert desk.shown()["terms"]["settle"] == 3600.0
    desk.call(check_settle, desk.file(), 3600.0)


async def check_settle(config: str, expected: float) -> None:
    """Look at what a process that says nothing of it gets."""
    async with Ledger.open(Settings.load(config)) as ledger:
        await ledger.record("c", 1)
        assert ledger._open_parts.settings.current.settle == expected


def test_set_refuses_what_breaks_a_rule(desk: Desk) -> None:
    """The settings' own rules, before anything is announced."""
    before = desk.shown()
    message = error_of(desk.run("set", "retry_horizon", "30m"), LedgerError)
    assert "settle (1320 s) must exceed retry_horizon" in message
    assert desk.shown()["revision"] == before["revision"]


def test_withdraw_takes_what_is_pending_back(desk: Desk) -> None:
    """Meanwhile another change is refused, with what to do."""
    desk.call(announce, desk.settings, replace(desk.settings.terms, settle=4000.0))
    message = error_of(desk.run("set", "settle", "2h"), ContractChangeRefused)
    assert "--resume" in message
    assert desk.run("set", "--withdraw").exit_code == 0
    shown = desk.shown()
    assert (shown["terms"]["settle"], shown["pending"]) == (1320.0, None)


def test_resume_finishes_what_another_announced(desk: Desk) -> None:
    """By anyone, from any machine."""
    desk.call(announce, desk.settings, replace(desk.settings.terms, settle=4000.0))
    assert desk.run("set", "--resume").exit_code == 0
    shown = desk.shown()
    assert (shown["terms"]["settle"], shown["pending"]) == (4000.0, None)


@pytest.mark.parametrize(
    "arguments",
    [[], ["settle"], ["--resume", "--withdraw"], ["settle", "1h", "--resume"]],
    ids=" ".join,
)
def test_set_takes_one_thing_to_do(arguments: Sequence[str], tmp_path: Path) -> None:
    """Anything else is refused before the table is asked."""
    path = tmp_path / "regions.yaml"
    path.write_text("regions: {us-east-1: }\n")
    result = CliRunner().invoke(
        table_commands.app, ["set", *arguments, "--config", str(path)], catch_exceptions=True
    )
    assert "NAME and VALUE, or --resume, or --withdraw" in error_of(result, InvalidInput)
