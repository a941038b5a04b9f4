"""Trials of a role's permissions without harm: requests that change nothing even if allowed.

A grant is tried in each region where it holds, once for each partition key that it names:

=================== ===================================================== =================
action              request                                               costs, if allowed
=================== ===================================================== =================
Query, GetItem,     of an item that is never there                        0.5 read units
BatchGetItem
Scan                one item, of which the sort key is returned           0.5 read units for
                                                                          each 4 KB of it
PutItem, UpdateItem on a condition that no item and no absence meets      1 write unit
DeleteItem          the same                                              1 write unit
ConditionCheckItem  alone in a transaction, on the same condition         2 write units
PartiQLUpdate       a statement on the same condition                     1 write unit
BatchWriteItem,     deletes an item that is never there                   1 write unit
PartiQLDelete
Describe...         the description itself                                nothing
GetObject           of an object that is never there                      a GET of S3
PutObject           in place of an object that is never there, `If-Match` a PUT of S3
ListBucket          HeadBucket                                            a HEAD of S3
=================== ===================================================== =================

Write units are charged only in the region of the request: a request that changes nothing is not
replicated. Not tried are PartiQLInsert, which has no condition, and actions that make or change a
table: no request is documented to fail after it was authorized and before it acts. Nor is
DeleteObject: for an object that is missing it leaves a marker if versions are kept.

S3 also answers 403 for a missing object if the caller may not list the bucket. It then names
ListBucket as missing, not GetObject: that shows a reader's permission.

The partition keys are those that the policy names, its `*` filled in, or `~doctor`; the sort key
ends in a number that is drawn for each run, so that no item has it.

Sources: Amazon DynamoDB API Reference, "DeleteItem" (of an item that is not there it does nothing);
Developer Guide, "DynamoDB read and write operations" (a condition that fails consumes write units;
a read of nothing, the least there is), "Using IAM policy conditions for fine-grained access
control" (keys are compared before anything is read), "IAM security policies with PartiQL". Amazon
S3 API Reference, "GetObject" (404 or 403), "PutObject" (`If-Match`: 404 without an object);
User Guide, "Troubleshoot access denied (403 Forbidden) errors" (which action is named).

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ledger.administration.templates.permissions import names_of, regions_of
from ledger.administration.templates.roles import Role, RoleGrant, grants
from ledger.core.entry import Key
from ledger.core.keys import DOCTOR_PARTITION
from ledger.settings import Settings
from ledger.store.conditions import AllOf, Has, Not
from ledger.store.dynamodb import requests, statements
from ledger.store.dynamodb.requests import Request
from ledger.store.reads import Get, Query, Scan
from ledger.store.writes import Check, Delete, Put, Update

ATTRIBUTE = "doctor"
FILLED_IN = "~doctor"
"""Replaces a `*` in a policy's partition key: no name made of an id contains it."""
DESCRIPTIONS = {
    "DescribeTable": "describe_table",
    "DescribeTimeToLive": "describe_time_to_live",
    "DescribeContinuousBackups": "describe_continuous_backups",
}
NO_INSERT = "an INSERT has no condition that could keep it from writing"
NO_CHANGE = "no request is known to fail after it was authorized and before it acts"
NO_DELETE = "where versions are kept it would leave a marker, though no object has the name"
_ETAG = '"00000000000000000000000000000000"'
"""The ETag of no object: S3's are of contents, or of parts."""

Outcome = Literal["allowed", "denied", "unknown", "not tried"]
ALLOWED_CODES = frozenset({"ConditionalCheckFailedException"})
_CONDITION_FAILED = "ConditionalCheckFailed"
"""Codes of an action in a transaction, and of a statement."""
DENIED_CODES = frozenset(
    {"AccessDenied", "AccessDeniedException", "KMSAccessDeniedException", "NotAuthorized"}
)


_DENIED_BY_S3 = frozenset({"403", "AccessDenied"})
_NO_OBJECT = frozenset({"404", "NoSuchKey", "412", "PreconditionFailed"})
_ANSWERS: Mapping[str, str] = {
    "query": "Items",
    "scan": "Items",
    "batch_get_item": "Responses",
    "batch_execute_statement": "Responses",
    "batch_write_item": "UnprocessedItems",
    **dict.fromkeys(("put_item", "update_item", "delete_item", "transact_write_items"), ""),
    "describe_table": "Table",
    "describe_time_to_live": "TimeToLiveDescription",
    "describe_continuous_backups": "ContinuousBackupsDescription",
}
"""The key of a valid answer, by operation; "" if a trial can only end in an error."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One permission and the request that tries it; without an operation `reason` says why.

    `service` is the one whose client has the operation.
    """

    grant: str
    action: str
    table: str
    partition: str = ""
    operation: str = ""
    request: Request | None = None
    reason: str = ""
    service: str = "dynamodb"

    @property
    def name(self) -> str:
        """The action, on what."""
        return f"{self.action} on {self.partition or self.table!r}"


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The result of a trial; `text` is the error, or why it was not tried."""

    trial: Trial
    outcome: Outcome
    text: str = ""


def trials_of(role: Role, settings: Settings, region: str, *, number: int) -> Iterator[Trial]:
    """Yield a trial of each permission that a role has in a region; `number` is drawn for a run."""
    for grant in grants(role):
        if not regions_of(settings, grant, region):
            continue
        for table in names_of(settings, grant):
            for action in grant.actions:
                yield from _trials(grant, action, table, number)


def _trials(grant: RoleGrant, action: str, table: str, number: int) -> Iterator[Trial]:
    if grant.service == "s3":
        yield _on_path(grant, action, table, number)
        return
    if action == "Scan" or action in DESCRIPTIONS:
        operation, request = _on_table(action, table)
        yield Trial(grant.name, action, table, "", operation, request)
        return
    for partition in partitions_of(grant):
        key = (partition, f"{FILLED_IN}#{number}")
        made = _on_key(action, table, key, grant.only_attributes[-1:] or (ATTRIBUTE,))
        if made is None:
            reason = NO_INSERT if action == "PartiQLInsert" else NO_CHANGE
            yield Trial(grant.name, action, table, reason=reason)
            return
        yield Trial(grant.name, action, table, partition, *made)


def _on_path(grant: RoleGrant, action: str, path: str, number: int) -> Trial:
    """Return the trial of an action on a bucket, or on the objects `BUCKET/PREFIX*`."""
    bucket, _, prefix = path.partition("/")
    named = {"Bucket": bucket, "Key": prefix.replace("*", f"{FILLED_IN}-{number}")}
    made: Mapping[str, tuple[str, Request]] = {
        "GetObject": ("get_object", named),
        "PutObject": ("put_object", {**named, "Body": b"", "IfMatch": _ETAG}),
        "ListBucket": ("head_bucket", {"Bucket": bucket}),
    }
    if action not in made:
        return Trial(grant.name, action, path, reason=NO_DELETE, service="s3")
    operation, request = made[action]
    return Trial(grant.name, action, path, "", operation, request, service="s3")


def partitions_of(grant: RoleGrant) -> list[str]:
    """Return a partition key for each one in a grant; `~doctor` if it names none."""
    return [key.replace("*", FILLED_IN) for key in grant.only_keys] or [DOCTOR_PARTITION]


def _on_table(action: str, table: str) -> tuple[str, Request]:
    if action == "Scan":
        return "scan", requests.scan_request(Scan(limit=1, attributes=("sk",)), table)
    return DESCRIPTIONS[action], {"TableName": table}


def _on_key(  # noqa: C901, PLR0911 (one action a case)
    action: str, table: str, key: Key, attributes: Sequence[str]
) -> tuple[str, Request] | None:
    """Return the operation and request that try an action on an item that is never there.

    The request names one of these attributes: a policy may allow no other.
    """
    absent, (attribute,) = Delete(key), attributes
    impossible = AllOf((Has(attribute), Not(Has(attribute))))
    update = Update(key, set={attribute: {"S": ATTRIBUTE}}, condition=impossible)
    match action:
        case "Query":
            once = Query(key[0], first=key[1], last=key[1], limit=1, consistent=False)
            return "query", requests.query_request(once, table)
        case "GetItem":
            return "get_item", requests.get_request(Get(key, consistent=False), table)
        case "BatchGetItem":
            gets = requests.gets_request([Get(key, consistent=False)], table)
            return "batch_get_item", requests.each_gets_request(gets)
        case "PutItem":
            put = Put(requests.key_attributes(key), impossible)
            return requests.write_request(put, table)
        case "UpdateItem":
            return requests.write_request(update, table)
        case "DeleteItem":
            return requests.write_request(Delete(key, impossible), table)
        case "ConditionCheckItem":
            check = [Check(key, impossible)]
            return "transact_write_items", requests.transaction_request(check, table, None)
        case "BatchWriteItem":
            return "batch_write_item", requests.batch_request([absent], table)
        case "PartiQLUpdate" | "PartiQLDelete":
            said = statements.statement(update if action == "PartiQLUpdate" else absent, table)
            if said is not None:
                return "batch_execute_statement", statements.each_request([said])
    return None


def answered(trial: Trial, response: Mapping[str, Any]) -> TrialResult:
    """Return the result of an answer without an error; statements have their errors in it.

    An answer that DynamoDB cannot give, such as a condition met that cannot be, is not counted.
    """
    needed = _ANSWERS.get(trial.operation)
    if needed is not None and needed not in response:
        return TrialResult(trial, "unknown", "the answer is not DynamoDB's: check the endpoint")
    for part in response.get("Responses", ()) if "statement" in trial.operation else ():
        error = part.get("Error") or {}
        code = str(error.get("Code", ""))
        if code == "AccessDenied":
            return TrialResult(trial, "denied", str(error.get("Message", "")))
        if code and code != _CONDITION_FAILED:
            return TrialResult(trial, "unknown", f"{code}: {error.get('Message', '')}")
    return TrialResult(trial, "allowed")


def refused(trial: Trial, code: str, reasons: frozenset[str], text: str) -> TrialResult:
    """Return the result of an error: its code, or the codes of a cancelled transaction's actions.

    A condition is evaluated only if the caller may write the item, so its failure shows permission.
    """
    if code in ALLOWED_CODES or reasons == {_CONDITION_FAILED}:
        return TrialResult(trial, "allowed")
    if code in DENIED_CODES:
        return TrialResult(trial, "denied", text)
    return TrialResult(trial, "unknown", text)


def refused_by_s3(trial: Trial, code: str, text: str) -> TrialResult:
    """Return the result of an error of S3; HEAD has only a status."""
    if code in _NO_OBJECT and trial.action != "ListBucket":
        return TrialResult(trial, "allowed")
    if code not in _DENIED_BY_S3:
        return TrialResult(trial, "unknown", text)
    if trial.action == "GetObject" and "s3:GetObject" not in text:
        if "s3:ListBucket" in text:
            return TrialResult(trial, "allowed")
        return TrialResult(
            trial, "unknown", f"{text}: S3 says the same of an object that is missing"
        )
    return TrialResult(trial, "denied", text)


def not_tried(trials: Sequence[Trial]) -> list[TrialResult]:
    """Return the trials for which there is no request."""
    return [
        TrialResult(trial, "not tried", trial.reason) for trial in trials if trial.request is None
    ]
