"""The hints of an import: which counters the compactor has to visit once its rows have settled.

A process that records leaves a hint for one entry in `compactor.hint_every`, by chance. An import
sees all of its entries, so it leaves one for each counter of which it has so many that a merge is
worthwhile, in each span of time in which it writes them. What an earlier run of the same file has
written counts as well, as if by today's contract: that run may have been killed before its hints
were written.

A hint that cannot be left is dropped: the compactor's search finds the counter.
"""

import logging
from collections import Counter
from collections.abc import Sequence

from ledger.core.errors import AccessDenied, StoreError
from ledger.core.hints import Hint, hint_for
from ledger.runtime.clock import Clock
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.writes.hint_writer import leave_hints
from ledger.writes.imports.batches import Batch, row_items

COUNTERS_MAX = 200_000
"""Counters whose entries are counted, about 60 MB; beyond that counting begins anew."""

log = logging.getLogger(__name__)


class ImportHints:
    """Leaves the hints of one run of an import, in the home region."""

    def __init__(self, store: Store, settings: LiveSettings, *, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._entries: Counter[str] = Counter()
        self._left: dict[str, Hint] = {}
        self._is_refused = False

    async def wrote(self, batch: Batch) -> None:
        """Leave the hints that are due after a batch which is in the table."""
        settings = self._settings.current
        if self._is_refused or not settings.compactor.hint_every:
            return
        if len(self._entries) >= COUNTERS_MAX:
            self._entries.clear()
            self._left.clear()
        written = Counter(item.counter for item in row_items(batch.rows, settings.combines))
        self._entries.update(written)
        now = self._clock.now()
        hints = [
            hint_for(counter, now, settle=settings.settle)
            for counter in written
            if self._entries[counter] >= settings.compactor.fold_min
            and not settings.terms.is_unmerged(counter)
        ]
        await self._leave([hint for hint in hints if self._left.get(hint.counter) != hint])

    async def _leave(self, hints: Sequence[Hint]) -> None:
        self._left |= {hint.counter: hint for hint in hints}
        try:
            await leave_hints(self._store, hints)
        except AccessDenied as error:
            self._is_refused = True
            log.info("no hints are left for the compactor: %s", error)
        except StoreError as error:
            log.debug("%d hints are dropped: %s", len(hints), error)
