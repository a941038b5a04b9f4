"""What tries a role's permissions: all that its policy grants, and nothing that changes an item."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, LOCAL
from support.permissions import Call

from ledger.administration.diagnosis.permission_trials import (
    DESCRIPTIONS,
    FILLED_IN,
    NO_CHANGE,
    NO_DELETE,
    NO_INSERT,
    Trial,
    answered,
    not_tried,
    refused,
    refused_by_s3,
    trials_of,
)
from ledger.administration.templates import Role, policy
from ledger.administration.templates.permissions import regions_of
from ledger.administration.templates.roles import grants
from ledger.settings import Settings

SETTINGS = Settings(
    table="money",
    home=HOME,
    regions={HOME: LOCAL, AWAY: LOCAL},
    marker_table="marks",
    archive=["s3://kept/ledger"],
    pipeline={"state_table": "states"},
)
NUMBER = 4711
TRIED = [(role, region) for role in Role for region in (HOME, AWAY)]
IDS = [f"{role}-{region}" for role, region in TRIED]


def made(role: Role, region: str) -> list[Trial]:
    """Return the trials of a role."""
    return list(trials_of(role, SETTINGS, region, number=NUMBER))


def trial(action: str = "PutItem") -> Trial:
    """Return a trial of a writer's or the compactor's, by its action."""
    both = [*made(Role.WRITER, HOME), *made(Role.COMPACTOR, HOME)]
    return next(one for one in both if one.action == action)


@pytest.mark.parametrize(("role", "region"), TRIED, ids=IDS)
def test_the_role_itself_is_allowed_every_trial(role: Role, region: str) -> None:
    """Tables and partition keys of the trials are those of the policy, by IAM's own rules."""
    document = policy(SETTINGS, role, region=region)
    for one in made(role, region):
        if one.request is not None and one.service == "dynamodb":
            partitions = (one.partition,) if one.partition else ()
            call = Call(one.action, region, partitions, one.table)
            assert call.is_allowed(document), one


@pytest.mark.parametrize(("role", "region"), TRIED, ids=IDS)
def test_every_permission_is_tried_or_said_not_to_be(role: Role, region: str) -> None:
    """Each action of each grant that holds in the region; without a trial there is a reason."""
    expected = {
        (grant.name, action)
        for grant in grants(role)
        if regions_of(SETTINGS, grant, region)
        for action in grant.actions
    }
    assert {(one.grant, one.action) for one in made(role, region)} == expected
    left = [one for one in made(role, region) if one.request is None]
    assert {one.reason for one in left} <= {NO_INSERT, NO_CHANGE, NO_DELETE}
    assert [tried.text for tried in not_tried(made(role, region))] == [one.reason for one in left]


@pytest.mark.parametrize(("role", "region"), TRIED, ids=IDS)
def test_no_trial_can_change_an_item(role: Role, region: str) -> None:
    """Reads, writes on a condition that nothing meets, deletes of a key that no item has."""
    for one in made(role, region):
        if one.request is not None:
            assert is_harmless(one.operation, one.request), one


def is_harmless(operation: str, request: dict[str, Any]) -> bool:  # noqa: PLR0911 (one a kind)
    """Return whether a request changes nothing, whatever the table holds."""
    reads = {"query", "get_item", "batch_get_item", "scan", "get_object", "head_bucket"}
    if operation == "put_object":
        return str(NUMBER) in request["Key"] and request["IfMatch"].strip('"0') == ""
    if operation in {*reads, *DESCRIPTIONS.values()}:
        return True
    if operation in {"put_item", "update_item", "delete_item"}:
        return is_impossible(request)
    if operation == "transact_write_items":
        return all(
            kind == "ConditionCheck" and is_impossible(action)
            for each in request["TransactItems"]
            for kind, action in each.items()
        )
    if operation == "batch_write_item":
        return all(is_of_no_item(key) for key in deleted(request))
    [said] = request["Statements"]
    if said["Statement"].startswith("UPDATE"):
        return bool(said["Statement"].endswith('"doctor" IS NOT MISSING AND "doctor" IS MISSING'))
    return bool(said["Statement"].startswith("DELETE")) and is_of_no_item(
        dict(zip(("pk", "sk"), said["Parameters"], strict=True))
    )


def is_impossible(request: dict[str, Any]) -> bool:
    """Return whether a condition asks for an attribute to be there and not to be there."""
    [name] = set(request["ExpressionAttributeNames"].values())
    text: str = request["ConditionExpression"]
    for placeholder in request["ExpressionAttributeNames"]:
        text = text.replace(placeholder, name)
    return text == f"(attribute_exists({name})) AND (NOT (attribute_exists({name})))"


def is_of_no_item(key: dict[str, Any]) -> bool:
    """Return whether a key has the number that was drawn for the run."""
    return bool(key["sk"] == {"S": f"{FILLED_IN}#{NUMBER}"})


def deleted(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the keys of a batch that only deletes."""
    for parts in request["RequestItems"].values():
        for part in parts:
            [(kind, content)] = part.items()
            assert kind == "DeleteRequest"
            yield content["Key"]


def test_trials_of_objects_are_under_the_archives_prefix() -> None:
    """Of the bucket and the prefix that the policy names, under a name that was drawn."""
    sent = {
        (one.action, one.operation): one.request
        for one in made(Role.COMPACTOR, HOME)
        if one.service == "s3"
    }
    named = {"Bucket": "kept", "Key": f"ledger/{FILLED_IN}-{NUMBER}"}
    assert sent["GetObject", "get_object"] == named
    assert (sent["PutObject", "put_object"] or {}).items() >= named.items()
    assert sent["ListBucket", "head_bucket"] == {"Bucket": "kept"}


LISTS = "User: a is not authorized to perform: s3:ListBucket on resource: b because"
GETS = "User: a is not authorized to perform: s3:GetObject on resource: b because"


@pytest.mark.parametrize(
    ("action", "code", "text", "outcome"),
    [
        ("GetObject", "NoSuchKey", "", "allowed"),
        ("GetObject", "AccessDenied", LISTS, "allowed"),
        ("GetObject", "AccessDenied", GETS, "denied"),
        ("GetObject", "AccessDenied", "Access Denied", "unknown"),
        ("GetObject", "NoSuchBucket", "", "unknown"),
        ("PutObject", "NoSuchKey", "", "allowed"),
        ("PutObject", "412", "", "allowed"),
        ("PutObject", "AccessDenied", "Access Denied", "denied"),
        ("ListBucket", "403", "Forbidden", "denied"),
        ("ListBucket", "404", "Not Found", "unknown"),
        ("PutObject", "SlowDown", "", "unknown"),
    ],
)
def test_what_s3_answers(action: str, code: str, text: str, outcome: str) -> None:
    """What is missing was allowed; a 403 without the action's name says nothing of a read."""
    one = next(each for each in made(Role.COMPACTOR, HOME) if each.action == action)
    assert refused_by_s3(one, code, text).outcome == outcome


@pytest.mark.parametrize(
    ("code", "reasons", "outcome"),
    [
        ("ConditionalCheckFailedException", (), "allowed"),
        ("TransactionCanceledException", ("ConditionalCheckFailed",), "allowed"),
        ("TransactionCanceledException", ("TransactionConflict",), "unknown"),
        ("AccessDeniedException", (), "denied"),
        ("KMSAccessDeniedException", (), "denied"),
        ("ValidationException", (), "unknown"),
        ("ThrottlingException", (), "unknown"),
        ("ExpiredTokenException", (), "unknown"),
    ],
)
def test_a_failed_condition_is_a_permission(
    code: str, reasons: tuple[str, ...], outcome: str
) -> None:
    """Only a refusal of the action denies it; what says nothing of it is unknown."""
    assert refused(trial(), code, frozenset(reasons), "why").outcome == outcome


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        ({"Code": "ConditionalCheckFailed"}, "allowed"),
        ({"Code": "AccessDenied", "Message": "no PartiQLUpdate"}, "denied"),
        ({"Code": "ValidationError"}, "unknown"),
        (None, "allowed"),
    ],
)
def test_a_statement_has_its_error_in_the_answer(
    error: dict[str, str] | None, outcome: str
) -> None:
    """A batch of statements succeeds as a request, whatever became of them."""
    response = {"Responses": [{"Error": error} if error else {"TableName": "money"}]}
    assert answered(trial("PartiQLUpdate"), response).outcome == outcome


@pytest.mark.parametrize("action", ["Query", "PutItem", "BatchWriteItem", "PartiQLUpdate"])
def test_an_answer_that_dynamodb_cannot_give_allows_nothing(action: str) -> None:
    """As that of another server, or of an engine for which an impossible condition held."""
    assert answered(trial(action), {"message": "welcome"}).outcome == "unknown"


def test_the_answer_of_an_item_operation_allows_it() -> None:
    """BatchGetItem has `Responses`, too, by the name of the table."""
    assert answered(trial("BatchGetItem"), {"Responses": {"money": []}}).outcome == "allowed"
