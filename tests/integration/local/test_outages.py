"""What is asked of a running table: a region cut off, all items deleted."""

import anyio
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from support.local_worlds import ASIA, EAST, TABLE, WEST, World, code, item, open_world

from ledger.core.contract_item import contract_key
from ledger.core.errors import LocalTableError
from ledger.local import Fault, LocalGlobalTable
from ledger.local.status import problems

WAIT_SECONDS = 20.0


async def test_a_region_in_outage_answers_503_and_nothing_reaches_or_leaves_it() -> None:
    """The others go on; what was on its way to and from the region arrives after the outage."""
    async with open_world() as world:
        world.table.pause(WEST, EAST)
        await world.put(WEST, "from-west", n=1)
        world.table.set_outage(WEST, on=True)
        world.table.heal_all()
        with pytest.raises(ClientError, match="outage, on request") as caught:
            await world.get(WEST, "from-west")
        assert code(caught.value) == "ServiceUnavailable"
        await world.put(EAST, "from-east", n=2)
        with anyio.fail_after(WAIT_SECONDS):
            while await world.number(ASIA, "from-east") is None:  # noqa: ASYNC110 (a table)
                await anyio.sleep(0.01)
        with pytest.raises(LocalTableError, match=r"\(outage\)"):
            await world.table.wait_replicated(timeout=0.05)
        assert await world.number(EAST, "from-west") is None
        status = world.table.status()
        assert status["outages"] == [WEST]
        assert (status["paused"], problems(status)) == ([], [])
        states = {pair for pair, state in status["states"].items() if state == "outage"}
        assert states == {pair for pair in status["states"] if WEST in pair}
        world.table.set_outage(WEST, on=False)
        await world.table.wait_replicated()
        assert await world.numbers("from-east") == ["2"] * 3
        assert await world.numbers("from-west") == ["1"] * 3


async def test_of_two_regions_in_outage_one_comes_back_alone() -> None:
    """The links between them stay cut until both are back."""
    async with open_world(create=False) as world:
        world.table.set_outage(EAST, on=True)
        world.table.set_outage(WEST, on=True)
        world.table.set_outage(EAST, on=False)
        states = world.table.status()["states"]
        assert (states[f"{EAST} {ASIA}"], states[f"{EAST} {WEST}"]) == ("up", "outage")
        with pytest.raises(LocalTableError, match="region must be one of"):
            world.table.set_outage("mars-1", on=True)


async def test_a_region_that_is_lost_answers_nothing_and_stays_listed() -> None:
    """Its protection cannot be lifted, its replica not be removed; what it sent is lost."""
    async with open_world() as world:
        change = {"TableName": TABLE, "DeletionProtectionEnabled": True}
        await world.clients[WEST].update_table(**change)
        world.table.pause(WEST, EAST)
        await world.put(WEST, "from-west", n=1)
        world.table.lose(WEST)
        world.table.heal_all()
        for call in (
            world.get(WEST, "from-west"),
            world.clients[WEST].update_table(**{**change, "DeletionProtectionEnabled": False}),
        ):
            with pytest.raises(BotoCoreError):
                await call
        await world.put(EAST, "from-east", n=2)
        await world.table.wait_replicated()
        assert await world.number(ASIA, "from-east") == "2"
        assert await world.number(EAST, "from-west") is None
        assert await replicas(world) == {WEST: "ACTIVE", ASIA: "ACTIVE"}
        delete = [{"Delete": {"RegionName": WEST}}]
        with pytest.raises(ClientError, match="protected against deletion"):
            await world.clients[EAST].update_table(TableName=TABLE, ReplicaUpdates=delete)
        status = world.table.status()
        assert (status["lost"], problems(status)) == ([WEST], [])
        with pytest.raises(LocalTableError, match="is lost for good"):
            world.table.set_outage(WEST, on=False)


async def test_a_replica_without_protection_is_not_removed_from_a_lost_region_either() -> None:
    """DynamoDB deletes it in its own region, which does not answer."""
    async with open_world() as world:
        change = {"TableName": TABLE, "DeletionProtectionEnabled": False}
        await world.clients[WEST].update_table(**change)
        world.table.lose(WEST)
        delete = [{"Delete": {"RegionName": WEST}}]
        with pytest.raises(ClientError, match="lost for good"):
            await world.clients[EAST].update_table(TableName=TABLE, ReplicaUpdates=delete)
        assert await replicas(world) == {WEST: "ACTIVE", ASIA: "ACTIVE"}


async def test_a_lost_region_that_is_disabled_is_dropped_by_itself() -> None:
    """Protected or not, after the time in which DynamoDB would; the others go on as a table."""
    async with open_world() as world:
        world.table.lose(WEST)
        world.table.lose(WEST, dropped_after=3_600.0)
        assert await replicas(world) == {WEST: "REGION_DISABLED", ASIA: "ACTIVE"}
        world.table.lose(WEST, dropped_after=0.0)
        assert await replicas(world) == {ASIA: "ACTIVE"}
        await world.put(EAST, "later", n=3)
        await world.table.wait_replicated()
        assert await world.number(ASIA, "later") == "3"
        world.table.reset()
        assert await world.number(ASIA, "later") is None
        world.table.lose(ASIA)
        with pytest.raises(LocalTableError, match="the last region that is not lost"):
            world.table.lose(EAST)
        with pytest.raises(LocalTableError, match="0 seconds or more, got -1"):
            world.table.lose(ASIA, dropped_after=-1)


async def replicas(world: World) -> dict[str, str]:
    """Return the replicas beside a region as it describes them."""
    table = (await world.clients[EAST].describe_table(TableName=TABLE))["Table"]
    return {one["RegionName"]: one["ReplicaStatus"] for one in table.get("Replicas", ())}


async def test_a_reset_leaves_empty_tables_and_the_contract(world: World) -> None:
    """No item is there, none on its way arrives, tokens are forgotten; writing goes on."""
    settings = world.table.settings()
    partition, sort_key = contract_key(generation=1)
    await world.put(EAST, "there", n=1)
    await world.table.wait_replicated()
    world.table.pause(EAST, WEST)
    await world.put(EAST, "under-way", n=1)
    put = {"Put": {"TableName": TABLE, "Item": item("counted", n=1)}}
    transaction = {"TransactItems": [put], "ClientRequestToken": "once"}
    await world.clients[ASIA].transact_write_items(**transaction)
    world.table.reset()
    world.table.heal_all()
    await world.table.wait_replicated()
    for region in world.clients:
        (contract,) = await world.everything(region)
        assert (contract["pk"]["S"], contract["sk"]["S"]) == (partition, sort_key)
    await world.clients[ASIA].transact_write_items(**transaction)
    await world.table.wait_replicated()
    assert await world.numbers("counted") == ["1"] * 3
    assert world.table.settings() == settings


async def test_faults_that_are_in_force_are_shown(world: World) -> None:
    """Status names each rule as it was given."""
    connected = LocalGlobalTable.connect(world.table.control_url)
    connected.faults(Fault.THROTTLE, probability=0.5, operations=["PutItem"], regions=[WEST])
    rule = {"kind": "throttle", "probability": 0.5, "operations": ["PutItem"], "regions": [WEST]}
    assert world.table.status()["fault_rules"] == [rule]
    connected.faults(None)
    assert world.table.status()["fault_rules"] == []
