"""How far lanes have come: our own, and those whose transitions stand beside ours in a state."""

from collections.abc import Iterable, Mapping

from ledger.core.entry import Key
from ledger.core.errors import StoreError
from ledger.pipeline.core.items import (
    MAP_LAST,
    MAP_PREFIX,
    MapItem,
    map_item_of,
    position_key,
    position_of,
)
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Get, Query

FRESH_SECONDS = 10.0
"""How long another lane's position is taken as read; it only lets its transitions be dropped."""
LANES_MAX = 10_000
"""Other lanes that are remembered."""
MAP_PAGES_MAX = 10_000


class Lanes:
    """Committed positions, as one lane's worker knows them.

    What it knows of a lane may be behind, never ahead: a position that was committed stays so.
    """

    def __init__(self, lane: str, store: Store, clock: Clock, *, pipeline: str = "") -> None:
        self.lane = lane
        self.pipeline = pipeline
        self.position = ""
        self._store = store
        self._clock = clock
        self._others: dict[str, tuple[float, str]] = {}

    async def load(self) -> list[MapItem]:
        """Read our lane's position, then the map items that are not reduced yet.

        In this order: who commits after the position was read moves it, and makes our next commit
        fail; those of an earlier worker have left map items that are read here.

        Raises:
            StoreError: the table cannot be read.
            DamagedItem: an item of the lane is not of our form.
        """
        await self.read()
        found: list[MapItem] = []
        partition = self._key(self.lane)[0]
        query = Query(partition, first=MAP_PREFIX, last=MAP_LAST)
        for _page in range(MAP_PAGES_MAX):
            page = await self._store.query(query)
            found += map(map_item_of, page.items)
            if page.after is None:
                break
            query = query.next(page)
        return found

    async def read(self) -> str:
        """Read our lane's committed position.

        Raises:
            StoreError: the table cannot be read.
        """
        self.position = position_of(await self._store.get(Get(self._key(self.lane))))
        return self.position

    def _key(self, lane: str) -> Key:
        return position_key(lane, self.pipeline)

    async def committed(self, lanes: Iterable[str]) -> Mapping[str, str]:
        """Return how far these lanes are known to have come; our own by what it committed."""
        known = {lane: await self._other(lane) for lane in lanes if lane != self.lane}
        known[self.lane] = self.position
        return known

    async def _other(self, lane: str) -> str:
        read_at, position = self._others.get(lane, (float("-inf"), ""))
        now = self._clock.monotonic()
        if now - read_at < FRESH_SECONDS:
            return position
        if len(self._others) >= LANES_MAX:
            self._others.clear()
        self._others[lane] = now, position  # one reads, the others need not wait
        try:
            position = position_of(await self._store.get(Get(self._key(lane), consistent=False)))
        except StoreError:
            return position  # the transitions stay where they are a little longer
        self._others[lane] = now, position
        return position
