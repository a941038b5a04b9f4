"""A request that is held up on its way for most of the time that its signature lives.

::

    home     key k ── settled ── fold ── delete ── forget
    west     k again, in time: signed ── held up ─────────── arrives?
"""

from functools import partial

import anyio
import pytest
from proof.simulator import loop
from proof.simulator.store import SimStore
from support.ledgers import HOME, WEST
from support.stages import Stage, stage_settings

from ledger.core.errors import OutcomeUnknown
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.store.writes import Outcome, Unknown, Write

OLD = {"signature_lifetime": 300, "settle": 900}
"""The defaults of before, and what they believed of AWS."""


def held_up_for(seconds: float) -> type[SimStore]:
    """Return a store whose writes arrive so much later, if their signatures are still valid."""

    class HeldUp(SimStore):
        async def write(self, write: Write) -> Outcome:
            await self._process.begin()
            self._check_signed([write])
            arrives = self._loop.time() + seconds
            if arrives < self._expires():
                self._loop.call_at(arrives, self._land, lambda: self._serve_write(write), "late")
            return Unknown("no answer")

        def _serve_write(self, write: Write) -> None:
            with pytest.raises(StopIteration):
                self._replica.write(write).send(None)

    return HeldUp


async def repeat(stage: Stage, retry_at: float, held_up: float) -> None:
    """Make the same call again, in the other region; no answer comes."""
    process = stage.process("other")
    at = process.clock.wall(0)
    await anyio.sleep(retry_at)
    async with stage.ledger(process, WEST, held_up_for(held_up)) as there:
        with pytest.raises(OutcomeUnknown):
            await there.record("counter", 1, key="k", at=at)


async def total_of(here: Ledger) -> int:
    """Read the total of the counter now."""
    return int((await here.total("counter", max_age=0)).value)


async def counted(settings: Settings, retry_at: float, held_up: float) -> list[int]:
    """Repeat a change whose request is held up; return its total as merged, and after landing."""
    stage = Stage(settings)
    one = stage.process("one")
    async with stage.ledger(one, HOME) as here, anyio.create_task_group() as tasks:
        await here.record("counter", 1, key="k", at=one.clock.wall(0))
        tasks.start_soon(repeat, stage, retry_at, held_up)
        await anyio.sleep(settings.settle)
        await stage.merge()
        merged = await total_of(here)
        await anyio.sleep(600)
        landed = await total_of(here)
    return [merged, landed]


@pytest.mark.parametrize(("retry_at", "held_up"), [(290, 700), (299, 899), (280, 1), (1, 899)])
def test_a_retry_that_is_held_up_counts_once(retry_at: float, held_up: float) -> None:
    """With the defaults, whenever it lands, its entry is there still and it changes nothing."""
    assert loop.run(partial(counted, stage_settings(), retry_at, held_up)) == [1, 1]


def test_a_retry_that_is_held_up_was_counted_twice() -> None:
    """With a life of five minutes in mind it lands after its id was forgotten."""
    assert loop.run(partial(counted, stage_settings(**OLD), 290, 700)) == [1, 2]
