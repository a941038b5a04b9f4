"""Where crossings go: a channel takes one, and raises if it could not.

A channel is called at least once for each crossing, with the same `Crossing.id` each time. All
channels of a watch are called in order; if one raises, the crossing stays undelivered, and all of
them are called again later. A further kind of channel is one more function here, and its place in
`channels_of`.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ledger.core.errors import InvalidInput
from ledger.core.watches import Crossing, Watch
from ledger.runtime.metrics import Metrics

log = logging.getLogger("ledger.watching")
Channel = Callable[[Crossing], Awaitable[None]]
Call = Callable[[Crossing], Awaitable[None] | None]
"""A caller's function: a coroutine function, or a plain one that does not block."""
Called = TypeVar("Called")


@dataclass(frozen=True, slots=True)
class Watched:
    """A watch, and the caller's function for its crossings, if there is one."""

    watch: Watch
    call: Call | None = None


def checked_call(call: Called) -> Called:
    """Return the caller's function of a watch.

    Raises:
        InvalidInput: it cannot be called.
    """
    if not callable(call):
        raise InvalidInput(f"call of a watch must be callable, got {call!r:.80}")
    return call


def channels_of(watched: Watched, *, metrics: Metrics, region: str) -> Sequence[Channel]:
    """Return where the crossings of a watch go: the caller's function, the log, a metric."""

    async def to_call(crossing: Crossing) -> None:
        if watched.call is not None:
            answer = watched.call(crossing)
            if inspect.isawaitable(answer):
                await answer

    async def to_log(crossing: Crossing) -> None:
        log.warning("%s%s", crossing.sentence, "; again" if crossing.repeated else "")

    async def to_metric(crossing: Crossing) -> None:
        metrics.crossed(region, crossing.watch)

    return (to_call, to_log, to_metric)
