"""Time to live on the local global table, over the wire."""

import time

import anyio
import pytest
from botocore.exceptions import ClientError
from support.local_worlds import ASIA, EAST, POLL_SECONDS, READ_SECONDS, TABLE, WEST, World

REGIONS = (EAST, WEST, ASIA)


@pytest.mark.slow
async def test_what_expires_in_one_region_is_deleted_in_all(world: World) -> None:
    """A region whose clock says so deletes the item; the others, whose clocks do not, follow."""
    wanted = {"Enabled": True, "AttributeName": "expires"}
    await world.clients[EAST].update_time_to_live(TableName=TABLE, TimeToLiveSpecification=wanted)
    soon = int(time.time()) + 3600
    await world.put(WEST, "marker", expires=soon)
    await world.put(WEST, "later", expires=soon + 86_400)
    await world.table.wait_replicated()
    world.table.set_clock(EAST, 7200)
    with anyio.fail_after(READ_SECONDS):
        for region in REGIONS:
            while await world.get(region, "marker") is not None:  # noqa: ASYNC110
                await anyio.sleep(POLL_SECONDS)
            assert await world.get(region, "later") is not None
    assert world.table.status()["expired"] == 1


@pytest.mark.slow
async def test_turned_off_nothing_expires(world: World) -> None:
    """The attribute that was the table's has no meaning any more once it is turned off."""
    client = world.clients[EAST]
    wanted = {"Enabled": True, "AttributeName": "expires"}
    await client.update_time_to_live(TableName=TABLE, TimeToLiveSpecification=wanted)
    other = {"Enabled": False, "AttributeName": "until"}
    with pytest.raises(ClientError, match="active on a different AttributeName"):
        await client.update_time_to_live(TableName=TABLE, TimeToLiveSpecification=other)
    wanted = {"Enabled": False, "AttributeName": "expires"}
    await client.update_time_to_live(TableName=TABLE, TimeToLiveSpecification=wanted)
    await world.put(EAST, "past", expires=int(time.time()) - 60)
    other = {"Enabled": True, "AttributeName": "until"}
    await client.update_time_to_live(TableName=TABLE, TimeToLiveSpecification=other)
    await world.put(EAST, "sign", until=int(time.time()) - 60)
    with anyio.fail_after(READ_SECONDS):
        while await world.get(EAST, "sign") is not None:  # noqa: ASYNC110
            await anyio.sleep(POLL_SECONDS)
    assert await world.get(EAST, "past") is not None
