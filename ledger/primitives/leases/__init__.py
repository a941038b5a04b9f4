"""Leases: one owner at a time, judged by elapsed time only. See docs/reference/coordination.md."""

from ledger.primitives.leases.holding import Beat
from ledger.primitives.leases.lease import Lease, LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseRecord, LeaseTerms, NotHeld

__all__ = ["Beat", "Lease", "LeaseGrant", "LeaseOptions", "LeaseRecord", "LeaseTerms", "NotHeld"]
