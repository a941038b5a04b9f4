"""The table of `ledger serve --local`: a local global table with everything the page can show."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from compactor.job import Compactor
from ledger.local import LocalGlobalTable
from ledger.runtime.tasks import background_tasks
from ledger.settings import Settings

PASS_SECONDS = 2.0
"""The wait between two passes of its compactor, so that a new counter is listed soon."""
log = logging.getLogger(__name__)


@asynccontextmanager
async def trial_table(regions: Sequence[str]) -> AsyncIterator[Settings]:
    """Yield the settings of a table that runs meanwhile, with its compactor.

    All counters are in its index and have sums by period.
    """
    async with LocalGlobalTable.start(regions=regions) as world, background_tasks() as tasks:
        settings = world.settings(index=["*"], periods={"*": {}}, budgets={"*": {}})
        compactor = Compactor(settings)
        tasks.start_soon(
            partial(compactor.run_every, PASS_SECONDS, on_error=partial(log.warning, "merging: %s"))
        )
        yield settings
