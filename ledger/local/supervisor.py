"""Keeps every region available: a region whose tables are lost is started again and filled.

::

    available --(its tables are gone)--> gone: 503, links to it held
        ^                                  |
        `-- filled from other regions -- started again, empty; after a failure with a wait
                                         that doubles up to `RESTART_SECONDS_MAX`
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from ledger.local.engines.port import Engine, KeyToken, shown_key
from ledger.local.front.catalog import Catalog
from ledger.local.replication.links import Link, LinkHold, described, doubled
from ledger.local.replication.regions import Regions
from ledger.local.replication.replicator import Replicator

_LOG = logging.getLogger(__name__)

RESTART_SECONDS_FIRST = 0.1
RESTART_SECONDS_MAX = 10.0
RECENT_SECONDS = 60.0
"""A region that is gone again this soon waits as if its start had failed."""


class Supervisor:
    """Watches every region of one local global table. Lives in the server's event loop.

    `changing` is held while a region is filled, so that no table is made or deleted meanwhile.
    """

    def __init__(
        self,
        regions: Regions,
        tables: Catalog,
        engine: Engine,
        replicator: Replicator,
        *,
        changing: asyncio.Lock,
    ) -> None:
        self._regions = regions
        self._tables = tables
        self._engine = engine
        self._replicator = replicator
        self._changing = changing

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for region in self._regions.names:
                group.create_task(self._watch(region))

    async def _watch(self, region: str) -> None:
        while True:
            reason = await self._engine.until_gone(region)
            self._regions.lose(region, reason, now=time.time())
            _LOG.warning("%s is unavailable: %s", region, reason)
            for link in self._links_to(region):
                await link.hold(LinkHold.UNAVAILABLE)
            await asyncio.sleep(self._wait(self._recent_restarts(region)))
            await self._bring_back(region)
            for link in self._links_to(region):
                link.release(LinkHold.UNAVAILABLE)

    def _links_to(self, region: str) -> list[Link]:
        return [link for link in self._replicator.links if link.target == region]

    def _recent_restarts(self, region: str) -> int:
        since = time.time() - RECENT_SECONDS
        return sum(restart.back_at > since for restart in self._regions.restarts.get(region, ()))

    def _wait(self, failures: int) -> float:
        if failures == 0:
            return 0.0
        return doubled(failures, first=RESTART_SECONDS_FIRST, most=RESTART_SECONDS_MAX)

    async def _bring_back(self, region: str) -> None:
        had = {name: self._replicator.present(region, name) for name in self._tables.names(region)}
        while True:
            try:
                async with self._changing:
                    await self._engine.restart(region)
                    await self._fill(region, had)
            except Exception as error:  # noqa: BLE001 (whatever it is: shown, and tried again)
                failures = self._regions.failed(region, described(error))
                _LOG.warning("%s cannot be started again: %s", region, described(error))
                await asyncio.sleep(self._wait(failures))
            else:
                return

    async def _fill(self, region: str, had: Mapping[str, frozenset[KeyToken]]) -> None:
        filled, lost = 0, list[str]()
        for name in self._tables.names(region):
            sources = [
                source
                for source in self._tables.replicas(region, name)
                if source != region and source not in self._regions.gone
            ]
            got = await self._replicator.refill(region, name, sources)
            filled += len(got.present)
            missing = had.get(name, frozenset()) - got.known
            lost += sorted(shown_key(name, token) for token in missing)
        self._regions.back(region, filled=filled, lost=lost, now=time.time())
        _LOG.warning("%s is back: %d items filled in, %d lost", region, filled, len(lost))
