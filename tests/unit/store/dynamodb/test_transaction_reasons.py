"""A transaction that was cancelled: its reasons, not its code, say what that means."""

import pytest
from botocore.exceptions import ClientError

from ledger.core.errors import RequestRefused, Throttled
from ledger.store.dynamodb.failures import classify_failure


def cancelled(*reasons: str) -> ClientError:
    """Return the error of a transaction cancelled for these reasons."""
    response = {
        "Error": {"Code": "TransactionCanceledException", "Message": "Transaction cancelled"},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
        "ResponseMetadata": {"HTTPStatusCode": 400},
    }
    return ClientError(response, "TransactWriteItems")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reasons", "throttled"),
    [
        (("ThrottlingError", "None"), True),
        (("ProvisionedThroughputExceeded",), True),
        (("None", "TransactionConflict"), False),
    ],
)
def test_a_throttled_or_contended_transaction_is_not_refused(
    *, reasons: tuple[str, ...], throttled: bool
) -> None:
    """Nothing was written and a repeat may go through: what waits on `Throttled` waits on it."""
    failure = classify_failure(cancelled(*reasons), region="us-east-1", table="ledger")
    assert isinstance(failure.error, Throttled)
    assert "try again later" in str(failure.error)
    assert (failure.passing, failure.throttled, failure.applied_maybe) == (True, throttled, False)


def test_a_transaction_refused_for_its_items_stays_refused() -> None:
    """One reason that a repeat cannot change decides."""
    error = cancelled("ValidationError", "TransactionConflict")
    failure = classify_failure(error, region="us-east-1", table="ledger")
    assert isinstance(failure.error, RequestRefused)
    assert not failure.passing
