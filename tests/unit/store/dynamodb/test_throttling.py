"""Why a request was throttled: what the error says, and which counter a hot key belongs to."""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.loaders import Loader

from ledger.core.errors import AccessDenied, RequestRefused, Throttled
from ledger.core.keys import partition_key
from ledger.store.conditions import Absent
from ledger.store.dynamodb import requests
from ledger.store.dynamodb.failures import classify_failure
from ledger.store.dynamodb.statements import outcome_of, statement
from ledger.store.dynamodb.throttling import ADVICE, HOT_KEY, counters_in, of_statement
from ledger.store.reads import Get, Query, Scan
from ledger.store.writes import Check, Delete, Put, Update

TABLE = "ledger"
ARN = "arn:aws:dynamodb:us-east-1:111122223333:table/ledger"


def put(partition: str) -> Put:
    """Return a put into a partition."""
    return Put({"pk": {"S": partition}, "sk": {"S": "s"}}, Absent())


def throttled(*reasons: str, code: str = "ThrottlingException", of: Any = None) -> Throttled:
    """Judge an error with these reasons."""
    name = "throttlingReasons" if code == "ThrottlingException" else "ThrottlingReasons"
    response = {
        "Error": {"Code": code, "Message": "slow down"},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        name: [{"reason": reason, "resource": ARN} for reason in reasons],
    }
    error = ClientError(response, "PutItem")  # type: ignore[arg-type]
    failure = classify_failure(error, region="us-east-1", table=TABLE, request=of)
    assert failure.passing
    assert isinstance(failure.error, Throttled)
    hot = any(reason.endswith(HOT_KEY) for reason in reasons)
    assert failure.cause == ("hot_key" if hot else "throttled")
    return failure.error


@pytest.mark.parametrize(
    "code",
    ["ThrottlingException", "ProvisionedThroughputExceededException", "RequestLimitExceeded"],
)
def test_a_hot_key_names_its_counter(code: str) -> None:
    """The counter is what a user can shard; a shard of it goes by the counter's name."""
    _, request = requests.write_request(put("visits"), TABLE)
    error = throttled("TableWriteKeyRangeThroughputExceeded", code=code, of=request)
    assert (error.limits, error.counters) == ((HOT_KEY,), ("visits",))
    assert "at 'visits': one partition key takes at most 1,000 write units" in str(error)
    assert "shard this counter" in str(error)
    assert error.code == code


def test_a_statement_has_the_code_of_its_own_answer() -> None:
    """Of one among many statements that is what its part of the answer says."""
    said = statement(put("visits"), TABLE)
    assert said is not None
    for message in ("slow down", f"TableWrite{HOT_KEY}"):
        late = of_statement({"Code": "ThrottlingError", "Message": message}, said, "us-east-1")
        assert late.code == "ThrottlingError"
    refused = outcome_of({"Code": "ValidationError", "Message": "no"}, "us-east-1")
    assert isinstance(refused, RequestRefused)
    assert refused.code == "ValidationError"
    denied = outcome_of({"Code": "AccessDenied", "Message": "no"}, "us-east-1")
    assert isinstance(denied, AccessDenied)
    assert denied.code == "AccessDenied"


def test_one_of_many_counters() -> None:
    """DynamoDB does not say which key of a batch was hot, so some of them are named."""
    request = requests.batch_request([put(name) for name in "abcde"], TABLE)
    error = throttled("TableWriteKeyRangeThroughputExceeded", of=request)
    assert error.counters == tuple("abcde")
    assert "at one of 'a', 'b', 'c' and 2 more: " in str(error)


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("TableWriteAccountLimitExceeded", "ask AWS for more"),
        ("TableReadMaxOnDemandThroughputExceeded", "the table's own maximum"),
        ("TableWriteProvisionedThroughputExceeded", "bill the table on demand"),
    ],
)
def test_each_limit_has_its_advice(reason: str, advice: str) -> None:
    """A limit of the whole table names no counter: sharding would not help."""
    _, request = requests.write_request(put("visits"), TABLE)
    error = throttled(reason, of=request)
    assert advice in str(error)
    assert "visits" not in str(error)
    assert error.counters == ()


def test_without_reasons_nothing_is_guessed() -> None:
    """An engine or a proxy that gives none, or one that is new, leaves the plain message."""
    plain = throttled(of=requests.get_request(Get(("visits", "s")), TABLE))
    assert "asks for a slower rate" in str(plain)
    assert (plain.limits, plain.counters) == ((), ())
    assert throttled("TableWriteSomethingNew").limits == ()


def test_the_limits_are_those_of_botocore() -> None:
    """The model's own description names each limit that has advice here."""
    shape = Loader().load_service_model("dynamodb", "service-2")["shapes"]["ThrottlingReason"]
    for limit in ADVICE:
        assert limit in shape["members"]["reason"]["documentation"]


def test_every_request_is_read() -> None:
    """Whatever the operation, its counters are found; the ledger's own partitions are none."""
    for request in (
        requests.write_request(put("visits"), TABLE)[1],
        requests.write_request(Update(("visits", "s"), add={"n": {"N": "1"}}), TABLE)[1],
        requests.get_request(Get((partition_key("visits", 3), "s")), TABLE),
        requests.query_request(Query("visits", first="a", last="b"), TABLE),
        requests.batch_request([Delete(("visits", "s")), put("visits")], TABLE),
        requests.transaction_request(
            [Check(("~lease", "s"), Absent()), put("visits")], TABLE, None
        ),
    ):
        assert counters_in(request) == ("visits",), request
    assert counters_in(requests.scan_request(Scan(), TABLE)) == ()
    assert counters_in(requests.get_request(Get(("~lease", "s")), TABLE)) == ()
