"""Counters and balances that stay exact when many regions write at once."""

from ledger.collector import calm_collector
from ledger.core.entry import Entry
from ledger.core.errors import LedgerError, OutcomeUnknown
from ledger.ledger import Ledger
from ledger.planning import Change
from ledger.reader import Total
from ledger.settings import Settings

__all__ = [
    "Change",
    "Entry",
    "Ledger",
    "LedgerError",
    "OutcomeUnknown",
    "Settings",
    "Total",
    "calm_collector",
]
