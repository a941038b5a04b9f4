"""The global table made and deleted through boto3 on the local global table."""

import socket
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest
from typer.testing import CliRunner

from ledger.administration.table import Patience, connect, create_table, delete_table, table_state
from ledger.administration.table_plan import StepKind
from ledger.commands import table as table_commands
from ledger.core.errors import AccessDenied, RequestRefused, TableMissing, Unreachable
from ledger.local import LocalGlobalTable
from ledger.primitives.counters.marker_items import marker_key
from ledger.settings import Settings
from ledger.settings.groups import Region
from ledger.store.connections import open_store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Rejected
from ledger.table import Table

pytestmark = pytest.mark.slow

REGIONS = ["us-east-1", "eu-west-1", "ap-southeast-1"]


QUICK = Patience(poll_seconds=0.02)


async def created(settings: Settings) -> list[StepKind]:
    """Create the table, away from the event loop that serves it, and give the steps taken."""
    state = await anyio.to_thread.run_sync(lambda: create_table(settings, patience=QUICK))
    assert state.left == ()
    return [step.kind for step in state.taken]


async def test_the_table_is_made_once_and_replicates() -> None:
    """A first run makes table, replicas and protections, a second nothing; items replicate."""
    async with LocalGlobalTable.start(regions=REGIONS, create=False) as world:
        settings = world.settings()
        assert await created(settings) == [
            StepKind.CREATE,
            *[StepKind.REPLICA] * 2,
            *[StepKind.RECOVERY] * 3,
            *[StepKind.PROTECT] * 3,
        ]
        assert await created(settings) == []
        item = {"pk": {"S": "a"}, "sk": {"S": "b"}}
        clients = connect(settings)

        def put() -> None:
            clients["eu-west-1"].put_item(TableName=settings.table, Item=item)

        await anyio.to_thread.run_sync(put)
        await world.wait_replicated()
        for client in clients.values():
            get = partial(client.get_item, TableName=settings.table, Key=item)
            got = await anyio.to_thread.run_sync(get)
            assert got["Item"] == item


async def test_what_is_missing_is_finished() -> None:
    """A table and one replica made by hand get the rest, and nothing twice."""
    async with LocalGlobalTable.start(regions=REGIONS, create=False) as world:
        settings = world.settings()
        await created(
            settings.replace(regions={name: settings.regions[name] for name in REGIONS[:2]})
        )
        assert await created(settings) == [StepKind.REPLICA, StepKind.RECOVERY, StepKind.PROTECT]


async def test_time_to_live_is_turned_on_for_all_replicas() -> None:
    """With the setting a table made without it gets it by one step, once, in every region."""
    async with LocalGlobalTable.start(regions=REGIONS, create=False) as world:
        settings = world.settings()
        await created(settings)
        expiring = settings.replace(time_to_live=True)
        assert await created(expiring) == [StepKind.EXPIRY]
        assert await created(expiring) == []
        state = await anyio.to_thread.run_sync(lambda: table_state(expiring))
        assert {view.expires for view in state.views.values() if view} == {"~expires"}


async def test_a_table_with_other_keys_is_named() -> None:
    """A table of another application with the same name is left alone."""
    async with LocalGlobalTable.start(regions=REGIONS, create=False) as world:
        settings = world.settings()
        client = connect(settings)["us-east-1"]

        def create() -> None:
            client.create_table(
                TableName=settings.table,
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "N"}],
                BillingMode="PAY_PER_REQUEST",
            )

        await anyio.to_thread.run_sync(create)
        with pytest.raises(RequestRefused, match=r"its keys are id \(N, HASH\)"):
            await created(settings)


async def test_a_deleted_table_is_gone_everywhere_and_can_be_made_again() -> None:
    """Deleting takes off the protections, and leaves no replica behind."""
    async with LocalGlobalTable.start(regions=REGIONS, create=False) as world:
        settings = world.settings()
        await created(settings)
        await anyio.to_thread.run_sync(lambda: delete_table(settings, patience=QUICK))
        state = await anyio.to_thread.run_sync(lambda: table_state(settings))
        assert set(state.views.values()) == {None}
        assert len(await created(settings)) == 9


async def test_the_commands_work_on_the_local_table(tmp_path: Path) -> None:
    """Create, status and delete as a user runs them, with one settings file."""
    async with LocalGlobalTable.start(regions=REGIONS, create=False) as world:
        settings = world.settings()
        lines = [f"home: {settings.home}", f"table: {settings.table}", "regions:"]
        lines += [
            f"  {name}: {{endpoint: '{at.endpoint}'}}" for name, at in settings.regions.items()
        ]
        config = tmp_path / "regions.yaml"
        config.write_text("\n".join(lines))

        async def run(*arguments: str) -> str:
            command = [*arguments, "--config", str(config)]
            result = await anyio.to_thread.run_sync(
                lambda: CliRunner().invoke(table_commands.app, command, catch_exceptions=False)
            )
            assert result.exit_code == 0, result.output
            return result.stdout

        assert "done: eu-west-1: add the replica" in await run("create")
        assert "nothing to do" in await run("create")
        assert "us-east-1 (home)" in await run("status")
        assert "delete the table" in await run("delete", "--confirm", settings.table)


def closed_port() -> int:
    """Give a port of this machine on which nothing listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def test_an_endpoint_that_does_not_answer_is_named() -> None:
    """A wrong port is one clear error that names region and table."""
    region = Region(endpoint=f"http://127.0.0.1:{closed_port()}")
    settings = Settings(home="us-east-1", regions={"us-east-1": region})
    with pytest.raises(Unreachable, match="us-east-1, table ledger: no answer") as raised:
        create_table(settings)
    assert str(region.endpoint) in str(raised.value)


def test_a_profile_that_does_not_exist_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped profile is one clear error, before any request."""
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    settings = Settings(home="us-east-1", regions={"us-east-1": Region(profile="absent")})
    with pytest.raises(AccessDenied, match=r"us-east-1, table ledger: .*absent"):
        create_table(settings)


async def test_markers_have_a_table_that_is_made_and_replicates() -> None:
    """The operator makes it beside the counters' own; it has time to live, and replicas."""
    async with LocalGlobalTable.start(regions=REGIONS) as world:
        settings = world.settings().replace(marker_table="markers")
        assert StepKind.EXPIRY in await created(settings.for_markers())
        async with Table.open(settings, region="us-east-1") as table:
            stock = table.counter("stock", method="marker")
            assert isinstance(await stock.add(5, token="t"), Applied)
            assert await stock.add(5, token="t") == Rejected("applied before")
        await world.wait_replicated()
        key = marker_key("stock", "t")
        async with open_store(settings, "eu-west-1") as other:
            assert await other.get(Get(key, table="markers")) is not None
            assert await other.get(Get(key)) is None


async def test_a_missing_table_of_markers_is_named() -> None:
    """The error says which of the two tables is not there, and nothing was counted."""
    async with LocalGlobalTable.start(regions=REGIONS[:1]) as world:
        settings = world.settings().replace(marker_table="markers")
        async with Table.open(settings) as table:
            stock = table.counter("stock", method="marker")
            with pytest.raises(TableMissing, match="markers"):
                await stock.add(5, token="t")
            with pytest.raises(TableMissing, match=r"ledger or markers|markers or ledger"):
                await stock.add(5)
            assert await stock.value() == 0
