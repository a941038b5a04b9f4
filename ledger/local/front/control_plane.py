"""CreateTable, UpdateTable and their like: the catalog decides, the engine and the links follow."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from ledger.local.engines.port import ApiError, Engine, invalid
from ledger.local.front import catalog
from ledger.local.front import catalog as kept_tables
from ledger.local.front.catalog import Catalog, CatalogTable, table_name
from ledger.local.front.streams import Streams
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import Replicator

LIST_MAX = 100
REPLICA_UPDATES_MAX = 10


class ControlPlane:
    """The table operations of DynamoDB for all regions.

    Changes are made one at a time, each under the lock of every region that it concerns.
    """

    def __init__(
        self,
        tables: Catalog,
        engine: Engine,
        replicator: Replicator,
        regions: Regions,
        streams: Streams,
        *,
        replica_seconds: float,
    ) -> None:
        self._streams = streams
        self._tables = tables
        self._engine = engine
        self._replicator = replicator
        self._regions = regions
        self._replica_seconds = replica_seconds
        self.changing = asyncio.Lock()
        self._operations: Mapping[
            str, Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
        ] = {
            "CreateTable": self._create_table,
            "DeleteTable": self._delete_table,
            "UpdateTable": self._update_table,
            "DescribeTable": self._describe_table,
            "ListTables": self._list_tables,
            "DescribeContinuousBackups": self._describe_backups,
            "UpdateContinuousBackups": self._update_backups,
            "DescribeTimeToLive": self._describe_time_to_live,
            "UpdateTimeToLive": self._update_time_to_live,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsOfResource": self._list_tags,
            "DescribeLimits": self._describe_limits,
        }

    @property
    def operations(self) -> AbstractSet[str]:
        """The names of the table operations."""
        return self._operations.keys()

    async def call(self, region: str, operation: str, body: dict[str, Any]) -> dict[str, Any]:
        """Carry out a table operation.

        Raises:
            ApiError: refused.
        """
        self._drop_lost()
        try:
            return await self._operations[operation](region, body)
        finally:
            if not operation.startswith(("Describe", "List")):
                self._keep()

    def _drop_lost(self) -> None:
        """Take replicas of lost regions out of their groups once DynamoDB would have by itself."""
        dropped = [
            (region, name)
            for region in self._regions.dropped(now=time.time())
            for name in self._tables.names(region)
        ]
        for region, name in dropped:
            self._tables.remove(region, name)
            self._replicator.forget(region, name)
        if dropped:
            self._keep()

    def _keep(self) -> None:
        journal = self._replicator.journal
        with journal.together():
            journal.state(kept_tables.NAME, kept_tables.to_values(self._tables))
            journal.forget_others((table.region, table.name) for table in self._tables.every())

    async def restore(self) -> None:
        """Restore the stored tables, with their items; items in flight continue.

        Raises:
            LocalTableError: what was stored is of other regions.
        """
        values = self._replicator.journal.fact(kept_tables.NAME)
        if values is None:
            return
        kept_tables.restore(self._tables, values)
        for table in self._tables.every():
            await self._engine.create(table.region, table.name, table.key)
            await self._replicator.restore(table.region, table.name)
        for table in self._tables.every():
            replicas = self._tables.replicas(table.region, table.name)
            if table.region == replicas[0]:
                self._replicator.resend(table.name, replicas)

    async def empty(self) -> None:
        """Delete all items of all tables, and all in flight; the tables stay.

        Raises:
            ApiError: a region is unavailable; then nothing is deleted.
        """
        async with self.changing, AsyncExitStack() as locks:
            for region in self._tables.regions:
                await locks.enter_async_context(self._replicator.locks[region])
            for region in {*self._tables.regions} - {*self._regions.lost}:
                self._regions.check_there(region)
            self._tables.renumber()
            self._replicator.clear()
            for table in self._tables.every():
                await self._engine.drop(table.region, table.name)
                await self._engine.create(table.region, table.name, table.key)
                self._replicator.forget(table.region, table.name)
            with self._replicator.journal.together():
                for table in self._tables.every():
                    self._replicator.journal.forget(table.region, table.name)
                self._keep()

    def _find(self, region: str, body: Mapping[str, Any]) -> CatalogTable:
        return self._tables.find(region, table_name(body.get("TableName")))

    async def _describe(self, table: CatalogTable) -> dict[str, Any]:
        items = await self._engine.count(table.region, table.name)
        label = self._streams.label(table)
        described = self._tables.describe(table, now=time.monotonic(), items=items, label=label)
        for replica in described.get("Replicas", ()):
            lost = self._regions.lost.get(replica["RegionName"])
            if lost is not None and lost.disabled_at is not None:
                replica |= {
                    "ReplicaStatus": "REGION_DISABLED",
                    "ReplicaInaccessibleDateTime": lost.disabled_at,
                }
        return described

    async def _create_table(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        table = catalog.from_request(body, region, now=time.monotonic(), created_at=time.time())
        async with self.changing, self._replicator.locks[region]:
            await self._make(table)
        return {"TableDescription": {**await self._describe(table), "TableStatus": "CREATING"}}

    async def _make(self, table: CatalogTable, *, replica_of: CatalogTable | None = None) -> None:
        """Add a table to the catalog and to the engine, or to neither."""
        self._regions.check_there(table.region)
        self._tables.add(table, replica_of=replica_of)
        try:
            await self._engine.create(table.region, table.name, table.key)
        except BaseException:
            self._tables.remove(table.region, table.name)
            raise

    async def _delete_table(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self.changing:
            table = self._find(region, body)
            described = await self._describe(table)
            await self._drop(table)
        return {"TableDescription": {**described, "TableStatus": "DELETING"}}

    async def _drop(self, table: CatalogTable) -> None:
        if table.protected:
            raise invalid(
                "Resource cannot be deleted as it is currently protected against deletion. "
                "Disable deletion protection first."
            )
        self._check_at_rest(table)
        async with self._replicator.locks[table.region]:
            self._regions.check_there(table.region)
            await self._engine.drop(table.region, table.name)
            self._tables.remove(table.region, table.name)
            self._replicator.forget(table.region, table.name)

    def _check_at_rest(self, table: CatalogTable) -> None:
        status = self._tables.status(table, now=time.monotonic())
        if status != "ACTIVE":
            raise ApiError(
                "ResourceInUseException",
                f"Attempt to change a resource which is still in use: Table is {status.lower()}: "
                f"{table.name}",
            )

    async def _update_table(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        catalog.check_update(body)
        async with self.changing:
            table = self._find(region, body)
            self._check_at_rest(table)
            replicas = body.get("ReplicaUpdates") or ()
            if len(replicas) > REPLICA_UPDATES_MAX:
                raise invalid(f"ReplicaUpdates: at most {REPLICA_UPDATES_MAX} at a time")
            had_stream = table.stream is not None
            catalog.update(table, body)
            self._tables.synchronize(table)
            if table.stream is not None and not had_stream:
                for name in self._tables.replicas(region, table.name):
                    self._streams.forgot(name, table.name)  # what begins is another stream
            for change in replicas:
                await self._change_replica(table, change)
            return {"TableDescription": await self._describe(table)}

    async def _change_replica(self, table: CatalogTable, change: Mapping[str, Any]) -> None:
        if set(change) not in ({"Create"}, {"Delete"}, {"Update"}):
            raise invalid("A replica update is one of Create, Update and Delete")
        ((kind, content),) = change.items()
        region = content.get("RegionName")
        if region not in self._tables.regions:
            raise invalid(
                f"The replica region {region} is not one of {', '.join(self._tables.regions)}"
            )
        if kind == "Create":
            await self._add_replica(table, region)
            return
        if region == table.region or region not in self._tables.replicas(table.region, table.name):
            raise invalid(f"The table {table.name} has no other replica in {region}")
        if kind == "Delete":
            await self._drop(self._tables.find(region, table.name))

    async def _add_replica(self, table: CatalogTable, region: str) -> None:
        if table.stream != catalog.FULL_STREAM:
            raise invalid(
                "One or more parameter values were invalid: a global table needs a stream with "
                f"StreamViewType {catalog.FULL_STREAM}"
            )
        now = time.monotonic()
        sources = self._tables.replicas(table.region, table.name)
        for source in sources:
            self._regions.check_there(source)
        replica = replace(
            table,
            region=region,
            protected=False,
            recovery_since=None,
            tags={},
            created_at=time.time(),
            active_at=now + self._replica_seconds,
        )
        async with self._replicator.locks[region]:
            await self._make(replica, replica_of=table)
        await self._replicator.fill(region, table.name, sources)

    async def _describe_table(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        return {"Table": await self._describe(self._find(region, body))}

    async def _list_tables(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        names = self._tables.names(region)
        after = body.get("ExclusiveStartTableName")
        left = [name for name in names if after is None or name > after]
        limit = min(body.get("Limit", LIST_MAX), LIST_MAX)
        answer: dict[str, Any] = {"TableNames": left[:limit]}
        if len(left) > limit:
            answer["LastEvaluatedTableName"] = left[limit - 1]
        return answer

    async def _describe_backups(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        return _backups(self._find(region, body))

    async def _update_backups(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        table = self._find(region, body)
        specification = body["PointInTimeRecoverySpecification"]
        if not specification["PointInTimeRecoveryEnabled"]:
            table.recovery_since = None
        elif table.recovery_since is None:
            table.recovery_since = time.time()
        table.recovery_days = specification.get("RecoveryPeriodInDays", table.recovery_days)
        return _backups(table)

    async def _describe_time_to_live(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        attribute = self._find(region, body).time_to_live
        described = {"TimeToLiveStatus": "DISABLED"}
        if attribute is not None:
            described = {"TimeToLiveStatus": "ENABLED", "AttributeName": attribute}
        return {"TimeToLiveDescription": described}

    async def _update_time_to_live(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        table = self._find(region, body)
        wanted = body["TimeToLiveSpecification"]
        if wanted["Enabled"] == (table.time_to_live is not None):
            state = "enabled" if wanted["Enabled"] else "disabled"
            raise invalid(f"TimeToLive is already {state}")
        if table.time_to_live not in (None, wanted["AttributeName"]):
            raise invalid("TimeToLive is active on a different AttributeName")
        table.time_to_live = wanted["AttributeName"] if wanted["Enabled"] else None
        self._tables.synchronize(table)
        return {"TimeToLiveSpecification": wanted}

    async def _tag(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        table = self._resource(region, body)
        tags = {**table.tags, **{tag["Key"]: tag["Value"] for tag in body["Tags"]}}
        if len(tags) > catalog.TAGS_MAX:
            raise invalid(f"{len(tags)} tags: a resource has at most {catalog.TAGS_MAX}")
        table.tags = tags
        return {}

    async def _untag(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        table = self._resource(region, body)
        gone = set(body["TagKeys"])
        table.tags = {key: value for key, value in table.tags.items() if key not in gone}
        return {}

    async def _list_tags(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        tags = self._resource(region, body).tags
        return {"Tags": [{"Key": key, "Value": value} for key, value in tags.items()]}

    def _resource(self, region: str, body: Mapping[str, Any]) -> CatalogTable:
        return self._tables.find(region, table_name(body.get("ResourceArn")))

    async def _describe_limits(self, region: str, body: dict[str, Any]) -> dict[str, Any]:
        del region, body
        most = 40_000
        return {
            "AccountMaxReadCapacityUnits": 2 * most,
            "AccountMaxWriteCapacityUnits": 2 * most,
            "TableMaxReadCapacityUnits": most,
            "TableMaxWriteCapacityUnits": most,
        }


def _backups(table: CatalogTable) -> dict[str, Any]:
    recovery: dict[str, Any] = {"PointInTimeRecoveryStatus": "DISABLED"}
    if table.recovery_since is not None:
        recovery = {
            "PointInTimeRecoveryStatus": "ENABLED",
            "RecoveryPeriodInDays": table.recovery_days,
            "EarliestRestorableDateTime": table.recovery_since,
            "LatestRestorableDateTime": time.time(),
        }
    return {
        "ContinuousBackupsDescription": {
            "ContinuousBackupsStatus": "ENABLED",
            "PointInTimeRecoveryDescription": recovery,
        }
    }
