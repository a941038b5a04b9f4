"""Processes of the world whose clocks are off, measured on the world's answers."""

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import pytest
from proof.simulator import loop
from support.ledgers import HOME
from support.stages import Stage

from ledger.core.errors import ClockOff
from ledger.session.ledger import Ledger


async def write_after_a_read(off: float, *, is_refused: bool) -> float:
    """Read, write, and return the middle of what the world's answers tell of the clock."""
    stage = Stage()
    process = stage.process("one", off_seconds=off)
    async with stage.ledger(process, HOME) as ledger:
        assert ledger.store.clock_offset is None
        assert (await ledger.total("counter", max_age=0)).value == 0
        with refused(is_refused=is_refused):
            await ledger.record("counter", 1, key="k", at=process.clock.now())
        with refused(is_refused=is_refused):
            await ledger.record("counter", 1)
        assert await total_of(ledger) == (0 if is_refused else 2)
        offset = ledger.store.clock_offset
        return offset.middle if offset else 0.0


def refused(*, is_refused: bool) -> AbstractContextManager[object]:
    """Expect a refusal, or none."""
    return pytest.raises(ClockOff) if is_refused else nullcontext()


async def total_of(ledger: Ledger) -> int:
    """Read the total of the counter now."""
    return int((await ledger.total("counter", max_age=0)).value)


@pytest.mark.parametrize(
    ("off", "is_refused"), [(700, True), (-700, True), (59, False), (-59, False), (0, False)]
)
def test_a_process_that_is_off_by_more_than_the_skew_writes_nothing(
    off: float, *, is_refused: bool
) -> None:
    """The world dates its answers in whole seconds, and production code measures on them."""
    middle = loop.run(partial(write_after_a_read, off, is_refused=is_refused))
    assert off - 1 < middle < off + 1
