"""Leases: one owner at a time, judged by elapsed time only. See README.md."""

from ledger.primitives.leases.lease import Beat, Lease
from ledger.primitives.leases.state import Held, LeaseRecord, LeaseTerms, NotHeld

__all__ = ["Beat", "Held", "Lease", "LeaseRecord", "LeaseTerms", "NotHeld"]
