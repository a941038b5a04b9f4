"""pytest fixtures for programs that use the ledger.

A program's `conftest.py` asks for them: `pytest_plugins = ["ledger.testing.plugin"]`.

- `memory_table`: a new `MemoryGlobalTable` for each test.
- `local_table`: a local global table in another process, one for all tests; boto3 reaches it, too.
- `ledger_settings`: settings of it, emptied before each test, for `Ledger.open` and for commands.
- `sync_ledger`: an open ledger of it without async.

The option `ledger_regions` of pytest's configuration names the regions, the first of them home.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import ledger.sync
    from ledger.local import LocalGlobalTable
    from ledger.settings import Settings
    from ledger.testing.table import MemoryGlobalTable

# Everything is imported where it is used: pytest loads this module before any test.
_REGIONS = "ledger_regions"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addini(
        _REGIONS,
        "Regions of the ledger's tables in tests, the first of them home.",
        type="args",
        default=["us-east-1", "eu-west-1"],
    )


def _regions(config: pytest.Config) -> list[str]:
    found: list[str] = config.getini(_REGIONS)
    return found


@pytest.fixture
def memory_table(pytestconfig: pytest.Config) -> "MemoryGlobalTable":
    """Return a new global table in memory."""
    from ledger.testing.table import MemoryGlobalTable  # noqa: PLC0415

    return MemoryGlobalTable(_regions(pytestconfig))


@pytest.fixture(scope="session")
def local_table(pytestconfig: pytest.Config) -> "Iterator[LocalGlobalTable]":
    """Run a local global table in another process while tests use it."""
    from anyio.from_thread import start_blocking_portal  # noqa: PLC0415

    from ledger.local import LocalGlobalTable  # noqa: PLC0415

    spawned = LocalGlobalTable.spawn(regions=_regions(pytestconfig))
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(spawned) as world:
        yield world


@pytest.fixture
def ledger_settings(local_table: "LocalGlobalTable") -> "Settings":
    """Return settings of the local global table, which is emptied first."""
    local_table.heal_all()
    local_table.reset()
    return local_table.settings()


@pytest.fixture
def sync_ledger(ledger_settings: "Settings") -> "Iterator[ledger.sync.Ledger]":
    """Open a ledger without async on the local global table."""
    from ledger.sync import Ledger  # noqa: PLC0415

    with Ledger.open(ledger_settings) as opened:
        yield opened
