"""A region whose tables are gone: it says so, the others go on, and it comes back filled."""

import os
import signal
import socket
import subprocess
from typing import Any

import anyio
import pytest
from botocore.exceptions import ClientError
from support.fragile import Fragile, installed, until
from support.local_worlds import ASIA, EAST, TABLE, WEST, code, open_world

from ledger.core.errors import LocalTableError
from ledger.local.engines.dynoxide import DynoxideEngine
from ledger.local.engines.port import ApiError, TableKey
from ledger.local.expiry import Expiry
from ledger.local.status import problems

WAIT_SECONDS = 20.0
ALONE: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Fragile:
    """The engine of the tables that a test opens."""
    return installed(monkeypatch)


async def test_a_region_that_is_gone_says_so_and_stops_no_other(
    engine: Fragile, caplog: pytest.LogCaptureFixture
) -> None:
    """Its endpoint answers 503, status and log name the reason, and the others replicate on."""
    async with open_world() as world:
        for pk in ("before", "deleted"):
            await world.put(EAST, pk, n=1)
        await world.table.wait_replicated()
        engine.startable = False
        engine.break_region(WEST)
        status = await until(world, lambda status: status["unavailable"].get(WEST, {}).get("tries"))
        assert status["unavailable"][WEST]["error"] == "the disk is still full"
        assert status["states"][f"{EAST} {WEST}"] == "unavailable"
        (problem,) = problems(status)
        assert problem.startswith(f"{WEST} is unavailable since ")
        assert "the disk is full" in problem
        for request in (world.get(WEST, "before"), world.put(WEST, "new")):
            with pytest.raises(ClientError, match="the disk is full") as caught:
                await request
            assert code(caught.value) == "ServiceUnavailable"
            assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        await world.put(EAST, "meanwhile", n=2)
        await world.delete(EAST, "deleted")
        await until(world, lambda status: status["applied"] == 6)
        assert await world.number(ASIA, "meanwhile") == "2"
        with pytest.raises(LocalTableError, match=rf"{EAST} -> {WEST} \(unavailable\)"):
            await world.table.wait_replicated(timeout=0.05)
        engine.startable = True
        await until(world, lambda status: not status["unavailable"])
        await world.table.wait_replicated()
        assert await world.numbers("before") == ["1"] * 3
        assert await world.numbers("meanwhile") == ["2"] * 3
        assert await world.numbers("deleted") == [None] * 3
        assert problems(world.table.status()) == []
        for said in (
            "unavailable: the disk is full",
            "again: the disk is still full",
            "is back: 2",
        ):
            assert said in caplog.text


async def test_no_table_is_made_or_deleted_where_its_region_is_gone(engine: Fragile) -> None:
    """Such a request is refused and changes nothing, so that the region comes back as it was."""
    async with open_world() as world:
        engine.startable = False
        engine.break_region(WEST)
        await until(world, lambda status: WEST in status["unavailable"])
        east = world.clients[EAST]
        stream = {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        await east.create_table(TableName="other", **ALONE, StreamSpecification=stream)
        for name, kind in (("other", "Create"), (TABLE, "Delete")):
            update = [{kind: {"RegionName": WEST}}]
            with pytest.raises(ClientError, match="the disk is full") as caught:
                await east.update_table(TableName=name, ReplicaUpdates=update)
            assert code(caught.value) == "ServiceUnavailable"
        engine.startable = True
        await until(world, lambda status: not status["unavailable"])
        assert (await world.clients[WEST].list_tables())["TableNames"] == [TABLE]
        await world.put(WEST, "a", n=1)
        await world.table.wait_replicated()
        assert await world.numbers("a") == ["1"] * 3


async def test_a_restart_tells_what_came_back_and_what_was_lost(engine: Fragile) -> None:
    """Items of other regions are filled in; those of a table of one region alone are named."""
    async with open_world() as world:
        await world.put(EAST, "kept", n=1)
        await world.table.wait_replicated()
        await world.clients[WEST].create_table(TableName="alone", **ALONE)
        await world.clients[WEST].put_item(TableName="alone", Item={"pk": {"S": "gone"}})
        engine.break_region(WEST)
        status = await until(world, lambda status: WEST in status["restarts"])
        (restart,) = status["restarts"][WEST]
        assert restart["reason"] == "the disk is full"
        assert (restart["filled"], restart["lost"]) == (1, 1)
        assert restart["lost_keys"] == ["alone 'gone'"]
        assert problems(status) == [f"{WEST} has lost 1 items that were nowhere else"]
        await world.put(WEST, "kept", n=2)
        await world.table.wait_replicated()
        assert await world.numbers("kept") == ["2"] * 3


async def test_what_a_region_had_written_before_it_was_gone_is_not_lost(engine: Fragile) -> None:
    """Writes that have not left the region yet come back to it, and reach the others later."""
    async with open_world() as world:
        for other in (EAST, ASIA):
            world.table.pause(WEST, other)
        await world.put(WEST, "own", n=1)
        engine.break_region(WEST)
        status = await until(world, lambda status: WEST in status["restarts"])
        assert problems(status) == []
        assert await world.numbers("own") == [None, "1", None]
        world.table.heal_all()
        await world.table.wait_replicated()
        assert await world.numbers("own") == ["1"] * 3


async def test_an_item_that_cannot_be_delivered_is_named(
    engine: Fragile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status names link, key, error and tries; other items go on; the item arrives at last."""
    apply, refusing = engine.apply, True

    async def refuse(region: str, changes: Any) -> None:
        bad = any(change.key["pk"]["S"] == "bad" for change in changes)
        if refusing and region == WEST and bad:
            raise OSError("it cannot be written")
        await apply(region, changes)

    monkeypatch.setattr(engine, "apply", refuse)
    async with open_world() as world:
        await world.put(EAST, "bad", n=1)
        await world.put(EAST, "good", n=1)
        status = await until(
            world, lambda status: any(failure["tries"] > 2 for failure in status["failures"])
        )
        (failure,) = status["failures"]
        assert (failure["source"], failure["target"]) == (EAST, WEST)
        assert failure["key"] == "ledger 'bad' 'x'"
        assert failure["error"] == "it cannot be written"
        assert status["states"][f"{EAST} {WEST}"] == "failing"
        assert "it cannot be written" in problems(status)[0]
        assert await world.number(WEST, "good") == "1"
        with pytest.raises(LocalTableError, match="1 fail: it cannot be written"):
            await world.table.wait_replicated(timeout=0.05)
        refusing = False
        await world.table.wait_replicated()
        assert await world.numbers("bad") == ["1"] * 3
        assert problems(world.table.status()) == []


async def test_a_part_that_stops_is_named_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error that nothing foresaw ends one part, and status says which and why."""

    async def fail(self: Expiry, region: str) -> None:
        raise RuntimeError(f"{self} cannot sweep {region}")

    monkeypatch.setattr(Expiry, "sweep", fail)
    async with open_world() as world:
        status = await until(world, lambda status: status["stopped"])
        (problem,) = problems(status)
        assert problem.startswith("expiry has stopped: ")
        assert "cannot sweep" in problem
        await world.put(EAST, "a", n=1)
        await world.table.wait_replicated()
        assert await world.numbers("a") == ["1"] * 3


def engine_processes() -> set[int]:
    """Return the ids of our dynoxide processes."""
    command = ["ps", "-o", "pid=,comm=", "--ppid", str(os.getpid())]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return {int(line.split()[0]) for line in listed.stdout.splitlines() if "dynoxide" in line}


@pytest.mark.engines("dynoxide")
async def test_a_killed_engine_process_is_started_again() -> None:
    """After kill -9 of one region's process no item is missing in any region."""
    others = engine_processes()
    async with open_world("dynoxide") as world:
        _, west, _ = sorted(engine_processes() - others)
        for number in range(60):
            await world.put(EAST, "a", str(number))
        await world.table.wait_replicated()
        os.kill(west, signal.SIGKILL)
        status = await until(world, lambda status: WEST in status["restarts"])
        (restart,) = status["restarts"][WEST]
        assert restart["reason"] == "its process ended with status -9"
        assert (restart["filled"], restart["lost"]) == (60, 0)
        await world.put(WEST, "b", n=1)
        await world.table.wait_replicated()
        assert await world.numbers("b") == ["1"] * 3
        assert len(await world.everything(WEST)) == 61


@pytest.mark.engines("dynoxide")
async def test_an_engine_process_that_does_not_answer_is_ended() -> None:
    """What it did is unknown, so its region counts as gone and is started again, empty."""
    engine = DynoxideEngine(call_seconds_max=1.5)
    try:
        await engine.start([EAST])
        await engine.create(EAST, TABLE, TableKey(("pk",), ("S",)))
        with socket.create_server(("127.0.0.1", 0)) as silent:
            engine._urls[EAST] = f"http://127.0.0.1:{silent.getsockname()[1]}"
            with pytest.raises(ApiError, match="did not answer") as caught:
                await engine.count(EAST, TABLE)
        assert caught.value.status == 500
        with anyio.fail_after(WAIT_SECONDS):
            assert await engine.until_gone(EAST) == "its process did not answer for 1.5 s"
        await engine.restart(EAST)
        await engine.create(EAST, TABLE, TableKey(("pk",), ("S",)))
        os.kill(engine._processes[EAST].pid, signal.SIGKILL)
        with anyio.fail_after(WAIT_SECONDS):
            assert await engine.until_gone(EAST) == "its process ended with status -9"
    finally:
        await engine.close()
