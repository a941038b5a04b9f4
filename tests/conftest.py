"""What every tier of tests shares."""

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run tests on asyncio, as aiobotocore does."""
    return "asyncio"
