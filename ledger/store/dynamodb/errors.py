"""The one place where botocore's errors become ours, for boto3 and aiobotocore.

Which errors of a write mean "not applied" and which "unknown" is decided by the store; this module
only says what is raised, with a message of one line that names region, table and what to do.
"""

from botocore import exceptions

from ledger.core.errors import (
    AccessDenied,
    RequestRefused,
    StoreError,
    TableMissing,
    Throttled,
    TokenReused,
    Unreachable,
)
from ledger.core.urls import without_passwords
from ledger.runtime.foreign import error_code, status_code

MESSAGE_CHARACTERS_MAX = 300
"""AWS's own messages can repeat a whole request; one line is what a user reads."""

THROTTLING_CODES = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
"""DynamoDB did nothing and the same request may succeed later: rates, or others at one item."""

THROTTLING_REASONS = frozenset(
    {"ProvisionedThroughputExceeded", "RequestLimitExceeded", "ThrottlingError"}
)
"""Why an action of a cancelled transaction was throttled; the code alone says only "cancelled"."""

PASSING_REASONS = THROTTLING_REASONS | {"TransactionConflict"}
"""DynamoDB did nothing and the same transaction may succeed later."""

ACCESS_CODES = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "KMSAccessDeniedException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)

MISSING_CODES = frozenset({"ResourceNotFoundException", "TableNotFoundException"})

SERVER_CODES = frozenset(
    {"InternalFailure", "InternalServerError", "ServiceUnavailable", "ServiceUnavailableException"}
)

SERVER_STATUS_MIN = 500

_ACCESS_ERRORS = (
    exceptions.ConfigNotFound,
    exceptions.CredentialRetrievalError,
    exceptions.LoginError,
    exceptions.MetadataRetrievalError,
    exceptions.NoAuthTokenError,
    exceptions.NoCredentialsError,
    exceptions.PartialCredentialsError,
    exceptions.ProfileNotFound,
    exceptions.SSOError,
    exceptions.TokenRetrievalError,
    exceptions.UnknownCredentialError,
)
_CONNECTION_ERRORS = (
    exceptions.ConnectionError,
    exceptions.HTTPClientError,
    exceptions.ResponseStreamingError,
    OSError,
)


def cancellation_reasons(error: Exception) -> frozenset[str]:
    """Return why a transaction was cancelled, by the codes of its actions; otherwise empty."""
    if not isinstance(error, exceptions.ClientError):
        return frozenset()
    reasons = error.response.get("CancellationReasons", [])
    return frozenset(
        code for reason in reasons if (code := reason.get("Code")) not in {None, "None"}
    )


def answer_header(error: exceptions.ClientError, name: str) -> str | None:
    """Return a header of an answered error by its lower-case name; None without it."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    found: str | None = headers.get(name)
    return found


def from_botocore(error: Exception, *, region: str, table: str) -> StoreError:
    """Return our error for one that boto3 or aiobotocore raised; raise it `from` the original."""
    where, cause = f"{region}, table {table}", without_passwords(_one_line(error))
    if code := error_code(error):
        reasons = cancellation_reasons(error)
        is_passing = code in THROTTLING_CODES or (bool(reasons) and reasons <= PASSING_REASONS)
        answered = _answered(code, status_code(error), where, cause, is_passing=is_passing)
        answered.code = code
        return answered
    if isinstance(error, _ACCESS_ERRORS):
        return AccessDenied(
            f"{where}: no usable AWS credentials ({cause}): "
            "set AWS_PROFILE, or a profile for the region, or log in again"
        )
    if isinstance(error, _CONNECTION_ERRORS):
        return Unreachable(f"{where}: no answer ({cause}): check network and endpoint")
    if isinstance(error, AttributeError | LookupError | TypeError):
        return Unreachable(f"{where}: the answer is not DynamoDB's ({cause}): check the endpoint")
    return RequestRefused(f"{where}: the request was refused ({cause})")


def _answered(code: str, status: int, where: str, cause: str, *, is_passing: bool) -> StoreError:
    if code in ACCESS_CODES:
        return AccessDenied(f"{where}: AWS refused the credentials or the action ({cause})")
    if code in MISSING_CODES:
        return TableMissing(
            f"{where}: the table is not in this region: `ledger table create` makes it; a region"
            " that was lost or taken out must be removed from the settings"
        )
    if is_passing:
        return Throttled(f"{where}: DynamoDB asks for a slower rate ({cause}): try again later")
    if code in SERVER_CODES or status >= SERVER_STATUS_MIN:
        return Unreachable(f"{where}: DynamoDB had an internal error ({cause}): try again")
    kind = TokenReused if code == "IdempotentParameterMismatchException" else RequestRefused
    return kind(f"{where}: the request was refused ({cause})")


def _one_line(error: Exception) -> str:
    if isinstance(error, exceptions.ClientError):
        text = f"{error_code(error)}: {error.response.get('Error', {}).get('Message', '')}"
    else:
        text = str(error) or type(error).__name__
    text = " ".join(text.split()).rstrip(".: ")
    if len(text) > MESSAGE_CHARACTERS_MAX:
        return f"{text[:MESSAGE_CHARACTERS_MAX]}..."
    return text
