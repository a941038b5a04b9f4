"""What may be said of any call in a world with faults, and means that nothing was written or read.

`ContractConflict` is said to a region that has left the table, `NotSent` where the contract could
not be read in the time of a write.
"""

from ledger.core.errors import (
    ContractChangeRefused,
    ContractConflict,
    NotSent,
    ReadTooSlow,
    StoreError,
)

REFUSALS = (StoreError, ContractChangeRefused, ContractConflict, NotSent)
READ_REFUSALS = (*REFUSALS, ReadTooSlow)
"""What may be said of any read."""
