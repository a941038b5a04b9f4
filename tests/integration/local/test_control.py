"""The local global table as its holder sees it: faults, control port, child process, commands."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from support.engines import ENGINES, REGIONS
from support.local_worlds import EAST, TABLE, WEST, World, clients, code, item, open_world
from typer.testing import CliRunner

from ledger.commands.local import app
from ledger.core.errors import LedgerError, LocalTableError
from ledger.local import Fault, LocalGlobalTable
from ledger.local.front.faults import FaultRule

pytestmark = pytest.mark.slow

WAIT_SECONDS = 20.0


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    with anyio.fail_after(WAIT_SECONDS):
        while not condition():  # noqa: ASYNC110 (another process or thread makes it so)
            await anyio.sleep(0.02)


def alive(process_id: int) -> bool:
    """Tell whether a process runs; one that is dead but not yet waited for does not."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def descendants(process_id: int) -> list[int]:
    """Give the ids of the processes below this one."""
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process_id)], capture_output=True, text=True, check=False
    )
    # `ps` lists itself among ours, but has ended by now.
    children = [child for child in map(int, listed.stdout.split()) if alive(child)]
    return children + [below for child in children for below in descendants(child)]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.ERROR_500, "InternalServerError"),
        (Fault.THROTTLE, "ProvisionedThroughputExceededException"),
        (Fault.CONFLICT, "TransactionConflictException"),
        (Fault.DENIED, "AccessDeniedException"),
    ],
)
async def test_refusing_faults_apply_nothing(world: World, fault: Fault, kind: str) -> None:
    """Each is answered as DynamoDB answers it, and nothing is written."""
    world.table.faults(fault, operations=["PutItem"])
    with pytest.raises(ClientError) as caught:
        await world.put(EAST, "a", n=1)
    assert code(caught.value) == kind
    world.table.faults(None)
    assert await world.get(EAST, "a") is None
    assert world.table.status()["faults"] == 1


async def test_a_lost_answer_leaves_the_write_behind(world: World) -> None:
    """The connection closes without an answer, but the write is there and replicates."""
    world.table.faults(Fault.LOST_ANSWER, operations=["PutItem"], regions=[EAST])
    with pytest.raises(ConnectionClosedError):
        await world.put(EAST, "a", n=1)
    await world.table.wait_replicated()
    assert await world.numbers("a") == ["1"] * 3


async def test_a_signature_for_another_region_is_refused(world: World) -> None:
    """A port is one region, and takes what was signed for it: as AWS does."""
    async with clients({WEST: world.table.endpoints[EAST]}) as there:
        with pytest.raises(ClientError, match="scoped to a valid region") as caught:
            await there[WEST].put_item(TableName=TABLE, Item=item("a", n=1))
    assert code(caught.value) == "InvalidSignatureException"
    assert await world.get(EAST, "a") is None


async def test_a_gateway_answers_what_never_arrives(world: World) -> None:
    """The SDK takes `{}` with status 200 for a success; the ledger's stores do not."""
    world.table.faults(Fault.GATEWAY, operations=["PutItem"], regions=[EAST])
    await world.put(EAST, "a", n=1)
    world.table.faults(None)
    assert await world.get(EAST, "a") is None


async def test_half_of_a_batch_comes_back_unprocessed(world: World) -> None:
    """The answer names exactly the requests that were not carried out, of writes and of reads."""
    client = world.clients[EAST]
    requests = [{"PutRequest": {"Item": item("a", str(number))}} for number in range(5)]
    world.table.faults(Fault.UNPROCESSED)
    answer = await client.batch_write_item(RequestItems={TABLE: requests})
    assert answer["UnprocessedItems"] == {TABLE: requests[3:]}
    keys = [item("a", str(number)) for number in range(5)]
    read = await client.batch_get_item(RequestItems={TABLE: {"Keys": keys}})
    assert read["UnprocessedKeys"][TABLE]["Keys"] == keys[3:]
    world.table.faults(None)
    assert len(await world.everything(EAST)) == 3


async def test_a_transaction_in_conflict_is_cancelled_with_its_reason(world: World) -> None:
    """A conflict cancels a transaction with TransactionConflict as the reason of an action."""
    world.table.faults(Fault.CONFLICT)
    actions = [{"Put": {"TableName": TABLE, "Item": item("a", str(n))}} for n in range(2)]
    with pytest.raises(ClientError, match="TransactionConflict, None") as caught:
        await world.clients[EAST].transact_write_items(TransactItems=actions)
    assert code(caught.value) == "TransactionCanceledException"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [(Fault.UNPROCESSED, "ThrottlingError"), (Fault.CONFLICT, "TransactionConflict")],
)
async def test_half_of_a_batch_of_statements_is_refused(
    world: World, fault: Fault, kind: str
) -> None:
    """The others are carried out, and each answer stands in its place."""
    world.table.faults(fault)
    insert = f"INSERT INTO \"{TABLE}\" VALUE {{'pk':?, 'sk':?}}"
    asked = [{"Statement": insert, "Parameters": [*item("a", str(n)).values()]} for n in range(5)]
    answer = await world.clients[EAST].batch_execute_statement(Statements=asked)
    codes = [each.get("Error", {}).get("Code") for each in answer["Responses"]]
    assert codes == [None, None, None, kind, kind]
    world.table.faults(None)
    assert len(await world.everything(EAST)) == 3


async def test_a_hanging_request_applies_nothing_and_holds_up_nobody() -> None:
    """The client waits until it gives up; other requests are answered meanwhile."""

    def hook(region: str, operation: str, body: Mapping[str, Any]) -> Fault | None:
        del region, operation
        return Fault.HANG if body.get("Item", {}).get("pk") == {"S": "stuck"} else None

    async with open_world(fault=hook) as world:
        stuck = asyncio.ensure_future(world.put(EAST, "stuck"))
        await until(lambda: world.table.status()["faults"] == 1)
        await world.put(EAST, "free")
        assert not stuck.done()
        stuck.cancel()
        with pytest.raises((asyncio.CancelledError, ReadTimeoutError)):
            await stuck
        assert await world.get(EAST, "stuck") is None


async def test_a_slow_request_is_applied_although_its_client_has_given_up() -> None:
    """It waits for its turn, and lands whether or not somebody still waits for the answer."""
    async with open_world() as world:
        world.table.faults(Fault.SLOW)
        given_up = asyncio.ensure_future(world.put(EAST, "a", n=1))
        await until(lambda: world.table.status()["faults"] == 1)
        given_up.cancel()
        world.table.faults(None)
        await until_shown(world, "a")


async def until_shown(world: World, pk: str) -> None:
    """Wait until an item is there."""
    async with asyncio.timeout(WAIT_SECONDS):
        while await world.get(EAST, pk) is None:  # noqa: ASYNC110 (the table says nothing)
            await anyio.sleep(0.01)


async def test_several_faults_at_once_are_counted_by_kind(world: World) -> None:
    """Each request meets the first rule that hits it; the status tells how many of each kind."""
    world.table.set_faults(
        [
            FaultRule(Fault.THROTTLE, 1.0, frozenset({"PutItem"}), frozenset({EAST})),
            FaultRule(Fault.ERROR_500, 1.0, frozenset({"PutItem"})),
        ]
    )
    for region, kind in ((EAST, "ProvisionedThroughputExceededException"), (WEST, "InternalServ")):
        with pytest.raises(ClientError, match=kind):
            await world.put(region, "a")
    assert await world.get(EAST, "a") is None
    assert world.table.status()["faults_by_kind"] == {"throttle": 1, "error_500": 1}


@pytest.mark.parametrize(
    ("covered", "message"),
    [
        ({"operations": ["PutItem", "PutItems"]}, "operation must be .*PutItem.*, got 'PutItems'"),
        ({"regions": ["us-east-9"]}, f"region must be one of {EAST}, .*, got 'us-east-9'"),
    ],
)
async def test_a_fault_of_nothing_is_refused(world: World, covered: Any, message: str) -> None:
    """A fault of an operation or region that is not there would never be injected."""
    with pytest.raises(LocalTableError, match=message):
        world.table.faults(Fault.THROTTLE, **covered)
    world.table.faults(Fault.THROTTLE, operations=["CreateTable", "PutItem"], regions=[EAST])


async def test_random_faults_repeat_with_their_seed() -> None:
    """The same seed fails the same requests, another seed others."""

    async def failures(seed: int) -> list[int]:
        failed = []
        async with open_world(seed=seed) as world:
            world.table.faults(Fault.ERROR_500, probability=0.5, operations=["PutItem"])
            for number in range(20):
                try:
                    await world.put(EAST, "a", str(number))
                except ClientError:
                    failed.append(number)
        return failed

    first = await failures(1)
    assert 0 < len(first) < 20
    assert await failures(1) == first
    assert await failures(2) != first


async def test_another_holder_controls_a_running_table(world: World) -> None:
    """Through the control port a table is paused, slowed, healed and waited for while it runs."""
    other = LocalGlobalTable.connect(world.table.control_url)
    assert other.endpoints == world.table.endpoints
    other.pause(EAST, WEST)
    other.set_lag(0.001, 0.0)
    await world.put(EAST, "a", n=1)
    await until(lambda: other.status()["applied"] == 1)
    status = other.status()
    assert (status["lag"], status["jitter"]) == (0.001, 0.0)
    assert status["queued"][f"{EAST} {WEST}"] == 1
    other.heal_all()
    await other.wait_replicated()
    assert await world.numbers("a") == ["1"] * 3


@pytest.mark.parametrize(
    ("ask", "rule"),
    [
        (
            lambda table: table.pause(EAST, "mars-1"),
            "region must be one of us-east-1, .*got 'mars-1'",
        ),
        (lambda table: table.heal(EAST, EAST), "does not replicate to itself"),
        (lambda table: table.set_lag(-1), "lag must be between 0 and 600 seconds, got -1"),
        (lambda table: table.set_clock("mars-1", 1), "region must be one of .*got 'mars-1'"),
        (lambda table: table.set_clock(EAST, 9e9), "seconds must be between -86,400 and 86,400"),
        (
            lambda table: table.faults(Fault.HANG, probability=2),
            "probability must be between 0 and 1, got 2",
        ),
    ],
)
async def test_wrong_control_requests_name_the_rule(
    ask: Callable[[LocalGlobalTable], None], rule: str
) -> None:
    """The same clear error comes from a table in the process and from one elsewhere."""
    async with open_world(create=False) as world:
        for table in (world.table, LocalGlobalTable.connect(world.table.control_url)):
            with pytest.raises(LocalTableError, match=rule):
                ask(table)


async def test_a_stopped_table_answers_with_one_clear_error() -> None:
    """After the end neither the object nor its control URL hangs or crashes."""
    async with open_world(create=False) as world:
        url = world.table.control_url
    with pytest.raises(LocalTableError, match="not running"):
        world.table.heal_all()
    with pytest.raises(LocalTableError, match="no local global table answers"):
        LocalGlobalTable.connect(url)


async def test_a_taken_port_is_one_clear_error() -> None:
    """A second table on the same ports says which port is taken."""
    async with open_world(create=False) as world:
        port = int(world.table.control_url.rpartition(":")[2])
        with pytest.raises(LocalTableError, match=f"port {port} .* cannot be opened"):
            async with LocalGlobalTable.start(regions=[EAST], control_port=port, create=False):
                pass


async def test_a_missing_engine_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the dynoxide program the error names the command that installs it."""
    monkeypatch.delenv("LEDGER_DYNOXIDE", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir("/")
    with pytest.raises(LocalTableError, match=r"npm i --prefix \.engines @dynoxide/linux-x64"):
        async with LocalGlobalTable.start(regions=[EAST], engine="dynoxide"):
            pass


async def test_a_spawned_table_works_like_one_in_the_process() -> None:
    """Endpoints, control and replication are the same in a child process, which ends at the end."""
    before = set(descendants(os.getpid()))
    async with (
        LocalGlobalTable.spawn(regions=REGIONS, lag=0.001, jitter=0.01) as table,
        clients(table.endpoints) as opened,
    ):
        child = (set(descendants(os.getpid())) - before).pop()
        world = World(table, opened)
        table.pause(EAST, WEST)
        await world.put(EAST, "a", n=1)
        table.heal_all()
        await table.wait_replicated()
        assert await world.numbers("a") == ["1"] * 3
        assert alive(child)
    assert not alive(child)


async def test_a_spawned_table_that_cannot_start_says_why() -> None:
    """The child's error is the caller's."""
    with pytest.raises(
        LocalTableError, match="engine must be one of memory, dynoxide, got 'oracle'"
    ):
        async with LocalGlobalTable.spawn(regions=REGIONS, engine="oracle"):
            pass


PARENT = """
import sys, anyio
from ledger.local import LocalGlobalTable

async def main():
    async with LocalGlobalTable.spawn(regions=["us-east-1", "eu-west-1"], engine=sys.argv[1]):
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


@pytest.mark.parametrize("engine", ENGINES)
async def test_nothing_outlives_a_killed_parent(engine: str) -> None:
    """After kill -9 of the parent neither the table nor its engine's processes remain."""
    command = [sys.executable, "-c", PARENT, engine]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:  # noqa: ASYNC220 (to be killed)
        assert parent.stdout is not None
        line = await anyio.to_thread.run_sync(parent.stdout.readline)
        assert line == b"ready\n"
        below = descendants(parent.pid)
        assert len(below) == (1 if engine == "memory" else 3)
        parent.kill()
    await until(lambda: not any(map(alive, below)))


async def test_up_prints_how_to_reach_it_and_stops_cleanly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` serves, the other commands find and control it, and SIGTERM ends it with status 0."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    config = tmp_path / "regions.yaml"
    command = [
        *(sys.executable, "-c", "from ledger.commands.local import app; app()", "up"),
        *("--lag", "1ms", "--write-config", str(config)),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: ASYNC220
        folder = tmp_path / "ledger" / "local"
        await until(lambda: any(one.stat().st_size for one in folder.glob("*.json")))
        (state,) = folder.iterdir()
        run = CliRunner().invoke
        paused = await anyio.to_thread.run_sync(run, app, ["pause", EAST, WEST])
        assert paused.exit_code == 0, paused.output
        assert "paused" in paused.output
        assert "paused" not in (await anyio.to_thread.run_sync(run, app, ["heal"])).output
        slowed = await anyio.to_thread.run_sync(run, app, ["lag", "1.5", "--jitter", "250ms"])
        assert "lag 1.5 s, jitter 0.25 s" in slowed.output
        wrong = await anyio.to_thread.run_sync(run, app, ["clock", WEST, "-700"])
        assert f"clock of {WEST}: -700 s" in wrong.output
        url = json.loads(state.read_text(encoding="utf-8"))["control_url"]
        process.send_signal(signal.SIGTERM)
        output = await anyio.to_thread.run_sync(lambda: process.communicate(timeout=30)[0])
    assert process.returncode == 0
    assert url in output
    assert "export AWS_ACCESS_KEY_ID=" in output
    assert f"home: {EAST}" in config.read_text(encoding="utf-8")
    assert not state.exists()
    result = CliRunner().invoke(app, ["status"])
    assert isinstance(result.exception, LocalTableError)


def test_up_never_writes_over_a_foreign_file(tmp_path: Path) -> None:
    """A file that `up` did not write stays as it is."""
    config = tmp_path / "regions.yaml"
    config.write_text("home: precious\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["up", "--write-config", str(config)])
    assert isinstance(result.exception, LedgerError)
    assert str(result.exception) == f"{config} already exists: --force replaces it"
    assert config.read_text(encoding="utf-8") == "home: precious\n"
