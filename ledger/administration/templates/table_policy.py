"""The resource-based policy of one replica: who may use its items at all, and only by TLS.

It restricts rights, and grants none in the table's own account: what a role may do is defined by
its own policy (`permissions`). To roles of other accounts it grants the use of items, which their
own policies narrow. Administration is left alone, so no operator can be locked out of changing it.

The role by which DynamoDB replicates is never denied: a replica whose replication is denied stops,
and leaves the global table after 20 hours.

With replicas in other accounts the global table's service needs rights by this policy, too.

Source: Amazon DynamoDB Developer Guide, "Resource-based policy considerations" (20 KB, white space
included; one policy a replica), "DynamoDB global tables security" (the service-linked role, 20
hours), "Tutorials: Creating multi-account global tables" (the last two statements).

Pure: no clock, no randomness, no I/O.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ledger.administration.templates.permissions import POLICY_VERSION, partition_of
from ledger.core.errors import InvalidInput
from ledger.settings import Settings

POLICY_BYTES_MAX = 20 * 1024
"""Limit of a resource-based policy, white space included."""
ITEM_ACTIONS = (
    "dynamodb:BatchGetItem",
    "dynamodb:BatchWriteItem",
    "dynamodb:ConditionCheckItem",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PartiQLDelete",
    "dynamodb:PartiQLInsert",
    "dynamodb:PartiQLSelect",
    "dynamodb:PartiQLUpdate",
    "dynamodb:PutItem",
    "dynamodb:Query",
    "dynamodb:Scan",
    "dynamodb:UpdateItem",
)
"""All actions that read and write items."""
_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:(?:role|user)/[\w+=,.@/-]+", flags=re.ASCII)


def table_policy(
    settings: Settings,
    *,
    region: str,
    account: str,
    principals: Sequence[str],
    replicas: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the policy of a region's replica, which is in `account`.

    `principals` are the ARNs of the roles and users that use its items. `replicas` has the accounts
    of all regions where each replica is in an account of its own.

    Raises:
        InvalidInput: there is no principal, or one is not the ARN of a role or user; or `replicas`
            does not have each region with an account of its own.
    """
    if not principals:
        raise InvalidInput("--for: name each role that uses the table's items, by its ARN")
    for principal in principals:
        if _PRINCIPAL.fullmatch(principal) is None:
            raise InvalidInput(f"--for {principal}: not the ARN of a role or a user")
    statements = [
        *_denials(settings, region, account, principals),
        *_of_others(settings, region, account, principals),
        *(_replication(settings, region, account, replicas) if replicas else ()),
    ]
    return {"Version": POLICY_VERSION, "Statement": statements}


def check_size(text: str) -> str:
    """Return the text of a policy that DynamoDB accepts.

    Raises:
        InvalidInput: it is too long.
    """
    size = len(text.encode())
    if size > POLICY_BYTES_MAX:
        raise InvalidInput(
            f"the policy has {size:,} bytes, and DynamoDB takes {POLICY_BYTES_MAX:,}: name fewer"
            " roles"
        )
    return text


def _denials(
    settings: Settings, region: str, account: str, principals: Sequence[str]
) -> Iterator[dict[str, Any]]:
    partition = partition_of(region)
    replicating = (
        f"arn:{partition}:iam::{account}:role/aws-service-role/replication.dynamodb.amazonaws.com"
        "/AWSServiceRoleForDynamoDBReplication"
    )
    resource = _table_arn(settings, region, account)
    by_service = {"aws:PrincipalIsAWSService": "false"}
    yield {
        "Sid": "OnlyByTls",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "dynamodb:*",
        "Resource": resource,
        "Condition": {
            "Bool": {"aws:SecureTransport": "false", **by_service},
            "ArnNotEquals": {"aws:PrincipalArn": replicating},
        },
    }
    yield {
        "Sid": "ItemsOnlyForThese",
        "Effect": "Deny",
        "Principal": "*",
        "Action": list(ITEM_ACTIONS),
        "Resource": resource,
        "Condition": {
            "ArnNotEquals": {"aws:PrincipalArn": [*principals, replicating]},
            "Bool": by_service,
        },
    }


def _of_others(
    settings: Settings, region: str, account: str, principals: Sequence[str]
) -> Iterator[dict[str, Any]]:
    others = [principal for principal in principals if f":iam::{account}:" not in principal]
    if others:
        yield {
            "Sid": "ItemsForOtherAccounts",
            "Effect": "Allow",
            "Principal": {"AWS": others},
            "Action": list(ITEM_ACTIONS),
            "Resource": _table_arn(settings, region, account),
        }


def _replication(
    settings: Settings, region: str, account: str, replicas: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    named = {**replicas, region: account}
    if named.keys() != settings.regions.keys() or len({*named.values()}) < len(named):
        got = ", ".join(f"{name}={account}" for name, account in named.items())
        raise InvalidInput(
            f"--replica REGION=ACCOUNT: an account of its own for each of"
            f" {', '.join(settings.regions)}; got {got}"
        )
    resource = _table_arn(settings, region, account)
    others = sorted({*named.values()} - {account})
    yield {
        "Sid": "ReplicatesBetweenAccounts",
        "Effect": "Allow",
        "Principal": {"Service": "replication.dynamodb.amazonaws.com"},
        "Action": [
            "dynamodb:ReadDataForReplication",
            "dynamodb:WriteDataForReplication",
            "dynamodb:ReplicateSettings",
        ],
        "Resource": resource,
        "Condition": {
            "StringEquals": {
                "aws:SourceAccount": sorted(named.values()),
                "aws:SourceArn": [_table_arn(settings, *each) for each in named.items()],
            }
        },
    }
    yield {
        "Sid": "AccountsThatMayJoin",
        "Effect": "Allow",
        "Principal": {"AWS": others},
        "Action": ["dynamodb:AssociateTableReplica"],
        "Resource": resource,
    }


def _table_arn(settings: Settings, region: str, account: str) -> str:
    return f"arn:{partition_of(region)}:dynamodb:{region}:{account}:table/{settings.table}"
