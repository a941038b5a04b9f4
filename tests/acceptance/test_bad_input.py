"""Bad input and faults at the command line: one line of error, the right status, nothing written.

Commands run against a local global table, in this process.
"""

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.commands import Desk, Ran, run_command
from support.strangers import (
    BROKEN_GATEWAY,
    LOGIN_PAGE,
    REFUSED_CREDENTIALS,
    answering,
    hanging_up,
    refused,
    silent,
)

from ledger import Ledger, LedgerError, Settings
from ledger.administration.contract_changes import establish
from ledger.administration.table import Patience, create_table
from ledger.core.contract_item import CONTRACT_PARTITION
from ledger.core.errors import InvalidAmount, InvalidCounter, InvalidEntry

pytestmark = pytest.mark.slow

TABLE = "untouched"
HOME = "us-east-1"
NOTE_BYTES = 400 * 1024
TIMEOUT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Case:
    """A command that must fail, with what its one line of error says.

    `{name}` in the command stands for a place that the test provides; `table` for another table.
    """

    command: str
    error: str
    status: int = 1
    table: str = TABLE


def usage(command: str, error: str) -> Case:
    """Return the case of a command line that cannot be understood."""
    return Case(command, error, status=2)


AMOUNTS_AND_IDS = [
    usage("ledger record a 1e400", "amount must be within 1E-130 to 9.99E+125, got 1E+400"),
    usage("ledger record a 1e38", "at most 38 digits before the point and 38 after it, got 1E+38"),
    usage("ledger record a nan", "amount must be a finite number, got NaN"),
    usage("ledger record a -inf", "amount must be a finite number, got -Infinity"),
    usage("ledger record a abc", "amount must be a decimal number, got 'abc'"),
    usage("ledger record a 1,5", "amount must be a decimal number, got '1,5'"),
    usage(f"ledger record a {'9' * 39}", "amount must have at most 38 digits, got 39"),
    usage("ledger record '' 1", "counter must have 1 to 1,024 bytes, got ''"),
    usage(
        "ledger record '~net' 1", "counter must not begin with '~', which is reserved, got '~net'"
    ),
    usage("ledger record 'a\tb' 1", r"counter must not contain control characters, got 'a\tb'"),
    usage(f"ledger record {'é' * 513} 1", "1,024 bytes"),
    usage("ledger record 'cafe\u0301' 1", "counter must be in Unicode's normal form C (NFC)"),
    usage("ledger record 'a\u202eb' 1", r"must not contain invisible characters, such as '\u202e'"),
    usage("ledger total ''", "counter must have 1 to 1,024 bytes, got ''"),
    usage(
        "ledger history '~lease'",
        "counter must not begin with '~', which is reserved, got '~lease'",
    ),
]
OPTIONS = [
    usage(
        "ledger record a 1 --key k --at yesterday",
        "--at must be an ISO time such as",
    ),
    usage("ledger record a 1 --key k --at 2026-11-21T06:50", "--at must end with a zone"),
    Case("ledger record a 1 --key k --at 2020-01-01T00:00Z", "past the retry horizon of 5 min"),
    usage("ledger record a 1 --key k --at 2999-01-01T00:00Z", "ahead of the clock"),
    usage("ledger record a 1 --key k", "a UUIDv7 or a ULID as key carries its own"),
    usage(
        "ledger record a 1 --effective 2026-13-45",
        "2026-11-21, got '2026-13-45'",
    ),
    usage(
        "ledger history a --after yesterday",
        "T06:50Z, got 'yesterday'",
    ),
    usage("ledger history a --key '\udcff'", r"key '\udcff' cannot be encoded in UTF-8"),
    usage("ledger history '\udcff' --key k", "counter must be encodable in UTF-8"),
    usage("ledger pipeline status '\udcff'", "a name must be UTF-8"),
    usage("ledger history a --limit 0", "'--limit': Input should be greater than or equal to 1"),
    usage("ledger record a", "Missing argument 'change'; see"),
    usage("ledger nothing", "No such command 'nothing'; see"),
    usage("compactor run", "give either --once or --every"),
    usage("compactor run --once --every 60s", "give either --once or --every"),
    usage("compactor run --every soon", "--every must be a duration above 0, such as"),
    usage("compactor run --every 0", "got '0'"),
    Case("compactor run --once --metrics-port {taken}", "already in use; choose another port"),
    usage("compactor run --once --metrics-port 70000", "less than or equal to 65535"),
]
REGIONS_AND_TABLES = [
    usage(
        "ledger record a 1 --region mars-1", "'mars-1' is not one of the regions in the settings"
    ),
    usage("ledger total a --region mars-1", "'mars-1' is not one of the regions in the settings"),
    usage("ledger record a 1 --region ''", "--region is empty: it must be one of us-east-1"),
    usage("ledger total a --region ''", "--region is empty: it must be one of us-east-1"),
    usage("ledger total a --region us-east-1 --everywhere", "give one of them"),
    usage("ledger deploy policy reader --region mars-1", "'mars-1' is not one of the regions"),
    Case("compactor move-home mars-1", "home 'mars-1' is not one of the regions us-east-1"),
    Case("ledger record a 1", "table nothere: the table is not in this region", table="nothere"),
    Case("ledger total a", "table nothere: the table is not in this region", table="nothere"),
    Case("compactor run --once", "the table is not in this region", table="nothere"),
    Case("compactor status", "the table is not in this region", table="nothere"),
    Case("ledger table status", "table nothere does not exist in any region", table="nothere"),
]
FILES = [
    Case("ledger import nofile.csv", "nofile.csv: the file cannot be read: No such file"),
    Case("ledger import good.csv --change sum", "the file has no column 'sum' for the change"),
    usage("ledger import good.csv --counter-format x", "exactly one {} stands for the value"),
    usage("ledger import -", "--format is required for standard input"),
    usage("ledger import good.csv --format xml", "'xml' is not one of 'csv', 'jsonl'"),
    usage("ledger import good.csv --encoding morse", "encoding 'morse' is unknown"),
    usage("ledger import good.csv --rejects bad.csv", "--rejects requires --skip-bad"),
    usage("ledger import good.xml", "good.xml: unknown suffix"),
    usage("ledger local up --engine mysql", "engine must be one of memory, dynoxide, got 'mysql'"),
    usage("ledger local up --ports a", "--ports must be comma-separated whole numbers, got 'a'"),
    usage("ledger local heal us-east-1", "heal requires both SOURCE and TARGET"),
    usage("ledger deploy policy reader --account 12", "--account must be 12 digits, got '12'"),
    usage("ledger table delete", "nothing was deleted: confirm with --confirm untouched"),
    usage("ledger pipeline run -", "standard input requires --spool"),
    usage("ledger pipeline replay a --dead a", "--dead must be a file other than a"),
    Case("ledger demo --input nofile.csv", "nofile.csv: the file cannot be read: No such file"),
    Case("ledger local up --write-config good.csv", "good.csv already exists: --force replaces"),
    usage("ledger local up --write-config .", ". is a folder: name a file"),
    usage("ledger local up --write-config no/such/file", "there is no folder no/such"),
    Case("ledger deploy template table --output good.csv", "good.csv already exists"),
    Case("ledger export a --output good.csv", "good.csv already exists"),
    Case("ledger demo --picture good.svg", "good.svg already exists"),
    Case("ledger import /proc/self/mem --format csv", "/proc/self/mem: the file cannot be read"),
    Case("ledger local status --control-url {region}", "not as the control of a local global"),
]
UNREACHABLE = [
    Case("ledger record a 1 --config refused.yaml", "no answer (Could not connect"),
    Case("ledger total a --config refused.yaml", "no answer (Could not connect"),
    Case("compactor run --once --config refused.yaml", "no answer (Could not connect"),
    Case("compactor status --config refused.yaml", "no answer (Could not connect"),
    Case("ledger table create --config refused.yaml", "no answer (Could not connect"),
    Case("ledger import good.csv --config refused.yaml", "no answer (Could not connect"),
    Case("ledger total a --config silent.yaml", "timeout on endpoint URL"),
    Case("ledger total a --config gateway.yaml", "page with status 502 is not an answer of AWS"),
]
ENDPOINTS = [
    Case("ledger record a 1 --config hanging_up.yaml", "check network and endpoint"),
    Case("ledger record a 1 --config stranger.yaml", "AWS refused the credentials"),
    Case("ledger total a --config stranger.yaml", "AWS refused the credentials"),
    Case("compactor run --once --config stranger.yaml", "AWS refused the credentials"),
    Case("ledger import good.csv --config stranger.yaml", "AWS refused the credentials"),
    Case("ledger table create --config stranger.yaml", "AWS refused the credentials"),
    Case("ledger record a 1 --config profile.yaml", "The config profile (absent) could not be"),
    Case("ledger record a 1 --config aws.yaml", "no usable AWS credentials (Unable to locate"),
    Case("ledger record a 1 --config page.yaml", "status 200 is not an answer of AWS"),
    Case("ledger total a --config page.yaml", "status 200 is not an answer of AWS"),
    Case("ledger table status --config page.yaml", "status 200 is not an answer of AWS"),
]
SETTINGS = {
    "syntax.yaml": ("home: us-east-1\nregions: [\n", "syntax.yaml, line 3: not YAML: expected"),
    "unknown.yaml": (
        "home: us-east-1\nregions:\n  us-east-1:\nsettel: 5\n",
        "unknown.yaml, line 4: settel is not a setting; did you mean settle?",
    ),
    "type.yaml": (
        "home: us-east-1\nregions:\n  us-east-1:\nobservation_delay: soon\n",
        "type.yaml, line 4: observation_delay is 'soon': a duration is 0 or more seconds",
    ),
    "home.yaml": (
        "regions:\n  us-east-1:\nhome: us-west-2\n",
        "home.yaml, line 3: home 'us-west-2' is not one of the regions us-east-1",
    ),
    "negative.yaml": (
        "home: us-east-1\nregions:\n  us-east-1:\nretry_horizon: -5\n",
        "negative.yaml, line 4: retry_horizon is -5: a duration is 0 or more seconds",
    ),
    "relation.yaml": (
        "home: us-east-1\nregions:\n  us-east-1:\nsettle: 10\n",
        "relation.yaml, line 4: settle (10 s) must exceed signature_lifetime + clock_skew",
    ),
    "region.yaml": ("home: Mars\nregions:\n  Mars:\n", "'Mars' is not the name of a region"),
    "endpoint.yaml": (
        "home: us-east-1\nregions:\n  us-east-1: {endpoint: nonsense}\n",
        "endpoint.yaml, line 3: regions.us-east-1.endpoint is 'nonsense': an endpoint is a URL",
    ),
    "twice.yaml": ("home: us-east-1\nhome: b\n", "line 2: 'home' appears twice, first in line 1"),
}
BROKEN = [
    Case(f"{command} --config {name}", error)
    for (name, (_, error)), command in zip(
        SETTINGS.items(), ("ledger record a 1", "ledger total a", "compactor run --once") * 3,
        strict=True,
    )
]  # fmt: skip
BROKEN.append(Case("ledger record a 1 --config none.yaml", "no such settings file"))


def _named(case: Case) -> str:
    return f"{case.command[:60]}{' (no table)' if case.table != TABLE else ''}"


CASES = [
    pytest.param(case, id=_named(case))
    for case in [
        *AMOUNTS_AND_IDS,
        *OPTIONS,
        *REGIONS_AND_TABLES,
        *FILES,
        *ENDPOINTS,
        *UNREACHABLE,
        *BROKEN,
    ]
]


@dataclass(frozen=True, slots=True)
class Room:
    """The desk, settings of the table that nothing may touch, and the places for commands."""

    desk: Desk
    settings: Settings
    places: Mapping[str, str]

    def run(self, case: Case) -> Ran:
        """Run the command of a case."""
        command = case.command
        for name, place in self.places.items():
            command = command.replace(f"{{{name}}}", place)
        words = shlex.split(command)
        return self.desk.run(*words, variables={"LEDGER_TABLE": case.table})


@pytest.fixture(scope="module")
def room(desk: Desk) -> Iterator[Room]:
    """Make the table and every place that the commands name."""
    settings = desk.settings(table=TABLE)
    create_table(settings, patience=Patience(poll_seconds=0.05))
    anyio.run(establish, settings)
    (desk.folder / "good.csv").write_text("counter,change\na,1\n")
    (desk.folder / "good.svg").write_text("<svg/>")
    for name, (content, _) in SETTINGS.items():
        (desk.folder / name).write_text(content)
    with ExitStack() as stack:
        taken = stack.enter_context(silent())
        _write(desk, "silent.yaml", {"endpoint": taken}, request_timeout=TIMEOUT_SECONDS)
        endpoints: dict[str, dict[str, Any]] = {
            "refused.yaml": {"endpoint": stack.enter_context(refused())},
            "hanging_up.yaml": {"endpoint": stack.enter_context(hanging_up())},
            "stranger.yaml": {
                "endpoint": stack.enter_context(answering(REFUSED_CREDENTIALS, is_aws=True))
            },
            "page.yaml": {"endpoint": stack.enter_context(answering(LOGIN_PAGE))},
            "gateway.yaml": {"endpoint": stack.enter_context(answering(BROKEN_GATEWAY))},
            "profile.yaml": {"profile": "absent"},
            "aws.yaml": {},
        }
        for name, region in endpoints.items():
            _write(desk, name, region, write_deadline=TIMEOUT_SECONDS)
        places = {"taken": taken.rpartition(":")[2], "region": desk.world.endpoints[HOME]}
        yield Room(desk, settings, places)


def _write(desk: Desk, name: str, region: Mapping[str, Any], **others: Any) -> None:
    """Write settings of one region."""
    desk.write_settings(Settings(home=HOME, regions={HOME: region}, **others), name)


@pytest.mark.parametrize("case", CASES)
def test_a_command_fails_in_one_line(case: Case, room: Room) -> None:
    """It says what is wrong in one line on standard error and ends with the right status."""
    check(room.run(case), case)


def check(ran: Ran, case: Case) -> None:
    """Check the status and the one line of a command that failed."""
    assert ran.status == case.status, ran
    (line,) = ran.errors.splitlines()
    assert line.startswith("error: ")
    assert case.error in line
    assert "Traceback" not in ran.out


def test_nothing_was_written_by_any_of_them(room: Room) -> None:
    """After all commands that failed the table holds its contract alone in every region."""
    room.desk.wait_replicated()
    for region in room.desk.world.regions:
        assert_untouched(room, region)


def test_without_settings_a_command_says_how_to_name_them(tmp_path: Path) -> None:
    """In a folder without regions.yaml the error names the option and the variable."""
    ran = run_command("ledger", "total", "a", folder=tmp_path)
    assert (ran.status, ran.out) == (1, "")
    assert ran.errors == (
        "error: no settings: there is no regions.yaml in the current directory;"
        " name a file with --config or LEDGER_CONFIG\n"
    )


def assert_untouched(room: Room, region: str = HOME) -> None:
    """Assert that the table holds its contract and nothing else."""
    assert {key[0] for key in room.desk.items(region, room.settings)} == {CONTRACT_PARTITION}


def test_rows_over_the_limits_are_named_and_nothing_is_imported(room: Room) -> None:
    """A note over the size of an item, a float, 39 digits: each row by its line, none written."""
    rows: list[dict[str, object]] = [
        {"counter": "a", "change": 1},
        {"counter": "a", "change": 1, "note": "x" * NOTE_BYTES},
        {"counter": "a", "change": "9" * 39},
        {"counter": "~net", "change": 1},
        {"counter": "", "change": 1},
        {"counter": "a", "change": "1e400"},
    ]
    (room.desk.folder / "bad.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ran = room.run(Case("ledger import bad.jsonl", ""))
    assert ran.status == 1
    *listed, last = ran.errors.splitlines()
    said = "\n".join(listed)
    assert all(f"line {number}" in said for number in range(2, len(rows) + 1)), said
    assert "line 1:" not in said
    assert f"{len(rows) - 1} of {len(rows)} rows break a rule" in last
    assert "Traceback" not in ran.errors
    assert_untouched(room)


@pytest.mark.parametrize(
    ("counter", "change", "note", "error"),
    [
        ("a", 0.1, None, InvalidAmount),
        ("a", True, None, InvalidAmount),
        ("a", "1", None, InvalidAmount),
        ("a", Decimal("nan"), None, InvalidAmount),
        ("a", 10**38 + 1, None, LedgerError),
        ("", 1, None, InvalidCounter),
        ("~net", 1, None, InvalidCounter),
        ("a", 1, "x" * NOTE_BYTES, InvalidEntry),
    ],
)
async def test_the_library_refuses_the_same(
    room: Room, counter: str, change: Any, note: str | None, error: type[LedgerError]
) -> None:
    """A float and all else that breaks a rule is refused before anything is sent."""
    async with Ledger.open(room.settings) as ledger:
        with pytest.raises(error):
            await ledger.record(counter, change, note=note)
        assert (await ledger.total("a", max_age=0)).entries == 0


def test_a_key_for_another_change_is_refused(desk: Desk) -> None:
    """The same key and time with another amount: an error that names both, the first stays."""
    run = partial(desk.run, "ledger")
    at = datetime.now(UTC).isoformat()
    command = ("record", "keyed", "--key", "order-1", "--at", at)
    assert run(*command, "5").status == 0
    assert run(*command, "5").status == 0
    ran = run(*command, "6")
    assert ran.status == 1
    assert len(ran.errors.splitlines()) == 1
    shown = run("total", "keyed", "--json")
    assert json.loads(shown.out)["value"] == "5"
