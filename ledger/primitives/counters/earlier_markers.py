"""Markers that releases before this one left in one partition for each counter."""

from contextlib import suppress

from ledger.core.entry import Item
from ledger.core.errors import AccessDenied
from ledger.primitives.counters.marking import earlier_key
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Get, Query

KNOWN_SECONDS = 3600.0
"""How long a counter assumes markers there, once seen, before it checks again."""


class EarlierMarkers:
    """The markers of one counter at the old place: read as long as there are any."""

    def __init__(self, store: Store, name: str, *, clock: Clock) -> None:
        self._store = store
        self._name = name
        self._clock = clock
        self._are_there: bool | None = None
        self._known_at = 0.0

    async def found(self, token: str) -> Item | None:
        """Return the marker of a token, None without one."""
        now = self._clock.monotonic()
        is_old = now - self._known_at >= KNOWN_SECONDS
        if self._are_there is None or (self._are_there and is_old):
            self._are_there, self._known_at = await self._any(), now
        key = earlier_key(self._name, token)
        return await self._store.get(Get(key)) if self._are_there else None

    async def _any(self) -> bool:
        """Return whether there are any, or may be."""
        place = earlier_key(self._name, "")[0]
        with suppress(AccessDenied):  # a policy of an earlier release has no Query here
            return bool((await self._store.query(Query(place, limit=1))).items)
        return True
