"""The parts of an open `Ledger`, and the checks of its arguments."""

from dataclasses import dataclass

from ledger.budgets.components import BudgetComponents
from ledger.reads.archive.access import ArchiveAccess
from ledger.reads.feed.stream_access import FeedAccess
from ledger.reads.reader import Reader
from ledger.reads.total_cache import TotalCache
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.watches.watcher import Watcher
from ledger.writes.book_room import BookRoom
from ledger.writes.hint_writer import HintWriter
from ledger.writes.past_horizon import PastHorizon
from ledger.writes.reconciliation import Reconciler
from ledger.writes.reversal import Reverser
from ledger.writes.writer import Writer


@dataclass(frozen=True, slots=True)
class Components:
    """The parts of one region's ledger, while it is open."""

    store: Store
    settings: LiveSettings
    writer: Writer
    room: BookRoom
    reader: Reader
    cache: TotalCache
    hints: HintWriter
    watcher: Watcher
    reconciler: Reconciler
    archive: ArchiveAccess
    feed: FeedAccess
    late: PastHorizon
    reverser: Reverser
    budgets: BudgetComponents


WRITES = ("record", "record_many", "record_together", "retry", "reconcile", "reverse", "describe")
"""The calls of a `Ledger` that return once the change is durable."""
READS = (
    "total",
    "totals",
    "periods",
    "periods_many",
    "history",
    "counters",
    "top",
    "description",
    "feed_page",
    "feed",
)
CALLS = (*WRITES, *READS)
