"""A DynamoDB global table on one machine: see `LocalGlobalTable`."""

from ledger.local.faults import Fault
from ledger.local.world import LocalGlobalTable

__all__ = ["Fault", "LocalGlobalTable"]
