"""Counters and balances that stay exact when many regions write at once."""

from ledger.core.errors import LedgerError, OutcomeUnknown
from ledger.core.values import Entry
from ledger.ledger import Ledger
from ledger.runtime.gc import tune_gc
from ledger.settings import Settings
from ledger.totals.reader import Total
from ledger.writing.plan import Change

__all__ = [
    "Change",
    "Entry",
    "Ledger",
    "LedgerError",
    "OutcomeUnknown",
    "Settings",
    "Total",
    "tune_gc",
]
