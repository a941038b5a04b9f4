"""Time to live: items whose time has passed are deleted, and the deletes replicate.

Every region deletes by its own clock. AWS takes up to days for it; here it is soon, so that it can
be tried. Until then an expired item is read and written as any other.

Sources: Amazon DynamoDB API Reference, UpdateTimeToLive (epoch seconds, less than the current
time); Developer Guide, "Using time to live (TTL)" (a top-level Number; nothing older than five
years) and "Global tables: how it works", version 2019.11.21 (TTL deletes are replicated to all
replicas).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from ledger.local.engines.port import ApiError, Engine
from ledger.local.front.catalog import Catalog
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import Replicator

_LOG = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
"""The wait between two sweeps of a region."""
REST_SHARE = 10
"""A sweep is followed by a wait of at least this many times its own duration."""
OLDEST_SECONDS = 5 * 365 * 86_400
"""Items that expired longer ago than this are not deleted."""


def is_expired(value: Mapping[str, Any] | None, *, now: float) -> bool:
    """Return whether an item with this value of its time to live attribute is to be deleted.

    `now` is in seconds since 1970, as the value is.
    """
    if value is None or "N" not in value:
        return False
    return now - OLDEST_SECONDS <= float(value["N"]) < now


class Expiry:
    """Deletes expired items in every region. Lives in the server's event loop.

    `clock` returns the time of day of a region, in seconds since 1970.
    """

    def __init__(
        self,
        regions: Regions,
        tables: Catalog,
        engine: Engine,
        replicator: Replicator,
        *,
        clock: Callable[[str], float],
    ) -> None:
        self.deleted = 0
        self._regions = regions
        self._tables = tables
        self._engine = engine
        self._replicator = replicator
        self._clock = clock

    async def run(self) -> None:
        """Sweep all regions until cancelled."""
        async with asyncio.TaskGroup() as group:
            for region in self._regions.names:
                group.create_task(self._run(region))

    async def _run(self, region: str) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await self.sweep(region)
            await asyncio.sleep(max(SWEEP_SECONDS, REST_SHARE * (loop.time() - began)))

    async def sweep(self, region: str) -> None:
        """Delete the expired items of one region; the next sweep finds those missed."""
        for name in self._tables.names(region):
            group = self._tables.group(region, name)
            attribute = self._tables.find(region, name).time_to_live if group else None
            if attribute is None:
                continue
            try:
                async for item in self._expired(region, name, attribute):
                    await self._delete(region, name, item, attribute=attribute, group=group)
            except ApiError as error:  # no such table any more, or the region has an outage
                _LOG.debug("%s: %s was not swept: %s", region, name, error)

    async def _expired(
        self, region: str, name: str, attribute: str
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Walk the expired items of a table page by page: their keys and times."""
        shown = dict.fromkeys([*self._tables.key(region, name).names, attribute])
        names = {f"#a{number}": attribute for number, attribute in enumerate(shown)}
        request: dict[str, Any] = {
            "TableName": name,
            "ProjectionExpression": ", ".join(names),
            "ExpressionAttributeNames": names,
        }
        while True:
            self._regions.check(region)
            self._tables.find(region, name)
            page = (await self._engine.call(region, "Scan", dict(request))).body
            now = self._clock(region)
            for item in page["Items"]:
                if is_expired(item.get(attribute), now=now):
                    yield item
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]
            await asyncio.sleep(0)

    async def _delete(
        self,
        region: str,
        name: str,
        item: Mapping[str, Any],
        *,
        attribute: str,
        group: int | None,
    ) -> None:
        """Delete an item, unless its time has changed meanwhile."""
        async with self._replicator.locks[region]:
            if self._tables.group(region, name) != group:
                return
            request = {
                "TableName": name,
                "Key": self._tables.key(region, name).of(item),
                "ConditionExpression": "#ttl = :seen",
                "ExpressionAttributeNames": {"#ttl": attribute},
                "ExpressionAttributeValues": {":seen": item[attribute]},
            }
            try:
                answer = await self._engine.call(region, "DeleteItem", request)
            except ApiError as error:
                if error.kind == "ConditionalCheckFailedException":
                    return
                raise
            self._replicator.committed(region, answer.changes)
            self.deleted += len(answer.changes)
