"""The cache of totals when callers give up, reads fail, or totals are stale, and at its end."""

from functools import partial

import anyio
import pytest
from support.caching import Source, world
from support.ledgers import HOME

from ledger.core.errors import LedgerError, Throttled
from ledger.reads.total_cache import TotalCache
from ledger.runtime.services import Services
from ledger.settings.groups import CacheSettings
from ledger.testing.clock import ManualClock


@pytest.mark.parametrize("cancelled", [0, 1, 2])
async def test_cancelled_caller_harms_no_other(cancelled: int) -> None:
    """Of three callers of a read any may be cancelled, the one that began it too."""
    async with world(max_age=1) as w:
        scopes = [anyio.CancelScope() for _ in range(3)]
        heard: list[int] = []

        async def ask(number: int) -> None:
            with scopes[number]:
                await w.cache.total("c")
                heard.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(ask, number)
                await w.clock.run_pending()
            scopes[cancelled].cancel()
            await w.clock.run_pending()
            await w.answer()

        assert heard == [number for number in range(3) if number != cancelled]
        assert w.source.reads == 1
        assert (await w.cache.total("c")).cached


async def test_error_reaches_everybody_and_is_not_kept() -> None:
    """All who wait for a read hear its error; the next call reads again."""
    async with world(max_age=60) as w:
        w.source.errors = [Throttled("slow down")]
        calls = [await w.ask() for _ in range(3)]
        await w.answer()
        w.source.free = True

        assert [type(w.errors[call]) for call in calls] == [Throttled] * 3
        assert (await w.cache.total("c")).cached is False
        assert w.source.reads == 2


async def test_error_of_one_read_spares_those_who_wait_for_the_next() -> None:
    """A call that waits for the read after a failed one gets that read's total."""
    async with world() as w:
        w.source.errors = [Throttled("slow down")]
        first, second = await w.ask(0), await w.ask(0)
        await w.answer()
        await w.answer()

        assert first in w.errors
        assert w.totals[second].value == 0


async def test_error_leaves_a_kept_total_alone() -> None:
    """After a failed read a total that is young enough for another call is still given."""
    async with world(max_age=60) as w:
        await w.ask()
        await w.answer()
        w.source.errors = [Throttled("slow down")]
        failed = await w.ask(0)
        await w.answer()

        assert failed in w.errors
        assert (await w.cache.total("c")).cached


async def test_stale_total_is_given_while_a_new_one_is_read() -> None:
    """Within `stale_max` beyond `max_age` the old total is given at once, a new one read behind."""
    async with world(max_age=1, stale_max=5) as w:
        await w.ask()
        await w.answer()
        w.source.value = 9
        await w.clock.advance(6)
        stale = [await w.ask() for _ in range(3)]

        assert [w.totals[one].value for one in stale] == [0, 0, 0]
        assert w.source.reads == 2
        await w.answer()
        fresh = await w.ask()
        assert w.totals[fresh].value == 9
        assert w.source.reads == 2


async def test_too_stale_total_is_waited_for() -> None:
    """Beyond `max_age` and `stale_max`, or with an explicit `max_age`, a call waits for a read."""
    async with world(max_age=1, stale_max=5) as w:
        await w.ask()
        await w.answer()
        await w.clock.advance(2)
        explicit = await w.ask(1)
        await w.clock.advance(4.001)
        late = await w.ask()

        assert not {explicit, late} & w.totals.keys()


async def test_failed_refresh_is_nobodys_error() -> None:
    """A read behind a stale total may fail: the stale one is given until it is too old."""
    async with world(max_age=1, stale_max=5) as w:
        await w.ask()
        await w.answer()
        w.source.errors = [Throttled("slow down")]
        await w.clock.advance(2)
        await w.ask()
        await w.answer()
        again = await w.ask()

        assert w.errors == {}
        assert w.totals[again].value == 0
        assert w.source.reads == 3


@pytest.mark.parametrize("turns", [0, 1, 5])
async def test_closing_ends_every_wait(turns: int) -> None:
    """When the cache's tasks are cancelled all callers get an error, however far their read is."""
    source, clock = Source(), ManualClock()
    errors: list[LedgerError] = []
    async with anyio.create_task_group() as callers:
        async with anyio.create_task_group() as tasks:
            cache = TotalCache(
                source.read,
                region=HOME,
                settings=CacheSettings(),
                services=Services.of(clock=clock),
                tasks=tasks,
            )

            async def ask(max_age: float) -> None:
                try:
                    await cache.total("c", max_age)
                except LedgerError as error:
                    errors.append(error)

            for max_age in (0, 1, 0):
                callers.start_soon(partial(ask, max_age))
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()
        callers.cancel_scope.deadline = anyio.current_time() + 5

    assert [str(error) for error in errors] == (["the ledger was closed during a read"] * 3)
