"""Leases: one owner at a time, judged by elapsed time only. See README.md."""

from ledger.leases.lease import Beat, Lease
from ledger.leases.state import Held, LeaseTerms, NotHeld

__all__ = ["Beat", "Held", "Lease", "LeaseTerms", "NotHeld"]
