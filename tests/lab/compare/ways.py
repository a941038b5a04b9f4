"""What is compared: every method, and the ledger with a counter in shards, or combined."""

from collections.abc import Mapping
from decimal import Decimal
from functools import partial

from anyio.abc import TaskGroup

from lab.compare.figures import LEDGER_COMBINED, LEDGER_SHARDED
from ledger.core.values import Entry
from ledger.primitives.counters import METHODS, CollectionCounter, Method
from ledger.primitives.counters.catalog import SHARDS
from ledger.primitives.counters.collection import BareLedger, make_collection
from ledger.runtime.services import Services
from ledger.store.port import Store

_LEDGER = METHODS["collection"]
COMPARED: Mapping[str, Method] = {**METHODS, LEDGER_COMBINED: _LEDGER}
"""Each by its name in tables. Callers of `LEDGER_COMBINED` share a `combined_counter`."""
WAYS: Mapping[str, Method] = {
    **COMPARED,
    LEDGER_SHARDED: Method(
        _LEDGER.guarantees, partial(make_collection, shards=SHARDS), has_thresholds=False
    ),
}
"""The same, and what only contention is measured of."""


class _CombinedLedger(BareLedger):
    """A process whose calls share items; a change has no key, with which it would share none."""

    def __init__(self, store: Store, *, services: Services, tasks: TaskGroup) -> None:
        super().__init__(store, services=services, combine=("*",))
        self._writer.share(tasks, on_group=lambda *_: None)

    async def record(
        self,
        counter: str,
        change: int | Decimal,
        *,
        key: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 (as `Records`)
    ) -> Entry:
        """Add to a counter."""
        del key
        return await super().record(counter, change, timeout=timeout)


def combined_counter(
    store: Store, name: str, *, services: Services, tasks: TaskGroup
) -> CollectionCounter:
    """Return a combined counter for all callers of one process, whose items `tasks` send."""
    ledger = _CombinedLedger(store, services=services, tasks=tasks)
    return CollectionCounter(ledger, name, services=services)
