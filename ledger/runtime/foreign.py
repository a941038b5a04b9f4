"""The errors of the AWS SDK, caught as one kind: no module names them by itself.

An SDK call, and reading its answer, raises more than `BotoCoreError` and `ClientError`: a malformed
endpoint is a `ValueError`, a `credential_process` that prints no JSON a `JSONDecodeError`, a field
that is missing a `KeyError`. Answers that no parser can read are `NoAnswer`
(`ledger.runtime.aws_answers`). `ledger.store.dynamodb.errors.from_botocore` makes ours of all.
"""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

FOREIGN = (
    BotoCoreError,
    ClientError,
    OSError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What a call of the SDK may raise: for blocks that hold the call and the reading of its answer."""


def error_code(error: Exception) -> str:
    """Return DynamoDB's code in an answered error; "" for any other."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return ""


def error_answer(error: Exception) -> Mapping[str, Any]:
    """Return the content of an answered error; empty for any other."""
    return error.response if isinstance(error, ClientError) else {}


def status_code(error: Exception) -> int:
    """Return the HTTP status of an answered error; 0 for any other."""
    if isinstance(error, ClientError):
        return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return 0
