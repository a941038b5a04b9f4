"""What the tests of leases share."""

import pytest
from support.leases import World


@pytest.fixture
def world() -> World:
    """Return a world with an empty table."""
    return World()
