"""The event loops that the lean transport has to work on."""

import pytest

LOOPS = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop", marks=pytest.mark.tools("uvloop")),
]
"""For a fixture `anyio_backend`."""
