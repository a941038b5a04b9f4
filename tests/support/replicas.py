"""Replicas of the local table, removed through its control plane."""

from typing import Any

import boto3

from ledger.local import LocalGlobalTable


def client_of(region: str, endpoint: str) -> Any:
    """Return a boto3 client of one region of the local table."""
    return boto3.client(
        "dynamodb",
        region_name=region,
        endpoint_url=endpoint,
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )


def remove_replica(world: LocalGlobalTable, region: str, *, through: str) -> None:
    """Remove a region from the table's replicas, as an operator does."""
    client_of(region, world.endpoints[region]).update_table(
        TableName=world.table, DeletionProtectionEnabled=False
    )
    client_of(through, world.endpoints[through]).update_table(
        TableName=world.table, ReplicaUpdates=[{"Delete": {"RegionName": region}}]
    )
