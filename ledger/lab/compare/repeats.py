"""The same token again, in another process: at once, much later, after others, elsewhere."""

from collections.abc import Awaitable, Callable, Mapping

from ledger.core.errors import RetryHorizonPassed
from ledger.lab.compare.model import Model
from ledger.lab.compare.report import (
    AFTER_MANY,
    AFTER_ONE,
    AT_ONCE,
    DAYS_LATER,
    ELSEWHERE,
    MANY,
    MINUTES_LATER,
    Options,
    Repeat,
)
from ledger.lab.compare.workload import Cast, share

MINUTE_SECONDS, DAY_SECONDS = 60.0, 86_400.0

_Between = Callable[[Model, Cast], Awaitable[int]]
"""Lets things happen between a change and its repeat; returns how many others have counted."""


async def _nothing(_model: Model, _cast: Cast) -> int:
    return 0


def _others(count: int) -> _Between:
    async def write(_model: Model, cast: Cast) -> int:
        await share([cast.writer("other")], count)
        return count

    return write


def _time(seconds: float) -> _Between:
    async def wait(model: Model, _cast: Cast) -> int:
        await model.clock.sleep(seconds)
        model.expire()
        return 0

    return wait


async def _replicate(model: Model, _cast: Cast) -> int:
    await model.heal()
    return 0


_BETWEEN: Mapping[str, _Between] = {
    AT_ONCE: _nothing,
    AFTER_ONE: _others(1),
    AFTER_MANY: _others(MANY),
    MINUTES_LATER: _time(11 * MINUTE_SECONDS),
    DAYS_LATER: _time(8 * DAY_SECONDS),
    ELSEWHERE: _replicate,
}


async def repeat(model: Model, method: str, moment: str, options: Options) -> Repeat:
    """Make a change, and again under the same token; returns how often it counts."""
    cast = Cast(model, method, f"repeat-{moment.replace(' ', '-')}", options.seed)
    first = cast.writer("first")
    token = first.token()
    await first.add(1, token)
    others = await _BETWEEN[moment](model, cast)
    where = list(model.stores)[1 if moment == ELSEWHERE else 0]
    refused = False
    try:
        await cast.writer("again", where).add(1, token)
    except RetryHorizonPassed:
        refused = True
    await model.heal()
    return Repeat(await cast.value() - others, refused)
