"""The tables of every region and their settings: the control plane of global tables.

Both engines hold items only; what DescribeTable and its like answer is kept here, so both behave
alike. Version 2019.11.21 of global tables: replicas are added and removed by UpdateTable; a new
replica is CREATING for a while, and the table UPDATING; deletion protection, point-in-time
recovery and tags belong to one replica, time to live and streams to the whole table. A catalog is
kept as plain values, and made again from them.

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ledger.core.errors import LocalTableError
from ledger.local.engines.port import ApiError, TableKey, invalid

ACCOUNT = "000000000000"
VERSION = "2019.11.21"
FULL_STREAM = "NEW_AND_OLD_IMAGES"
TAGS_MAX = 50
_NAME = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_KEY_KINDS = ("S", "N", "B")


@dataclass(slots=True)
class CatalogTable:
    """One table in one region: local to it, or a replica of the global table numbered `group`.

    `active_at` is when a new replica becomes ACTIVE, in the seconds of the caller's clock;
    `created_at` is the time of day.
    """

    name: str
    region: str
    key: TableKey
    billing: str
    throughput: Mapping[str, int]
    warm: Mapping[str, int]
    stream: str | None
    protected: bool
    created_at: float
    active_at: float
    group: int = 0
    encryption: Mapping[str, Any] | None = None
    recovery_since: float | None = None
    recovery_days: int = 35
    tags: dict[str, str] = field(default_factory=dict)
    time_to_live: str | None = None

    @property
    def arn(self) -> str:
        """The table's Amazon Resource Name."""
        return f"arn:aws:dynamodb:{self.region}:{ACCOUNT}:table/{self.name}"


def table_name(given: Any) -> str:
    """Return the name of a table, given by name or ARN."""
    if not isinstance(given, str) or not given:
        raise invalid("TableName must not be empty")
    return given.rpartition(":table/")[2]


def from_request(
    body: Mapping[str, Any], region: str, *, now: float, created_at: float
) -> CatalogTable:
    """Check a CreateTable request and return the table.

    Raises:
        ApiError: ValidationException.
    """
    name = table_name(body.get("TableName"))
    if not _NAME.fullmatch(name):
        raise invalid(
            f"1 validation error detected: Value '{name}' at 'tableName' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+, and "
            "have length between 3 and 255"
        )
    for unsupported in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        if body.get(unsupported):
            raise invalid(f"{unsupported} are not supported by the local global table")
    billing = body.get("BillingMode", "PROVISIONED")
    throughput = body.get("ProvisionedThroughput")
    _check_billing(billing, throughput)
    encryption = body.get("SSESpecification") or {}
    return CatalogTable(
        name=name,
        region=region,
        key=_key(body),
        billing=billing,
        throughput=throughput or {"ReadCapacityUnits": 0, "WriteCapacityUnits": 0},
        warm=_warmed(_first_warm(throughput), body.get("WarmThroughput")),
        stream=_stream(body.get("StreamSpecification")),
        protected=bool(body.get("DeletionProtectionEnabled", False)),
        created_at=created_at,
        active_at=now,
        encryption=encryption if encryption.get("Enabled") else None,
        tags={tag["Key"]: tag["Value"] for tag in body.get("Tags", ())},
    )


def _check_billing(billing: str, throughput: Mapping[str, int] | None) -> None:
    if billing not in ("PROVISIONED", "PAY_PER_REQUEST"):
        raise invalid(f"BillingMode {billing} is not one of PROVISIONED, PAY_PER_REQUEST")
    if billing == "PROVISIONED" and not throughput:
        raise invalid(
            "One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits "
            "must both be specified when BillingMode is PROVISIONED"
        )
    if billing == "PAY_PER_REQUEST" and throughput:
        raise invalid(
            "One or more parameter values were invalid: Neither ReadCapacityUnits nor "
            "WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
        )


def _first_warm(throughput: Mapping[str, int] | None) -> Mapping[str, int]:
    """Return a new table's warm throughput: on demand, or as provisioned."""
    if throughput is None:
        return {"ReadUnitsPerSecond": 12_000, "WriteUnitsPerSecond": 4_000}
    return {
        "ReadUnitsPerSecond": throughput["ReadCapacityUnits"],
        "WriteUnitsPerSecond": throughput["WriteCapacityUnits"],
    }


def _warmed(now: Mapping[str, int], wanted: Mapping[str, int] | None) -> Mapping[str, int]:
    """Return the warm throughput once raised: AWS never lowers it."""
    for name, units in (wanted or {}).items():
        if name not in now or units < now[name]:
            raise invalid(
                f"One or more parameter values were invalid: the requested {name} {units} is lower"
                f" than the current warm throughput {now.get(name)}"
            )
    return {**now, **(wanted or {})}


def _key(body: Mapping[str, Any]) -> TableKey:
    schema: Sequence[Mapping[str, str]] = body.get("KeySchema") or ()
    roles = tuple(element.get("KeyType") for element in schema)
    if roles not in (("HASH",), ("HASH", "RANGE")):
        raise invalid(
            "Invalid KeySchema: the first element must be of KeyType HASH, a second of RANGE"
        )
    kinds = {
        definition["AttributeName"]: definition["AttributeType"]
        for definition in body.get("AttributeDefinitions") or ()
    }
    names = tuple(element["AttributeName"] for element in schema)
    if set(kinds) != set(names):
        raise invalid(
            "One or more parameter values were invalid: Number of attributes in KeySchema does "
            "not exactly match number of attributes defined in AttributeDefinitions"
        )
    if not set(kinds.values()) <= set(_KEY_KINDS):
        raise invalid("Member must satisfy enum value set: [B, N, S]")
    return TableKey(names, tuple(kinds[name] for name in names))


def _stream(specification: Mapping[str, Any] | None) -> str | None:
    if not specification or not specification.get("StreamEnabled"):
        return None
    return str(specification.get("StreamViewType", FULL_STREAM))


class Catalog:
    """Which tables there are, where their replicas are, and what state those are in."""

    def __init__(self, regions: Sequence[str]) -> None:
        self.regions = tuple(regions)
        self._tables: dict[str, dict[str, CatalogTable]] = {region: {} for region in regions}
        self._groups = 0

    def find(self, region: str, name: str) -> CatalogTable:
        """Return a table in any state.

        Raises:
            ApiError: ResourceNotFoundException.
        """
        table = self._tables[region].get(name)
        if table is None:
            raise ApiError(
                "ResourceNotFoundException",
                f"Requested resource not found: Table: {name} not found in {region}",
            )
        return table

    def usable(self, region: str, name: str, *, now: float) -> CatalogTable:
        """Return a table that items can be read from and written to.

        Raises:
            ApiError: ResourceNotFoundException, also while a replica is CREATING.
        """
        table = self._tables[region].get(name)
        if table is None or now < table.active_at:
            raise ApiError("ResourceNotFoundException", "Requested resource not found")
        return table

    def replicas(self, region: str, name: str) -> tuple[str, ...]:
        """Return the regions that hold replicas of this region's table, itself among them."""
        table = self._tables[region].get(name)
        if table is None:
            return ()
        return tuple(
            other
            for other in self.regions
            if name in self._tables[other] and self._tables[other][name].group == table.group
        )

    def key(self, region: str, name: str) -> TableKey:
        """Return the key schema of a table.

        Raises:
            ApiError: ResourceNotFoundException.
        """
        return self.find(region, name).key

    def group(self, region: str, name: str) -> int | None:
        """Return the number of the global table that a table belongs to; None if it is gone."""
        table = self._tables[region].get(name)
        return None if table is None else table.group

    def names(self, region: str) -> Sequence[str]:
        """Return the tables of a region in the order of their names."""
        return sorted(self._tables[region])

    def every(self) -> Sequence[CatalogTable]:
        """Return all tables of all regions."""
        return [table for tables in self._tables.values() for table in tables.values()]

    def renumber(self) -> None:
        """Give every global table a number that none had before, as if it were created again."""
        first = self._groups
        for table in self.every():
            table.group += first
            self._groups = max(self._groups, table.group)

    @property
    def groups(self) -> int:
        """The highest number of a global table so far."""
        return self._groups

    def restore(self, tables: Iterable[CatalogTable], *, groups: int) -> None:
        """Take over tables as they are, with the numbers that they had."""
        self._groups = groups
        for table in tables:
            self._tables[table.region][table.name] = table

    def add(self, table: CatalogTable, *, replica_of: CatalogTable | None = None) -> None:
        """Add a separate table, or a replica of another region's.

        Raises:
            ApiError: ResourceInUseException: there is one of this name.
        """
        if table.name in self._tables[table.region]:
            raise ApiError("ResourceInUseException", f"Table already exists: {table.name}")
        self._groups += 1
        table.group = replica_of.group if replica_of else self._groups
        self._tables[table.region][table.name] = table

    def shared(self, table: CatalogTable) -> bool:
        """Return whether a table has replicas in several regions."""
        return len(self.replicas(table.region, table.name)) > 1

    def remove(self, region: str, name: str) -> CatalogTable:
        """Remove a table, or one replica of it."""
        return self._tables[region].pop(name)

    def status(self, table: CatalogTable, *, now: float) -> str:
        """Return TableStatus: UPDATING while another replica is being made."""
        if now < table.active_at:
            return "CREATING"
        others = (
            self._tables[region][table.name] for region in self.replicas(table.region, table.name)
        )
        return "UPDATING" if any(now < other.active_at for other in others) else "ACTIVE"

    def describe(
        self, table: CatalogTable, *, now: float, items: int, label: str
    ) -> dict[str, Any]:
        """Return a table's description as DescribeTable gives it; `label` is its stream's."""
        roles = ("HASH", "RANGE")
        described: dict[str, Any] = {
            "TableName": table.name,
            "TableArn": table.arn,
            "TableStatus": self.status(table, now=now),
            "CreationDateTime": table.created_at,
            "KeySchema": [
                {"AttributeName": name, "KeyType": role}
                for name, role in zip(table.key.names, roles, strict=False)
            ],
            "AttributeDefinitions": [
                {"AttributeName": name, "AttributeType": kind}
                for name, kind in zip(table.key.names, table.key.kinds, strict=True)
            ],
            "ProvisionedThroughput": {"NumberOfDecreasesToday": 0, **table.throughput},
            "BillingModeSummary": {"BillingMode": table.billing},
            "WarmThroughput": {**table.warm, "Status": "ACTIVE"},
            "ItemCount": items,
            "TableSizeBytes": 0,
            "DeletionProtectionEnabled": table.protected,
        }
        if table.stream is not None:
            described |= {
                "StreamSpecification": {"StreamEnabled": True, "StreamViewType": table.stream},
                "LatestStreamLabel": label,
                "LatestStreamArn": f"{table.arn}/stream/{label}",
            }
        if table.encryption is not None:
            described["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS"}
        if self.shared(table):
            described |= {"GlobalTableVersion": VERSION, "Replicas": self._others(table, now)}
        return described

    def _others(self, table: CatalogTable, now: float) -> list[dict[str, Any]]:
        """Describe the replicas in the other regions, as DescribeTable does."""
        return [
            {
                "RegionName": region,
                "ReplicaStatus": "CREATING"
                if now < self._tables[region][table.name].active_at
                else "ACTIVE",
            }
            for region in self.replicas(table.region, table.name)
            if region != table.region
        ]

    def synchronize(self, table: CatalogTable) -> None:
        """Copy the settings that global tables keep alike to all replicas."""
        for region in self.replicas(table.region, table.name):
            other = self._tables[region][table.name]
            other.billing, other.throughput = table.billing, table.throughput
            other.stream, other.time_to_live = table.stream, table.time_to_live
            other.encryption, other.warm = table.encryption, table.warm


def check_update(body: Mapping[str, Any]) -> None:
    """Refuse what UpdateTable cannot do here.

    Raises:
        ApiError: ValidationException.
    """
    if body.get("GlobalSecondaryIndexUpdates"):
        raise invalid("GlobalSecondaryIndexUpdates are not supported by the local global table")
    known = (
        *("BillingMode", "ProvisionedThroughput", "StreamSpecification", "SSESpecification"),
        *("DeletionProtectionEnabled", "ReplicaUpdates", "AttributeDefinitions"),
        *("TableClass", "OnDemandThroughput", "WarmThroughput", "MultiRegionConsistency"),
    )
    if not any(body.get(name) is not None for name in known):
        raise invalid(
            "At least one of ProvisionedThroughput, BillingMode, UpdateStreamEnabled, "
            "GlobalSecondaryIndexUpdates or SSESpecification or ReplicaUpdates is required"
        )
    if body.get("MultiRegionConsistency", "EVENTUAL") != "EVENTUAL":
        raise invalid("MultiRegionConsistency STRONG is not offered by the local global table")


def update(table: CatalogTable, body: Mapping[str, Any]) -> None:
    """Apply an UpdateTable request, apart from replicas.

    Raises:
        ApiError: ValidationException.
    """
    billing = body.get("BillingMode", table.billing)
    throughput = body.get("ProvisionedThroughput")
    if billing != table.billing or throughput:
        _check_billing(billing, throughput)
    specification = body.get("StreamSpecification")
    if specification and specification.get("StreamEnabled") and table.stream is not None:
        raise invalid("Table already has an enabled stream: TableName: " + table.name)
    table.warm = _warmed(table.warm, body.get("WarmThroughput"))
    table.billing = billing
    if throughput:
        table.throughput = throughput
    if specification is not None:
        table.stream = _stream(specification)
    if body.get("SSESpecification") is not None:
        encryption = body["SSESpecification"]
        table.encryption = encryption if encryption.get("Enabled") else None
    table.protected = bool(body.get("DeletionProtectionEnabled", table.protected))


NAME = "tables"
"""The fact of the journal that holds them."""


def to_values(tables: Catalog) -> dict[str, Any]:
    """Return all tables with their settings, and the regions that they were made for."""
    described = []
    for table in tables.every():
        values = asdict(table)
        del values["active_at"]  # a later start waits for no replica
        described.append(values)
    return {"regions": list(tables.regions), "groups": tables.groups, "tables": described}


def restore(tables: Catalog, values: Mapping[str, Any]) -> None:
    """Put the tables into an empty catalog of the same regions.

    Raises:
        LocalTableError: they are of other regions.
    """
    if sorted(values["regions"]) != sorted(tables.regions):
        raise LocalTableError(
            f"the state that was kept is of the regions {', '.join(values['regions'])}, asked for "
            f"are {', '.join(tables.regions)}: choose those, or another --data folder"
        )
    made = []
    for described in values["tables"]:
        key = TableKey(tuple(described["key"]["names"]), tuple(described["key"]["kinds"]))
        made.append(CatalogTable(**{**described, "key": key, "active_at": 0.0}))
    tables.restore(made, groups=values["groups"])
