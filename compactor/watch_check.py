"""Watches at home: after a pass the counters that it visited are looked at.

What a visit observes is not a total: it is cut where a fold ends, is not bound by `read_deadline`,
and shows one shard. So a visit only notes the counter; its total is read as every reader reads it.
A counter that a watch names without a wildcard is looked at in every pass.
"""

import logging
from functools import partial

import anyio

from ledger.core import keys
from ledger.core.errors import LedgerError
from ledger.reads.reader import Reader
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.watches.crossings import CrossingDecider, channels_of
from ledger.watches.watcher import Watches

VISITED_MAX = 100_000
"""Counters noted in one pass; the rest are looked at after a later visit."""
LOOKS_AT_ONCE = 16
log = logging.getLogger(__name__)


class WatchCheck:
    """The watches of the settings, looked at in the home region, pass by pass."""

    def __init__(
        self, home: Store, watches: Watches, *, settings: LiveSettings, services: Services
    ) -> None:
        reader = Reader(home, settings=settings, services=services)
        self._decider = CrossingDecider(
            home,
            partial(reader.total, consistent=True),
            settings=settings,
            services=services,
        )
        self._region = home.region
        self._watches = watches
        self._metrics = services.metrics
        self._visited: set[str] = set()

    def visited(self, partition: str) -> None:
        """Note that a pass visits a collection, if its counter is watched."""
        place = keys.counter_of(partition)
        if place and self._watches.of(place[0]) and len(self._visited) < VISITED_MAX:
            self._visited.add(place[0])

    async def look(self, stop: anyio.Event) -> int:
        """Look at what the pass has visited, until stopped; return how many crossings went out.

        A look that fails is logged and counted; it fails no pass. While the home is being moved
        there are no looks.
        """
        counters = sorted(self._visited | self._watches.counters) if self._decider.decides else []
        self._visited.clear()
        return sum(
            await run_all(
                [partial(self._look, counter, stop) for counter in counters],
                at_once=LOOKS_AT_ONCE,
            )
        )

    async def _look(self, counter: str, stop: anyio.Event) -> int:
        delivered = 0
        for watched in self._watches.of(counter):
            if stop.is_set():
                break
            channels = channels_of(watched, metrics=self._metrics, region=self._region)
            try:
                looked = await self._decider.look(watched.watch, counter, channels)
            except LedgerError as error:
                log.warning("%s could not be looked at: %s", watched.watch.name, error)
                self._metrics.error(self._region, error)
            else:
                delivered += looked.is_delivered
        return delivered
