"""What the tests of conformance share."""

from collections.abc import Iterator

import pytest
from support import dynamodb_local
from support.engines import settings_of

from ledger.settings import Settings

# The suite lies in plain modules; without this a failed assertion would not show its values.
pytest.register_assert_rewrite(
    "conformance.store_writes",
    "conformance.store_conditions",
    "conformance.store_groups",
    "conformance.store_parts",
    "conformance.store_reads",
    "conformance.store_tables",
    "conformance.counter_suite",
)


@pytest.fixture(scope="session")
def dynamodb_local_settings() -> Iterator[Settings]:
    """Run DynamoDB Local for all tests of the session, which differ in their tables."""
    with dynamodb_local.running() as endpoint:
        yield settings_of(endpoint)
