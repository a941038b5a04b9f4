"""A writer that freezes between its look at the clock and its request: found by this world.

::

    home     key k ── settled ── fold ── delete ── forget
    west     k again: in time ── frozen ──────────────────── signs? sends?
"""

from datetime import datetime
from functools import partial

import anyio
import pytest
from proof.simulator import loop
from proof.simulator.auditor import Violation
from proof.simulator.mutants import MUTANTS
from proof.simulator.process import Process
from support.ledgers import HOME, WEST
from support.stages import Stage

from ledger.core.errors import NotSent, OutcomeUnknown, RetryHorizonPassed
from ledger.session.ledger import Ledger

FROZEN_SECONDS = 2000.0
SETTLED_SECONDS = 1400.0
STEPS_BEFORE_SENDING = 5
"""Looks at the clock and the call of the store that a repeat takes before it sends."""


class Freezing(Process):
    """A process that freezes at one of its steps."""

    freezes_at = 0

    def step(self, weight: int = 1) -> None:
        """Count down to the freeze."""
        self.freezes_at -= 1
        if self.freezes_at == 0:
            self._awake_at = self.world.loop.time() + FROZEN_SECONDS
        super().step(weight)


async def repeat(ledger: Ledger, at: datetime) -> None:
    """Make the same call again; that it is refused, or not known to be applied, is no harm."""
    try:
        await ledger.record("counter", 1, key="k", at=at)
    except (NotSent, OutcomeUnknown, RetryHorizonPassed):
        return


async def frozen(step: int) -> tuple[Violation | None, int]:
    """Repeat a change with a key from a process that freezes at this step, merging meanwhile."""
    stage = Stage()
    one, other = stage.process("one"), stage.made(Freezing, "other")
    async with stage.ledger(one, HOME) as here, stage.ledger(other, WEST) as there:
        at = one.clock.now()
        await here.record("counter", 1, key="k", at=at)
        await anyio.sleep(10)
        other.freezes_at = step
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(repeat, there, at)
            await anyio.sleep(SETTLED_SECONDS)
            await stage.merge()
        await anyio.sleep(5)
        total = await here.total("counter", max_age=0)
        return stage.auditor.violation, int(total.value)


@pytest.mark.parametrize("step", range(2, STEPS_BEFORE_SENDING + 2))
def test_frozen_writer_counts_nothing_twice(step: int) -> None:
    """Wherever it freezes, a request that was in time when it began is not signed too late."""
    assert loop.run(partial(frozen, step)) == (None, 1)


def test_frozen_writer_would_count_twice() -> None:
    """Signed whenever the writer wakes up, its request would be counted twice."""
    with MUTANTS["signed-any-time"].active():
        results = [loop.run(partial(frozen, step)) for step in range(2, STEPS_BEFORE_SENDING + 2)]
    assert any(violation is not None and total == 2 for violation, total in results)
