"""`ledger doctor` on a local global table: a healthy one, and one fault at a time."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.commands import Desk, Ran, items_of, open_desk, run_command_here
from support.replicas import client_of, remove_replica
from support.strangers import answering

from ledger.administration.diagnosis.permission_trials import ATTRIBUTE, trials_of
from ledger.administration.templates import Role
from ledger.core.contract_item import CONTRACT_PARTITION, Contract, contract_item, contract_key
from ledger.core.hints import hint_for
from ledger.core.ids import sort_key
from ledger.local import Fault
from ledger.runtime.clock import SystemClock
from ledger.settings import Settings
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.writes import BATCH_WRITES_MAX, Delete, Put

pytestmark = pytest.mark.slow

REGIONS = ("us-east-1", "eu-west-1", "ap-southeast-1")
HOME, WEST, ASIA = REGIONS
ROLES = [word for role in Role for word in ("--role", role.value)]
LOOK_SECONDS = "2"
"""Of each look, where one of them hangs."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line that the doctor printed."""

    check: str
    region: str
    state: str
    what: str
    do: str


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A table of three regions that a compactor has looked through, so that nothing is wrong."""
    with open_desk(tmp_path, regions=REGIONS) as desk:
        desk.write_settings(desk.settings())
        assert here(desk, "compactor", "run", "--once").status == 0
        desk.wait_replicated()
        yield desk


def here(desk: Desk, command: str, *arguments: str) -> Ran:
    """Run a command in this process, in the folder of the desk."""
    return run_command_here(command, *arguments, folder=desk.folder)


def doctor(desk: Desk, *options: str) -> tuple[int, list[Line]]:
    """Run the doctor; returns its exit status and lines, each that is not ok with advice."""
    ran = here(desk, "ledger", "doctor", "--json", *options)
    lines = [Line(**json.loads(line)) for line in ran.out.splitlines()]
    assert lines, ran.errors
    assert all(one.do for one in lines if one.state != "ok")
    return ran.status, lines


def wrong(lines: list[Line]) -> list[Line]:
    """Return the problems and warnings."""
    return [line for line in lines if line.state in {"problem", "warning"}]


def only(lines: list[Line]) -> Line:
    """Return the only problem or warning."""
    [one] = wrong(lines)
    return one


def in_each(desk: Desk, settings: Settings, write: Put | Delete) -> None:
    """Write in every region as it is, and wait until all have it."""

    async def all_regions() -> None:
        for region in settings.regions:
            async with open_store(settings, region) as store:
                await store.write_batch([write])

    desk.portal.call(all_regions)
    desk.wait_replicated()


def everything(desk: Desk) -> list[Any]:
    """Return all items of all regions."""
    settings = desk.settings()
    return [desk.portal.call(items_of, settings, region) for region in REGIONS]


def test_a_healthy_table(desk: Desk) -> None:
    """No problem, no warning, status 0; every check has a line, and prints as a table, too."""
    status, lines = doctor(desk)
    assert (status, wrong(lines)) == (0, [])
    assert {line.check for line in lines} == {
        "settings",
        "credentials",
        "table",
        "replicas",
        "contract",
        "clock",
        "permissions",
        "lag",
        "compactor",
        "hot counters",
        "throttling",
    }
    ran = here(desk, "ledger", "doctor")
    assert (ran.status, "problems: 0, warnings: 0" in ran.out) == (0, True)
    status, lines = doctor(desk, "--region", WEST, "--role", "methods")
    looked_at = {line.region for line in lines if line.check in {"table", "clock", "throttling"}}
    assert (status, looked_at) == (0, {WEST})


def test_nothing_is_changed(desk: Desk) -> None:
    """For every role: all items of all regions are equal before and after.

    Each partition that is tried has items, of which one has the attribute that trials would set.
    """
    assert here(desk, "ledger", "record", "shop", "1").status == 0
    assert here(desk, "ledger", "describe", "shop", "owner=me").status == 0
    settings = desk.settings()
    tried = {
        trial.partition
        for role in Role
        for region in REGIONS
        for trial in trials_of(role, settings, region, number=7)
        if trial.partition and trial.partition != CONTRACT_PARTITION
    }
    assert len(tried) > 15

    async def fill() -> None:
        async with open_store(settings, HOME) as store:
            for partition in tried:
                kept = {"pk": {"S": partition}, "sk": {"S": "~doctor"}, ATTRIBUTE: {"S": "kept"}}
                await store.write(Put(kept))

    desk.portal.call(fill)
    desk.wait_replicated()
    before = everything(desk)
    assert all(len(items) > len(tried) for items in before)
    status, lines = doctor(desk, *ROLES)
    assert (status, wrong(lines)) == (0, [])
    desk.wait_replicated()
    assert everything(desk) == before


def test_a_probe_measures_each_pair_and_leaves_nothing(desk: Desk) -> None:
    """Six pairs of three regions; what was written is deleted again, everywhere."""
    before = everything(desk)
    status, lines = doctor(desk, "--probe")
    assert (status, wrong(lines)) == (0, [])
    pairs = {(line.what.split(":")[0], line.region) for line in lines if line.check == "lag"}
    expected = {
        (f"from {region}", other) for region in REGIONS for other in REGIONS if region != other
    }
    assert pairs == expected
    desk.wait_replicated()
    assert everything(desk) == before


def test_a_pair_that_does_not_replicate(desk: Desk) -> None:
    """A probe names it, and no other."""
    desk.world.pause(HOME, ASIA)
    status, lines = doctor(desk, "--probe", "--timeout", "5")
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (1, "lag", ASIA, "problem")
    assert found.what == f"from {HOME}: not shown within 5 s"
    assert "ledger table status" in found.do


@pytest.mark.parametrize(("seconds", "state"), [(90, "problem"), (-90, "problem"), (45, "warning")])
def test_a_clock_that_is_off(desk: Desk, seconds: float, state: str) -> None:
    """Beyond half of the skew a warning, beyond it a problem, in that region alone."""
    desk.world.set_clock(WEST, seconds)
    status, lines = doctor(desk)
    found = only(lines)
    assert (found.check, found.region, found.state) == ("clock", WEST, state)
    assert status == (state == "problem")
    assert "NTP" in found.do


@pytest.mark.parametrize("region", [WEST, HOME])
def test_a_region_that_is_cut_off(desk: Desk, region: str) -> None:
    """One problem, of its table; what cannot be looked at there is unknown, the rest is ok."""
    desk.world.set_outage(region, on=True)
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (1, "table", region, "problem")
    assert "check network, endpoint" in found.do
    others = {line.state for line in lines if line.region not in {region, "", HOME}}
    assert others <= {"ok", "unknown"}
    assert {line.state for line in lines if line.check == "compactor"} == {"ok"}


def test_a_replica_that_is_missing(desk: Desk) -> None:
    """Its region has no table: it is added, or given up."""
    remove_replica(desk.world, ASIA, through=HOME)
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (1, "table", ASIA, "problem")
    assert "`ledger table create`" in found.do
    assert f"`compactor take-home HOME --lost {ASIA}`" in found.do


def test_a_contract_that_is_pending(desk: Desk) -> None:
    """What it changes, and how to finish it."""
    settings = desk.settings()
    coming = settings.replace(settle="2h").terms
    pending = Contract(terms=settings.terms, revision=101, coming=coming)
    in_each(desk, settings, Put(contract_item(pending)))
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.state) == (0, "contract", "warning")
    assert "to 7200 s" in found.what
    assert "`ledger table set --resume`" in found.do


def test_no_contract(desk: Desk) -> None:
    """One problem for the whole table."""
    in_each(desk, desk.settings(), Delete(contract_key(1)))
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.state) == (1, "contract", "problem")
    assert "`ledger table adopt`" in found.do


def test_no_table(desk: Desk) -> None:
    """A problem in each region, and no other."""
    desk.write_settings(desk.settings(table="nothing"))
    status, lines = doctor(desk)
    assert status == 1
    found = [line for line in lines if line.state == "problem"]
    assert {(line.check, line.region) for line in found} == {
        ("table", region) for region in REGIONS
    }
    assert all("`ledger table create`" in line.do for line in found)


def test_settings_that_differ_from_the_contract(desk: Desk) -> None:
    """Which value, and what to do about it."""
    with (desk.folder / "regions.yaml").open("a", encoding="utf-8") as file:
        file.write("settle: 5h\n")
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.state) == (1, "settings", "problem")
    assert "settle is 18000 s in the settings" in found.what
    assert "`ledger table show`" in found.do


@pytest.mark.parametrize(
    ("operation", "role", "name"),
    [
        ("PutItem", "writer", "PutItem on '~doctor'"),
        ("BatchWriteItem", "reader", "BatchWriteItem on '~hint-0'"),
        ("TransactWriteItems", "operator", ""),
        ("BatchExecuteStatement", "compactor", "PartiQLDelete on '~index-~doctor'"),
    ],
)
def test_a_permission_that_is_denied(desk: Desk, operation: str, role: str, name: str) -> None:
    """The role that needs it has a problem in that region; another has none."""
    desk.world.faults(Fault.DENIED, operations=[operation], regions=[HOME])
    status, lines = doctor(desk, "--role", role)
    if not name:
        assert (status, wrong(lines)) == (0, [])
        return
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (1, "permissions", HOME, "problem")
    assert name in found.what
    assert f"`ledger deploy policy {role}`" in found.do


def test_a_strict_writer_is_tried_as_one(desk: Desk) -> None:
    """By its settings: a plain writer's permissions it does not have, and does not need."""
    desk.write_settings(desk.settings(writer={"strict": True}))
    desk.world.faults(Fault.DENIED, operations=["UpdateItem", "DeleteItem"])
    status, lines = doctor(desk)
    assert (status, wrong(lines)) == (0, [])
    tried = {line.what.partition(":")[0] for line in lines if line.check == "permissions"}
    assert tried == {"reader", "strict-writer"}


def test_what_may_not_be_looked_at_is_unknown(desk: Desk) -> None:
    """A writer may not describe the table: nothing is wrong with it for that."""
    operations = ["DescribeTable", "DescribeTimeToLive", "DescribeContinuousBackups", "Scan"]
    desk.world.faults(Fault.DENIED, operations=operations)
    status, lines = doctor(desk)
    assert (status, wrong(lines)) == (0, [])
    unknown = {(line.check, line.region) for line in lines if line.state == "unknown"}
    assert {("table", region) for region in REGIONS} <= unknown
    assert ("hot counters", HOME) in unknown


def test_a_look_that_hangs_hides_no_other(desk: Desk) -> None:
    """It is unknown in time; the table is described, and all else is looked at."""
    desk.world.faults(Fault.HANG, operations=["DescribeTimeToLive"], regions=[WEST])
    status, lines = doctor(desk, "--timeout", LOOK_SECONDS)
    assert (status, wrong(lines)) == (0, [])
    found = [line for line in lines if (line.check, line.region) == ("table", WEST)]
    assert {line.state for line in found} == {"ok", "unknown"}
    assert any("time to live: no answer" in line.what for line in found)


def test_time_to_live_by_another_attribute(desk: Desk) -> None:
    """Entries that have it would expire."""
    client_of(HOME, desk.world.endpoints[HOME]).update_time_to_live(
        TableName=desk.world.table,
        TimeToLiveSpecification={"Enabled": True, "AttributeName": "when"},
    )
    status, lines = doctor(desk)
    found = wrong(lines)
    assert status == 1
    assert {(line.check, line.state) for line in found} == {("table", "problem")}
    assert all("time to live goes by 'when'" in line.what for line in found)
    assert all("turn it off" in line.do for line in found)


def test_protection_that_is_off(desk: Desk) -> None:
    """A warning, and what turns it on again."""
    client_of(WEST, desk.world.endpoints[WEST]).update_table(
        TableName=desk.world.table, DeletionProtectionEnabled=False
    )
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (0, "table", WEST, "warning")
    assert "`ledger table create`" in found.do


def test_requests_that_are_throttled(desk: Desk) -> None:
    """The code that DynamoDB answered with; a permission is then not known to be there."""
    desk.world.faults(Fault.THROTTLE, operations=["PutItem"], regions=[WEST])
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (0, "throttling", WEST, "warning")
    assert "ProvisionedThroughputExceeded" in found.what


def test_a_hot_counter(desk: Desk) -> None:
    """It is named by a hint or by its size, and how many shards it wants."""
    settings, now = desk.settings(), SystemClock().now()
    step = timedelta(seconds=1 / 600)
    items = [
        {
            "pk": {"S": "hits"},
            "sk": {"S": sort_key(now - place * step, place)},
            "change": {"N": "1"},
        }
        for place in range(6_000)
    ]
    hint = hint_for("hits", now, settle=settings.settle)
    assert hint is not None

    async def fill() -> None:
        async with open_store(settings, HOME) as store:
            await store.write_batch([Put(hint.item)])
            async with anyio.create_task_group() as tasks:
                for first in range(0, len(items), BATCH_WRITES_MAX):
                    writes = [Put(item) for item in items[first : first + BATCH_WRITES_MAX]]
                    tasks.start_soon(_write, store, writes)

    desk.portal.call(fill)
    status, lines = doctor(desk)
    found = only(lines)
    assert (status, found.check, found.region, found.state) == (0, "hot counters", HOME, "warning")
    assert "'hits' took about 500 changes a second" in found.what
    assert "`ledger table set shards 'hits=2'`" in found.do


async def _write(store: Store, writes: list[Put]) -> None:
    assert (await store.write_batch(writes)).unprocessed == ()


def test_no_compactor(tmp_path: Path) -> None:
    """A new table that nothing merges yet: a warning."""
    with open_desk(tmp_path, regions=(HOME, WEST)) as desk:
        desk.write_settings(desk.settings())
        status, lines = doctor(desk)
        found = only(lines)
        assert (status, found.check, found.state) == (0, "compactor", "warning")
        assert "`compactor run --every 60s`" in found.do


EXPIRED = (
    400,
    "application/x-amz-json-1.0",
    b'{"__type": "com.amazon.coral.service#ExpiredTokenException", "message": "expired"}',
)


def test_expired_credentials(tmp_path: Path) -> None:
    """A problem of the credentials, and no other: what they kept from being seen is unknown."""
    with answering(EXPIRED, is_aws=True) as home, answering(EXPIRED, is_aws=True) as west:
        text = f"regions: {{{HOME}: {{endpoint: '{home}'}}, {WEST}: {{endpoint: '{west}'}}}}\n"
        (tmp_path / "regions.yaml").write_text(text, encoding="utf-8")
        ran = run_command_here("ledger", "doctor", "--json", folder=tmp_path)
    lines = [Line(**json.loads(line)) for line in ran.out.splitlines()]
    assert ran.status == 1
    assert {(one.check, one.region, one.state) for one in wrong(lines)} == {
        ("credentials", region, "problem") for region in (HOME, WEST)
    }
    assert all("log in again" in one.do for one in wrong(lines))


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    """A line for each thing that is wrong with them."""
    text = f"regions: {{{HOME}: {{}}}}\nsettle: soon\nhom: {HOME}\n"
    (tmp_path / "regions.yaml").write_text(text, encoding="utf-8")
    ran = run_command_here("ledger", "doctor", "--json", folder=tmp_path)
    lines = [Line(**json.loads(line)) for line in ran.out.splitlines()]
    assert (ran.status, {one.check for one in lines}) == (1, {"settings"})
    assert any("settle is 'soon'" in one.what for one in lines)
    assert any("hom is not a setting" in one.what for one in lines)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--role", "nobody"], "'nobody' is not one of writer, corrector, spender, strict-"),
        (["--probe", "--region", HOME], "--probe measures between regions"),
        (["--sample", "101"], "--sample"),
        (["--timeout", "0"], "--timeout must be 1 to 300 seconds, got 0"),
        (["--timeout", "nan"], "--timeout must be 1 to 300 seconds, got nan"),
    ],
)
def test_a_wrong_command_line(tmp_path: Path, options: list[str], error: str) -> None:
    """One line, and status 2."""
    (tmp_path / "regions.yaml").write_text(f"regions: {{{HOME}: {{}}}}\n", encoding="utf-8")
    ran = run_command_here("ledger", "doctor", *options, folder=tmp_path)
    assert ran.status == 2
    assert error in ran.errors
    assert ran.errors.count("\n") == 1
