"""`ledger local` beside a running table: what each command changes, and what status shows."""

import anyio.to_thread
import pytest
from botocore.exceptions import ClientError
from support.fragile import installed, until
from support.local_worlds import EAST, WEST, World, code, open_world
from typer.testing import CliRunner

from ledger.commands.local import app
from ledger.core.errors import InvalidInput, LocalTableError


async def run(world: World, *arguments: str, status: int = 0) -> str:
    """Run a command, check how it ends, and return what it printed in one line."""
    command = [*arguments, "--control-url", world.table.control_url]
    result = await anyio.to_thread.run_sync(CliRunner().invoke, app, command)
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


async def test_an_outage_is_shown_until_it_ends() -> None:
    """The region and its links say so; it was asked for, so status ends with 0."""
    async with open_world() as world:
        assert f"{world.table.endpoints[WEST]} outage" in await run(world, "outage", WEST, "on")
        shown = await run(world, "status")
        assert f"{EAST} {WEST} outage 0" in shown
        with pytest.raises(ClientError) as caught:
            await world.put(WEST, "a")
        assert code(caught.value) == "ServiceUnavailable"
        assert "outage" not in await run(world, "outage", WEST, "off")
        assert "must be on or off, got 'no'" in await run(world, "outage", WEST, "no", status=2)


async def test_a_fault_is_shown_with_its_share_and_its_count() -> None:
    """A fault is injected until another takes its place, or `none`."""
    async with open_world() as world:
        chosen = ["--operations", "PutItem", "--regions", f"{EAST},{WEST}"]
        shown = await run(world, "fault", "throttle", *chosen)
        assert f"fault throttle in 100% of PutItem in {WEST}, {EAST}; 0 injected" in shown
        with pytest.raises(ClientError) as caught:
            await world.put(EAST, "a")
        assert code(caught.value) == "ProvisionedThroughputExceededException"
        assert "1 injected" in await run(world, "status")
        shown = await run(world, "fault", "hang", "--probability", "0.25")
        assert "fault hang in 25% of all operations in all regions" in shown
        assert "throttle" not in shown
        assert "fault" not in await run(world, "fault", "none")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["fault", "fire"], InvalidInput, "KIND must be one of error_500, .*, none, got 'fire'"),
        (["fault", "hang", "--probability", "2"], LocalTableError, "probability must be between"),
        (["outage", "mars-1", "on"], LocalTableError, "region must be one of"),
        (["lose", "mars-1"], LocalTableError, "region must be one of"),
    ],
)
async def test_what_cannot_be_is_refused(
    arguments: list[str], error: type[Exception], message: str
) -> None:
    """An unknown kind, share or region is named, with the rule."""
    async with open_world(create=False) as world:
        command = [*arguments, "--control-url", world.table.control_url]
        result = await anyio.to_thread.run_sync(CliRunner().invoke, app, command)
        with pytest.raises(error, match=message):
            raise result.exception or AssertionError(result.output)


async def test_a_reset_deletes_all_items() -> None:
    """The items are gone, and the table is there."""
    async with open_world() as world:
        await world.put(EAST, "a", n=1)
        await world.table.wait_replicated()
        await run(world, "reset")
        assert await world.numbers("a") == [None] * 3


async def test_status_ends_with_1_while_something_is_wrong(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A region that is gone is shown with its reason; once it is back, that it was restarted."""
    engine = installed(monkeypatch)
    async with open_world() as world:
        await run(world, "status")
        engine.startable = False
        engine.break_region(WEST)
        await until(world, lambda status: status["unavailable"].get(WEST, {}).get("tries"))
        shown = await run(world, "status", status=1)
        assert f"{world.table.endpoints[WEST]} unavailable" in shown
        assert f"{EAST} {WEST} unavailable 0" in shown
        assert f"wrong: {WEST} is unavailable since" in shown
        assert "the last one: the disk is still full" in shown
        engine.startable = True
        await until(world, lambda status: not status["unavailable"])
        shown = await run(world, "status")
        assert f"{WEST} was started again at" in shown
        assert "(the disk is full): 0 items filled in again, 0 lost" in shown
