"""For tests of programs that use the ledger: a global table in memory, its clock, pytest fixtures.

`MemoryGlobalTable` is a global table whose replication and time a test moves by hand; its stores
pass the conformance suite of every other store. `ledger.testing.plugin` has fixtures, for a table
in memory and for a local global table that boto3 reaches, too:
`ledger/docs/howto/test-your-program.md`.

Each name is loaded when it is first used: a test run pays for the fixtures that it uses.
"""

from typing import TYPE_CHECKING

from ledger.runtime.lazy_names import loader

if TYPE_CHECKING:
    from ledger.testing.clock import ManualClock
    from ledger.testing.table import MemoryGlobalTable

__all__ = ["ManualClock", "MemoryGlobalTable"]

_PLACES = {"ManualClock": "ledger.testing.clock", "MemoryGlobalTable": "ledger.testing.table"}


if not TYPE_CHECKING:  # a type checker knows the names above, and no others
    __getattr__ = loader(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted(__all__)
