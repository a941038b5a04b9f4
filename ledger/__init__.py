"""Counters and balances that stay exact when many regions write at once.

`Table` opens everything that the library keeps in one table, `Ledger` only the ledger;
`ledger.sync` offers the same without async. Each name is loaded when it is first used, so
`import ledger` costs nothing.
"""

from typing import TYPE_CHECKING

from ledger.runtime.lazy_names import loader

if TYPE_CHECKING:
    from ledger.budgets.budget import Budget, Budgets, Hold
    from ledger.budgets.budget_state import BudgetState
    from ledger.budgets.limit_change import LimitChange
    from ledger.budgets.memory_hold import LightHold
    from ledger.budgets.spend_request import Credited, Granted, Refused
    from ledger.core.errors import (
        AccessDenied,
        AmountOverflow,
        ArchiveDamaged,
        ArchiveError,
        ArchiveMissing,
        BookFull,
        BrokenRow,
        BudgetExceeded,
        BudgetMissing,
        BudgetUndecided,
        ClockOff,
        ContractChangeRefused,
        ContractConflict,
        ContractDamaged,
        ContractMissing,
        ContractStale,
        DamagedItem,
        FeedBehind,
        FormConflict,
        HomeMoving,
        ImportRefused,
        InvalidAmount,
        InvalidCounter,
        InvalidEntry,
        InvalidInput,
        KeyConflict,
        LaneClosed,
        LaneFenced,
        LeaseLost,
        LedgerError,
        LeftOut,
        LocalTableError,
        MethodConflict,
        NetVanished,
        NeverApplied,
        NotSent,
        OutcomeUnknown,
        PackageMissing,
        ReadTooSlow,
        RegionConflict,
        RegionUnreadable,
        ReplicasDiffer,
        RequestRefused,
        RetryHorizonPassed,
        SettingsError,
        SignedTooLate,
        StateConflict,
        StoreError,
        TableMissing,
        Throttled,
        TokenReused,
        Unbalanced,
        Unreachable,
        UntimedKey,
        UpgradeNeeded,
    )
    from ledger.core.index import Listed
    from ledger.core.reconciliation import Reconciled
    from ledger.core.values import Entry, Leg
    from ledger.core.watches import Crossing
    from ledger.reads.balances import Balances
    from ledger.reads.feed.page import FeedPage
    from ledger.reads.period_totals import Period, PeriodTotals
    from ledger.reads.total import Total
    from ledger.runtime.gc import tune_gc
    from ledger.session.book import Book, Transfer
    from ledger.session.ledger import Ledger
    from ledger.settings import Settings
    from ledger.settings.groups import (
        CacheSettings,
        CompactorSettings,
        Region,
        ShardStep,
        WatchSettings,
        WriterSettings,
    )
    from ledger.settings.pattern_groups import PeriodSettings
    from ledger.settings.pipelines import PipelineSettings
    from ledger.store.writes import (
        Action,
        Applied,
        Check,
        Delete,
        InTable,
        Put,
        Rejected,
        Unknown,
        Update,
    )
    from ledger.table import Table
    from ledger.writes.entry_plan import Change

__all__ = [
    "AccessDenied",
    "Action",
    "AmountOverflow",
    "Applied",
    "ArchiveDamaged",
    "ArchiveError",
    "ArchiveMissing",
    "Balances",
    "Book",
    "BookFull",
    "BrokenRow",
    "Budget",
    "BudgetExceeded",
    "BudgetMissing",
    "BudgetState",
    "BudgetUndecided",
    "Budgets",
    "CacheSettings",
    "Change",
    "Check",
    "ClockOff",
    "CompactorSettings",
    "ContractChangeRefused",
    "ContractConflict",
    "ContractDamaged",
    "ContractMissing",
    "ContractStale",
    "Credited",
    "Crossing",
    "DamagedItem",
    "Delete",
    "Entry",
    "FeedBehind",
    "FeedPage",
    "FormConflict",
    "Granted",
    "Hold",
    "HomeMoving",
    "ImportRefused",
    "InTable",
    "InvalidAmount",
    "InvalidCounter",
    "InvalidEntry",
    "InvalidInput",
    "KeyConflict",
    "LaneClosed",
    "LaneFenced",
    "LeaseLost",
    "Ledger",
    "LedgerError",
    "LeftOut",
    "Leg",
    "LightHold",
    "LimitChange",
    "Listed",
    "LocalTableError",
    "MethodConflict",
    "NetVanished",
    "NeverApplied",
    "NotSent",
    "OutcomeUnknown",
    "PackageMissing",
    "Period",
    "PeriodSettings",
    "PeriodTotals",
    "PipelineSettings",
    "Put",
    "ReadTooSlow",
    "Reconciled",
    "Refused",
    "Region",
    "RegionConflict",
    "RegionUnreadable",
    "Rejected",
    "ReplicasDiffer",
    "RequestRefused",
    "RetryHorizonPassed",
    "Settings",
    "SettingsError",
    "ShardStep",
    "SignedTooLate",
    "StateConflict",
    "StoreError",
    "Table",
    "TableMissing",
    "Throttled",
    "TokenReused",
    "Total",
    "Transfer",
    "Unbalanced",
    "Unknown",
    "Unreachable",
    "UntimedKey",
    "Update",
    "UpgradeNeeded",
    "WatchSettings",
    "WriterSettings",
    "tune_gc",
]

_ERRORS = "ledger.core.errors"
_GROUPS = "ledger.settings.groups"
_WRITES = "ledger.store.writes"
_PLACES = {
    "Action": _WRITES,
    "Applied": _WRITES,
    "Balances": "ledger.reads.balances",
    "Book": "ledger.session.book",
    "Budget": "ledger.budgets.budget",
    "BudgetState": "ledger.budgets.budget_state",
    "Budgets": "ledger.budgets.budget",
    "CacheSettings": _GROUPS,
    "Change": "ledger.writes.entry_plan",
    "Check": _WRITES,
    "CompactorSettings": _GROUPS,
    "Crossing": "ledger.core.watches",
    "Delete": _WRITES,
    "Entry": "ledger.core.values",
    "FeedPage": "ledger.reads.feed.page",
    "Credited": "ledger.budgets.spend_request",
    "Granted": "ledger.budgets.spend_request",
    "Hold": "ledger.budgets.budget",
    "InTable": _WRITES,
    "Ledger": "ledger.session.ledger",
    "Leg": "ledger.core.values",
    "LightHold": "ledger.budgets.memory_hold",
    "LimitChange": "ledger.budgets.limit_change",
    "Listed": "ledger.core.index",
    "Period": "ledger.reads.period_totals",
    "PeriodSettings": "ledger.settings.pattern_groups",
    "PeriodTotals": "ledger.reads.period_totals",
    "PipelineSettings": "ledger.settings.pipelines",
    "Put": _WRITES,
    "Reconciled": "ledger.core.reconciliation",
    "Refused": "ledger.budgets.spend_request",
    "Region": _GROUPS,
    "Rejected": _WRITES,
    "Settings": "ledger.settings",
    "ShardStep": _GROUPS,
    "Table": "ledger.table",
    "Total": "ledger.reads.total",
    "Transfer": "ledger.session.book",
    "Unknown": _WRITES,
    "Update": _WRITES,
    "WatchSettings": _GROUPS,
    "WriterSettings": _GROUPS,
    "tune_gc": "ledger.runtime.gc",
}
"""The module of each public name; all others are errors."""


if not TYPE_CHECKING:  # a type checker knows the names above, and no others
    __getattr__ = loader(__name__, {**dict.fromkeys(__all__, _ERRORS), **_PLACES})


def __dir__() -> list[str]:
    return sorted(__all__)
