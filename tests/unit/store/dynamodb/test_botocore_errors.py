import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from ledger.core.errors import (
    AccessDenied,
    RequestRefused,
    StoreError,
    TableMissing,
    Throttled,
    Unreachable,
)
from ledger.runtime.foreign import error_code, status_code
from ledger.store.dynamodb.errors import MESSAGE_CHARACTERS_MAX, from_botocore
from ledger.store.dynamodb.failures import classify_failure


def answered(code: str, message: str = "why", status: int = 400) -> ClientError:
    """Give the error that botocore raises for an answer of DynamoDB."""
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "1",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
                "HostId": "",
            },
        },
        "PutItem",
    )


URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("error", "ours"),
    [
        (answered("UnrecognizedClientException"), AccessDenied),
        (answered("InvalidSignatureException"), AccessDenied),
        (answered("ExpiredTokenException"), AccessDenied),
        (answered("ExpiredToken"), AccessDenied),
        (answered("AccessDeniedException"), AccessDenied),
        (answered("ResourceNotFoundException"), TableMissing),
        (answered("ValidationException"), RequestRefused),
        (answered("ItemCollectionSizeLimitExceededException"), RequestRefused),
        (answered("ProvisionedThroughputExceededException"), Throttled),
        (answered("ThrottlingException"), Throttled),
        (answered("TransactionConflictException"), Throttled),
        (answered("RequestLimitExceeded"), Throttled),
        (answered("InternalServerError", status=500), Unreachable),
        (answered("502", status=502), Unreachable),
        (exceptions.NoCredentialsError(), AccessDenied),
        (exceptions.PartialCredentialsError(provider="env", cred_var="key"), AccessDenied),
        (exceptions.ProfileNotFound(profile="production"), AccessDenied),
        (exceptions.EndpointConnectionError(endpoint_url=URL), Unreachable),
        (exceptions.ConnectTimeoutError(endpoint_url=URL), Unreachable),
        (exceptions.ReadTimeoutError(endpoint_url=URL), Unreachable),
        (exceptions.ConnectionClosedError(endpoint_url=URL), Unreachable),
        (exceptions.SSLError(endpoint_url=URL, error=OSError("bad certificate")), Unreachable),
        (ConnectionResetError("reset"), Unreachable),
        (exceptions.ParamValidationError(report="no table"), RequestRefused),
    ],
)
def test_each_error_of_botocore_has_its_place(error: Exception, ours: type[StoreError]) -> None:
    """The kind tells the caller what to do; the message names region and table in one line."""
    mapped = from_botocore(error, region="eu-west-1", table="ledger")
    assert type(mapped) is ours
    assert str(mapped).startswith("eu-west-1, table ledger: ")
    assert "\n" not in str(mapped)
    assert mapped.code == (error_code(error) or None)


def test_a_message_of_aws_is_kept_but_not_its_length() -> None:
    """What AWS said is shown on one line and cut where it repeats a request."""
    short = from_botocore(
        answered("ValidationException", "two\n lines."), region="eu-west-1", table="ledger"
    )
    assert "(ValidationException: two lines)" in str(short)
    long = from_botocore(
        answered("ValidationException", "x" * 5_000), region="eu-west-1", table="ledger"
    )
    assert len(str(long)) < MESSAGE_CHARACTERS_MAX + 100


def test_code_and_status_are_read_from_answers_only() -> None:
    """An error that never reached DynamoDB has neither."""
    assert (error_code(answered("Throttling")), status_code(answered("Throttling"))) == (
        "Throttling",
        400,
    )
    lost = exceptions.ReadTimeoutError(endpoint_url=URL)
    assert (error_code(lost), status_code(lost)) == ("", 0)


@pytest.mark.parametrize(
    ("code", "throttled"),
    [
        ("ProvisionedThroughputExceededException", True),
        ("ReplicatedWriteConflictException", False),
        ("TransactionConflictException", False),
        ("TransactionInProgressException", False),
    ],
)
def test_a_conflict_is_no_throttling(code: str, throttled: bool) -> None:  # noqa: FBT001
    """Both pass, but only a rate that was exceeded asks for a slower one."""
    failure = classify_failure(answered(code), region="eu-west-1", table="ledger")
    assert failure.passing
    assert failure.throttled is throttled
