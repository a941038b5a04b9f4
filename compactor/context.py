"""`MergeContext`: the table that is merged, and the parts that merging works with."""

from collections.abc import Mapping
from dataclasses import dataclass

from compactor.archiver import Archiver
from compactor.metrics import CompactorMetrics
from compactor.watch_check import WatchCheck
from ledger.runtime.services import Services
from ledger.settings.live import LiveSettings
from ledger.store.port import Store


@dataclass(frozen=True, slots=True)
class MergeContext:
    """One table, open in all its regions; home is among `stores`.

    It stays the same until the compactor opens the table again. What passes remember is in
    `MergeMemory`.
    """

    stores: Mapping[str, Store]
    settings: LiveSettings
    services: Services
    metrics: CompactorMetrics
    archiver: Archiver | None = None
    watcher: WatchCheck | None = None
