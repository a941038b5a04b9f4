"""The table that the demo runs on: a global one, or one region's alone for speed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from ledger.lab.demos.pipeline.options import Options
from ledger.local import LocalGlobalTable
from ledger.local.engines.dynoxide import lone_table
from ledger.settings import Settings

TABLE = "ledger"


class Ground(Protocol):
    """A table in some regions."""

    def settings(self, **overrides: Any) -> Settings:
        """Return settings for it."""

    def pause(self, source: str, target: str) -> None:
        """Hold back what one region has for another."""

    def heal_all(self) -> None:
        """Let everything through again."""

    async def wait_replicated(self, timeout: float) -> None:  # noqa: ASYNC109 (as in `local`)
        """Wait until every region has heard of everything."""


class Alone:
    """A table of one region, with nothing between it and its clients."""

    def __init__(self, region: str, url: str) -> None:
        self._region = region
        self._url = url

    def settings(self, **overrides: Any) -> Settings:
        """Return settings for it."""
        regions = {self._region: {"endpoint": self._url}}
        return Settings(table=TABLE, home=self._region, regions=regions, **overrides)

    def pause(self, source: str, target: str) -> None:
        """There is nobody to be cut off."""

    def heal_all(self) -> None:
        """There is nothing to heal."""

    async def wait_replicated(self, timeout: float) -> None:  # noqa: ASYNC109 (the same)
        """Nothing is under way to anywhere."""


@asynccontextmanager
async def open_ground(options: Options) -> AsyncIterator[Ground]:
    """Start the table that the options ask for."""
    if options.is_alone:
        [region] = options.names
        async with lone_table(region, TABLE) as url:
            yield Alone(region, url)
        return
    async with LocalGlobalTable.spawn(
        regions=options.names,
        engine=options.engine,
        lag=options.lag,
        jitter=options.jitter,
        seed=options.seed,
    ) as world:
        yield world
