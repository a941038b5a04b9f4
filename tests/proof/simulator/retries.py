"""How the applications of a world repeat a call whose outcome is not known."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from random import Random

import anyio

from ledger.core.errors import (
    ArchiveError,
    InvalidEntry,
    LedgerError,
    OutcomeUnknown,
    RetryHorizonPassed,
)
from ledger.core.values import Entry
from proof.simulator.apps import App
from proof.simulator.refusals import REFUSALS
from proof.simulator.supervisor import Supervisor

RETRIES_MAX = 3
RETRY_SECONDS_MAX = 200.0

Alive = Callable[[str], Awaitable[App]]
Calling = Callable[[App], AbstractContextManager[None]]


async def written_again(
    error: OutcomeUnknown,
    app: App,
    supervisor: Supervisor,
    *,
    random: Random,
    region: Callable[[App], str],
    alive: Alive,
    calling: Calling,
    too_late: Callable[[App, LedgerError], None],
) -> tuple[App, OutcomeUnknown, Sequence[Entry]] | None:
    """Write the same entries again, in any region, until their outcome is known.

    Returns who wrote them, which and as what; None if that was given up.

    The timeout of a call ends it though its process sleeps on: until that would wake, its ids are
    ahead of the clocks of the others, which may refuse them.
    """
    wakes_at = app.process.local
    for _ in range(random.randrange(RETRIES_MAX + 1)):
        await anyio.sleep(random.random() * RETRY_SECONDS_MAX)
        app = await alive(region(app))
        try:
            with calling(app):
                written = await app.ledger.retry(error.entries, together=error.together)
        except (RetryHorizonPassed, ArchiveError) as late:
            too_late(app, late)
            return None
        except InvalidEntry:
            if supervisor.world.loop.time() < wakes_at:
                continue
            if not supervisor.scenario.clocks_off:
                raise
            return None
        except OutcomeUnknown as again:
            error = again
        except REFUSALS:
            continue
        else:
            return app, error, written
    return None
