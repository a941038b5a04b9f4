"""For tests of programs that use the ledger: a global table in memory, its clock, pytest fixtures.

`MemoryGlobalTable` is a global table whose replication and time a test moves by hand; its stores
pass the conformance suite of every other store. `ledger.testing.plugin` has fixtures, for a table
in memory and for a local global table that boto3 reaches, too. See README.md beside this file.
"""

from ledger.testing.clock import ManualClock
from ledger.testing.table import MemoryGlobalTable

__all__ = ["ManualClock", "MemoryGlobalTable"]
