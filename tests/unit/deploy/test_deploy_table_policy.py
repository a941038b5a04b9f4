"""The resource policy of a replica: whom it denies, whom it spares, what it must not exceed."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ledger.administration.templates.table_policy import (
    ITEM_ACTIONS,
    POLICY_BYTES_MAX,
    check_size,
    table_policy,
)
from ledger.commands.deploy import app
from ledger.core.errors import InvalidInput
from ledger.settings import Settings

ROOT = Path(__file__).parents[3]
SETTINGS = Settings(regions={"eu-west-1": {}, "us-east-1": {}, "cn-north-1": {}})
ACCOUNT, OTHER = "111122223333", "444455556666"
APP = f"arn:aws:iam::{ACCOUNT}:role/app"
FOREIGN = f"arn:aws:iam::{OTHER}:role/teams/compactor"
REPLICATION = "AWSServiceRoleForDynamoDBReplication"


def statements(*principals: str, region: str = "eu-west-1", **more: Any) -> dict[str, Any]:
    """Return the statements of a policy by their names."""
    made = table_policy(SETTINGS, region=region, account=ACCOUNT, principals=principals, **more)
    return {one["Sid"]: one for one in made["Statement"]}


def test_without_tls_nothing_is_done() -> None:
    """Any action of anyone, on this replica."""
    found = statements(APP)["OnlyByTls"]
    assert (found["Effect"], found["Principal"], found["Action"]) == ("Deny", "*", "dynamodb:*")
    assert found["Resource"] == f"arn:aws:dynamodb:eu-west-1:{ACCOUNT}:table/ledger"
    assert found["Condition"]["Bool"]["aws:SecureTransport"] == "false"


def test_items_are_for_the_roles_that_are_named() -> None:
    """Everyone else is denied each way to read or write items, and no other action."""
    found = statements(APP)["ItemsOnlyForThese"]
    assert found["Effect"] == "Deny"
    assert found["Action"] == sorted(ITEM_ACTIONS)
    assert found["Condition"]["ArnNotEquals"]["aws:PrincipalArn"][0] == APP


def test_replication_is_never_denied() -> None:
    """The service-linked role is left out of every denial; denied, the replica would leave."""
    for statement in statements(APP).values():
        spared = statement["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]
        assert REPLICATION in str(spared)
        assert statement["Condition"]["Bool"]["aws:PrincipalIsAWSService"] == "false"


def test_only_roles_of_other_accounts_are_given_anything() -> None:
    """Within an account the role's own policy says what it may."""
    assert "ItemsForOtherAccounts" not in statements(APP)
    found = statements(APP, FOREIGN)["ItemsForOtherAccounts"]
    assert (found["Effect"], found["Principal"]) == ("Allow", {"AWS": [FOREIGN]})


def test_an_arn_is_of_the_regions_own_partition() -> None:
    """China's regions have another one."""
    found = statements(APP, region="cn-north-1")["OnlyByTls"]
    assert found["Resource"].startswith("arn:aws-cn:dynamodb:cn-north-1:")
    assert "arn:aws-cn:iam::" in found["Condition"]["ArnNotEquals"]["aws:PrincipalArn"]


def test_replicas_in_other_accounts_may_replicate_and_join() -> None:
    """The service by the table's ARNs and accounts; the accounts, to associate a replica."""
    found = statements(APP, replicas={"us-east-1": OTHER, "cn-north-1": "777788889999"})
    service = found["ReplicatesBetweenAccounts"]
    assert service["Principal"] == {"Service": "replication.dynamodb.amazonaws.com"}
    condition = service["Condition"]["StringEquals"]
    assert condition["aws:SourceAccount"] == [ACCOUNT, OTHER, "777788889999"]
    assert f"arn:aws:dynamodb:us-east-1:{OTHER}:table/ledger" in condition["aws:SourceArn"]
    assert found["AccountsThatMayJoin"]["Principal"] == {"AWS": [OTHER, "777788889999"]}


@pytest.mark.parametrize(
    ("principals", "replicas", "said"),
    [
        ((), {}, "--for: name each role"),
        (("*",), {}, "--for .*: not the ARN of a role or a user"),
        ((f"arn:aws:iam::{ACCOUNT}:role/*",), {}, "not the ARN of a role"),
        ((APP,), {"us-east-1": OTHER}, "an account of its own for each of"),
        ((APP,), {"us-east-1": OTHER, "cn-north-1": OTHER}, "an account of its own for each"),
    ],
)
def test_what_would_open_the_table_or_fail_is_refused(
    principals: tuple[str, ...], replicas: dict[str, str], said: str
) -> None:
    """A wildcard among the roles, a region without an account, two replicas in one."""
    with pytest.raises(InvalidInput, match=said):
        statements(*principals, replicas=replicas)


def test_a_policy_that_dynamodb_would_not_take_is_refused() -> None:
    """White space counts."""
    assert check_size(" " * POLICY_BYTES_MAX)
    with pytest.raises(InvalidInput, match="name fewer roles"):
        check_size(" " * (POLICY_BYTES_MAX + 1))


def test_the_pages_example_of_replicas_in_other_accounts_is_whole() -> None:
    """It names an account for each region of the shipped settings."""
    page = (ROOT / "deploy" / "permissions.md").read_text(encoding="utf-8")
    lines = page.replace("\\\n", " ").splitlines()
    (line,) = (line for line in lines if "policy table" in line and "--replica" in line)
    words = shlex.split(line.strip())
    assert words[:2] == ["ledger", "deploy"]
    ran = CliRunner().invoke(app, [*words[2:], "--config", str(ROOT / "regions.yaml")])
    assert ran.exit_code == 0, ran.exception
    (joining,) = (one for one in json.loads(ran.stdout)["Statement"] if "Join" in one["Sid"])
    assert joining["Principal"]["AWS"] == ["444455556666", "777788889999"]


def test_the_command_writes_it_and_keeps_its_options_to_it() -> None:
    """Of the home's replica unless a region is named; --for says nothing of a role's policy."""
    config = ("--config", str(ROOT / "regions.yaml"))
    ran = CliRunner().invoke(app, ["policy", "table", "--for", APP, *config])
    assert ran.exit_code == 0, ran.output
    assert ":dynamodb:us-east-1:" in json.loads(ran.stdout)["Statement"][0]["Resource"]
    refused = CliRunner().invoke(app, ["policy", "writer", "--for", APP, *config])
    assert "are for the policy table, got writer" in str(refused.exception)
