"""What every tier of tests shares."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """aiobotocore runs on asyncio, so the tests do."""
    return "asyncio"
