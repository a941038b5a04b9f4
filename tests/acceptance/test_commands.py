"""The commands as a user runs them, on a local global table: changes, totals, tables, imports."""

import json
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import pytest
from anyio import to_thread
from support.commands import Desk, Ran, command_line, environment, run_command, run_command_here
from support.killing import running
from support.needs import program

pytestmark = pytest.mark.slow

ENTRY_ID = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z#[0-9a-f]{16}"
AWS_SECONDS_MAX = 60.0


def client_of(region: str, endpoint: str | None) -> Any:
    """Return a plain client of one region."""
    return boto3.client(
        "dynamodb", region_name=region, endpoint_url=endpoint,
        aws_access_key_id="local", aws_secret_access_key="local",
    )  # fmt: skip


def objects(ran: Ran) -> list[dict[str, Any]]:
    """Return the JSON objects that a command printed, one a line."""
    assert ran.status == 0, ran.errors
    return [json.loads(line) for line in ran.out.splitlines()]


def test_a_total_is_corrected_by_a_count(desk: Desk) -> None:
    """`reconcile` corrects once for each count, and through home alone."""
    assert desk.run("ledger", "record", "shelf", "100").status == 0
    count = ("ledger", "reconcile", "shelf", "--counted", "97", "--token", "week-47")
    said = desk.run(*count, "--reason", "three broken")
    assert said.status == 0, said.errors
    assert said.out.startswith("shelf: corrected by -3; counted 97, total 100 at 20")
    assert said.out.endswith(" in us-east-1\n")
    (done,) = objects(desk.run(*count, "--json"))
    assert (done["change"], done["reason"], done["repeated"]) == ("-3", "three broken", True)
    (fits,) = objects(desk.run("ledger", "reconcile", "shelf", "--counted", "97", "--json"))
    assert fits["change"] == "0"
    assert fits["entry"]
    away = desk.run(*count, "--region", "eu-west-1")
    assert away.status == 2
    assert "home region us-east-1, not eu-west-1" in away.errors


def test_an_entry_is_taken_back_once(desk: Desk) -> None:
    """`reverse` by the id that `record` prints; a repeat shows the same, what is none is said."""
    (wrong,) = objects(desk.run("ledger", "record", "till", "500", "--json"))
    words = ("ledger", "reverse", "till", wrong["id"])
    said = desk.run(*words, "--note", "typed twice")
    assert said.status == 0, said.errors
    assert said.out.startswith(f"till: {wrong['id']} reversed by -500, recorded in us-east-1 as ")
    (again,) = objects(desk.run(*words, "--json"))
    assert (again["change"], again["reverses"]) == ("-500", wrong["id"])
    assert (again["note"], again["id"] in said.out) == ("typed twice", True)
    (total,) = objects(desk.run("ledger", "total", "till", "--json"))
    assert (total["value"], total["entries"]) == ("0", 2)
    for entry, reason, status in (
        (again["id"], "is itself the reversal of", 1),
        (wrong["id"][:-1] + ("0" if wrong["id"][-1] != "0" else "1"), "has no entry", 1),
        ("some id", "has an id that the ledger did not make", 2),
    ):
        refused = desk.run("ledger", "reverse", "till", entry)
        assert refused.status == status, refused
        assert reason in refused.errors
        assert refused.errors.count("\n") == 1


def test_changes_recorded_in_two_regions_are_totalled_in_all(desk: Desk) -> None:
    """`record` in two regions, then `total --everywhere`: the same sum in each region."""
    said = desk.run("ledger", "record", "shop", "-2.50", "--note", "refund")
    assert said.status == 0, said.errors
    assert re.fullmatch(rf"shop: -2\.5 recorded in us-east-1 as {ENTRY_ID}\n", said.out)
    (entry,) = objects(
        desk.run("ledger", "record", "shop", "10", "--region", "eu-west-1", "--json")
    )
    assert (entry["change"], entry["region"]) == ("10", "eu-west-1")
    desk.wait_replicated()
    found = objects(desk.run("ledger", "total", "shop", "--everywhere", "--json"))
    assert [one["region"] for one in found] == list(desk.world.regions)
    assert {(one["value"], one["entries"]) for one in found} == {("7.5", 2)}
    assert not any(one["steady"] or one["ended"] < one["as_of"] for one in found)
    (steady,) = objects(desk.run("ledger", "total", "shop", "--steady", "--json"))
    assert (steady["value"], steady["steady"]) == ("7.5", True)
    table = desk.run("ledger", "total", "shop", "other", "--everywhere").out
    rows = [line.split() for line in table.splitlines() if line.split()[:1] == ["shop"]]
    assert [row[1:3] for row in rows] == [[region, "7.5"] for region in desk.world.regions]


def test_a_total_is_shown_by_period(desk: Desk) -> None:
    """`total --by` in every region, as a table or as JSON; by when changes are effective, too."""
    desk.settings(periods={"usage-*": {"months": 1200, "effective": True}})
    for change, *more in (("5", "--effective", "2026-10-31"), ("2.5",), ("-1",)):
        assert desk.run("ledger", "record", "usage-a", change, *more).status == 0
    desk.wait_replicated()
    asked = ("ledger", "total", "usage-a", "--everywhere", "--by")
    october = ("--effective", "--since", "2026-10-01", "--until", "2026-11-01T00:00Z")
    found = objects(desk.run(*asked, "month", *october, "--json"))
    assert [one["region"] for one in found] == list(desk.world.regions)
    october_1 = {"start": "2026-10-01T00:00:00+00:00", "end": "2026-11-01T00:00:00+00:00"}
    for one in found:
        assert one["periods"] == [{**october_1, "value": "5", "whole": True}]
        assert [one[name] for name in ("opening", "closing", "total")] == ["0", "5", "6.5"]
    for one in objects(desk.run(*asked, "hour", "--json")):
        assert sum(Decimal(each["value"]) for each in one["periods"]) == Decimal("6.5")
    shown = desk.run(*asked, "month", *october)
    assert shown.status == 0, shown.errors
    assert "usage-a in us-east-1 by month (UTC)" in shown.out
    rows = [line.split() for line in shown.out.splitlines()]
    assert [row for row in rows if row[:1] in (["before"], ["2026-10"], ["in"])][:3] == [
        ["before", "0"],
        ["2026-10", "5"],
        ["in", "all", "5"],
    ]
    for words, rule in (
        (("usage-a", "--since", "2026-10-01"), "need --by hour, day or month"),
        (("usage-a", "--by", "day", "--steady"), "--steady applies to totals"),
        (("usage-a", "--by", "day", "--since", "October"), "--since must be an ISO time"),
        (("shop", "--by", "day"), "no sums by period are kept of counter 'shop'"),
    ):
        refused = desk.run("ledger", "total", *words)
        assert (refused.status, rule in " ".join(refused.errors.split())) == (2, True), refused
    desk.settings()


def test_history_shows_entries_in_order_and_goes_on_after_one(desk: Desk) -> None:
    """`history` lists entries oldest first, and `--after` with the id it names shows the rest."""
    for change in ("1", "2", "3"):
        assert desk.run("ledger", "record", "story", change, "--note", f"no. {change}").status == 0
    found = objects(desk.run("ledger", "history", "story", "--json"))
    assert [one["change"] for one in found] == ["1", "2", "3"]
    assert [one["note"] for one in found] == ["no. 1", "no. 2", "no. 3"]
    page = desk.run("ledger", "history", "story", "--limit", "2")
    assert page.status == 0, page.errors
    assert "story in us-east-1: total 6" in page.out
    (after,) = re.findall(rf"continue with --after '({ENTRY_ID})'", page.out.replace("\n", ""))
    (rest,) = objects(desk.run("ledger", "history", "story", "--after", after, "--json"))
    assert rest == found[2]


def test_a_merged_counter_says_so(desk: Desk) -> None:
    """After `compactor run --once` the history names what was merged, and the total stays."""
    quick = desk.settings(
        settle=2.0,
        observation_delay=0.05,
        retry_horizon=1.0,
        compactor={"fold_min": 1, "lease": 10, "heartbeat": 0.5, "name": "quick"},
    )
    config = str(desk.write_settings(quick, "quick.yaml"))
    assert desk.run("ledger", "record", "merged", "4").status == 0
    desk.wait_replicated()
    time.sleep(quick.settle)
    ran = desk.run("compactor", "run", "--once", "--config", config)
    assert ran.status == 0, ran.errors
    assert re.search(r"[1-9]\d* entries merged", ran.out)
    desk.wait_replicated()
    (found,) = objects(desk.run("ledger", "total", "merged", "--json"))
    assert (found["value"], found["merged"]) == ("4", 1)
    assert "1 older entry is merged" in desk.run("ledger", "history", "merged").out
    shown = desk.run("compactor", "status", "--config", config)
    assert shown.status == 0, shown.errors
    assert all(region in shown.out for region in desk.world.regions)
    assert "none (released)" in shown.out
    desk.settings()  # the contract of the other tests


def test_a_bad_item_stops_neither_a_move_of_home_nor_a_pass(desk: Desk) -> None:
    """The home is moved, the rest merged; each pass names what was left, and ends with 1."""
    names = {"fold_min": 1, "lease": 10, "heartbeat": 0.5, "name": "moving"}
    times = {"settle": 2.0, "observation_delay": 0.05, "retry_horizon": 1.0}
    before = desk.settings(**times, compactor=names)
    config = str(desk.write_settings(before, "moving.yaml"))
    there = desk.write_settings(before.replace(home="eu-west-1"), "moved.yaml")
    client = client_of("us-east-1", before.regions["us-east-1"].endpoint)
    bad = {"pk": {"S": "bad"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}}
    named = "1 damaged collections left as they are: 'bad': item 'zzz'"
    client.put_item(TableName="ledger", Item=bad)
    try:
        assert desk.run("ledger", "record", "bad", "4", "--config", config).status == 0
        desk.wait_replicated()
        time.sleep(before.settle)
        ran = desk.run("compactor", "run", "--once", "--config", config)
        assert (ran.status, named in ran.out) == (1, True)
        moved = desk.run("compactor", "move-home", "eu-west-1", "--config", config)
        assert (moved.status, moved.out.count("the home is eu-west-1 now")) == (0, 1)
        ran = desk.run("compactor", "run", "--once", "--config", str(there))
        assert (ran.status, named in ran.out) == (1, True)
    finally:
        client.delete_item(TableName="ledger", Key={name: bad[name] for name in ("pk", "sk")})
        desk.settings()  # the contract of the other tests


def test_verify_says_what_is_wrong_where(desk: Desk) -> None:
    """A table in order ends with 0; an item that cannot be counted is named, and ends with 1."""
    assert desk.run("ledger", "record", "sound", "4").status == 0
    desk.wait_replicated()
    ran = desk.run("ledger", "verify", "sound")
    assert (ran.status, ran.out) == (0, ""), ran.errors
    assert "1 collections and 1 items compared: 0 damaged, 0 worth knowing" in ran.errors

    client = client_of("us-east-1", desk.settings().regions["us-east-1"].endpoint)
    bad = {"pk": {"S": "broken"}, "sk": {"S": "zzz"}, "change": {"S": "oops"}}
    client.put_item(TableName="ledger", Item=bad)
    try:
        desk.wait_replicated()
        ran = desk.run("ledger", "verify")
        assert ran.status == 1
        assert "damaged: 'broken' in eu-west-1, item 'zzz': " in ran.out
        ran = desk.run("ledger", "verify", "broken", "--json")
        found = [json.loads(line) for line in ran.out.splitlines()]
        assert (ran.status, len(found)) == (1, 4)
        assert {one["kind"] for one in found} == {"damaged", "foreign"}
        assert [one["damage"] for one in found] == [True, True, True, False]
    finally:
        client.delete_item(TableName="ledger", Key={name: bad[name] for name in ("pk", "sk")})
    assert desk.run("ledger", "verify", "~lease").status == 2


def test_an_import_from_standard_input_counts_each_row_once(desk: Desk) -> None:
    """`ledger import -` twice over the same bytes: the sums of one, and it says so."""
    content = "account,amount\nin-1,1.25\nin-2,-3\nin-1,0.75\n"
    options = ("--format", "csv", "--counter", "account", "--change", "amount")
    for expected in ("3 rows", "already there"):
        ran = desk.run_process("ledger", "import", "-", *options, stdin=content)
        assert ran.status == 0, ran.errors
        assert expected in ran.out
    found = objects(desk.run("ledger", "total", "in-1", "in-2", "--json"))
    assert [one["value"] for one in found] == ["2", "-3"]


def test_a_table_is_made_shown_and_deleted(desk: Desk) -> None:
    """`ledger table create` twice, `status`, then `delete`, which asks for the table's name."""
    config = ("--config", str(desk.write_settings(desk.settings(table="second"), "second.yaml")))
    before = desk.run("ledger", "table", "status", *config)
    assert (before.status, "table second does not exist in any region" in before.errors) == (
        1,
        True,
    )
    made = desk.run("ledger", "table", "create", *config)
    assert made.status == 0, made.errors
    again = desk.run("ledger", "table", "create", *config)
    assert (again.status, again.out) == (
        0,
        "table second: nothing to do\nrevision 2 of the contract is in force\n",
    )
    shown = desk.run("ledger", "table", "status", *config)
    assert shown.status == 0, shown.errors
    assert "us-east-1 (home)" in shown.out
    refused = desk.run("ledger", "table", "delete", *config)
    assert (refused.status, "confirm with --confirm second" in refused.errors) == (2, True)
    deleted = desk.run("ledger", "table", "delete", "--confirm", "second", *config)
    assert deleted.status == 0, deleted.errors
    assert desk.run("ledger", "table", "status", *config).status == 1


@dataclass(frozen=True, slots=True)
class Up:
    """A running `ledger local up`: where it runs, and what it printed."""

    folder: Path
    said: str

    def exported(self) -> dict[str, str]:
        """Return the variables that it tells its user to export."""
        lines = re.findall(r"^export (.*)$", self.said, flags=re.MULTILINE)
        pairs = (pair.partition("=")[::2] for line in lines for pair in line.split())
        return dict(pairs)

    async def run(self, command: str, *arguments: str) -> Ran:
        """Run a command with what it printed exported, beside this event loop."""
        exported = self.exported()
        run = partial(run_command_here, command, folder=self.folder, variables=exported)
        return await to_thread.run_sync(run, *arguments)


@asynccontextmanager
async def local_up(folder: Path, *options: str) -> AsyncIterator[Up]:
    """Run `ledger local up` until the block ends, then stop it as Ctrl-C does."""
    words = command_line(
        "ledger", "local", "up", "--regions", "us-east-1,eu-west-1",
        "--lag", "10ms", "--jitter", "20ms", "--write-config", "regions.yaml", *options,
    )  # fmt: skip
    async with running(words, folder) as process:
        await process.says("Ctrl-C stops it.")
        yield Up(folder, process.said())
        process.process.send_signal(signal.SIGINT)
        assert await process.ends() == 0, process.said()
        assert process.said().endswith("stopped\n")


async def test_local_up_goes_on_from_its_folder(tmp_path: Path) -> None:
    """What was recorded is there at the next start."""
    async with local_up(tmp_path, "--data", "state") as up:
        assert re.search(r"^state +state$", up.said, flags=re.MULTILINE)
        assert (await up.run("ledger", "record", "shop", "5")).status == 0
    async with local_up(tmp_path, "--data", "state") as up:
        shown = await up.run("ledger", "total", "shop", "--json")
        assert (shown.status, json.loads(shown.out)["value"]) == (0, "5"), shown.errors


async def test_local_up_is_paused_and_healed_by_commands(tmp_path: Path) -> None:
    """Commands find the running table by themselves; a paused pair holds changes until healed."""
    async with local_up(tmp_path) as up:
        assert "nothing is kept once this ends (--data DIR keeps it)" in up.said
        assert (await up.run("ledger", "local", "pause", "us-east-1", "eu-west-1")).status == 0
        assert (await up.run("ledger", "record", "held", "5")).status == 0
        shown = await up.run("ledger", "local", "status")
        assert shown.status == 0, shown.errors
        assert re.search(r"us-east-1\W+eu-west-1\W+paused\W+1\b", shown.out), shown.out
        away = ("total", "held", "--region", "eu-west-1", "--json")
        assert [one["value"] for one in objects(await up.run("ledger", *away))] == ["0"]
        healed = await up.run("ledger", "local", "heal")
        assert (healed.status, "paused" in healed.out) == (0, False)
        shown_home = objects(await up.run("ledger", "total", "held", "--json"))
        assert [one["value"] for one in shown_home] == ["5"]
        await check_plain_boto3(up)
    assert not [*(tmp_path / ".local/state/ledger/local").iterdir()]
    gone = run_command("ledger", "local", "status", folder=tmp_path)
    assert gone.status == 1
    assert "start one with `ledger local up`" in gone.errors


async def check_plain_boto3(up: Up) -> None:
    """Put and read an item with nothing but boto3 and the endpoint that was printed."""
    (away,) = re.findall(r"^eu-west-1 +(\S+)$", up.said, flags=re.MULTILINE)
    client = client_of("eu-west-1", away)
    item = {"pk": {"S": "foreign"}, "sk": {"S": "a458fc3d"}, "change": {"N": "7"}}
    client.put_item(TableName="ledger", Item=item)
    key = {name: item[name] for name in ("pk", "sk")}
    assert client.get_item(TableName="ledger", Key=key)["Item"] == item
    client.close()
    (counted,) = objects(
        await up.run("ledger", "total", "foreign", "--region", "eu-west-1", "--json")
    )
    assert counted["value"] == "7"


@pytest.mark.tools("aws")
async def test_the_printed_line_for_the_aws_cli_works(tmp_path: Path) -> None:
    """With what `ledger local up` says to export, its line for the AWS CLI shows the table."""
    async with local_up(tmp_path) as up:
        await to_thread.run_sync(check_the_aws_cli, up, program("aws"))


def check_the_aws_cli(up: Up, aws: str) -> None:
    """Run the line that was printed for the AWS CLI, with what it says to export."""
    (line,) = re.findall(r"^aws (.*)$", up.said, flags=re.MULTILINE)
    ran = subprocess.run(
        [aws, *line.split()], env=environment(up.folder, **up.exported()), capture_output=True,
        text=True, timeout=AWS_SECONDS_MAX, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    table = json.loads(ran.stdout)["Table"]
    assert (table["TableName"], table["TableStatus"]) == ("ledger", "ACTIVE")
    assert [replica["RegionName"] for replica in table["Replicas"]] == ["eu-west-1"]
