"""A DynamoDB global table on one machine: see `LocalGlobalTable`."""

from ledger.local.front.faults import Fault
from ledger.local.global_table import LocalGlobalTable

__all__ = ["Fault", "LocalGlobalTable"]
