"""The event loops that the lean transport has to work on."""

import importlib.util

import pytest

_UVLOOP = importlib.util.find_spec("uvloop") is not None
LOOPS = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(
        ("asyncio", {"use_uvloop": True}),
        id="uvloop",
        marks=pytest.mark.skipif(not _UVLOOP, reason="uvloop is not installed (extra bench)"),
    ),
]
"""For a fixture `anyio_backend`."""
