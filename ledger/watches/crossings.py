"""Deciding crossings at home: read the state, then the total, then write if the state is unchanged.

::

    one process      state armed ── total 9 ── CROSSED if still that stamp: applied ── delivers
    another          state armed ─────── total 9 ── CROSSED if still that stamp: rejected

The total is read after the state, so nothing that the state stands for can have ended in between:
what is decided is true of a total that came after it.

Where crossings go: a channel takes one, and raises if it could not.

A channel is called at least once for each crossing, with the same `Crossing.id` each time. All
channels of a watch are called in order; if one raises, the crossing stays undelivered, and all of
them are called again later. A further kind of channel is one more function here, and its place in
`channels_of`.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

import anyio

from ledger.core.entry import Key
from ledger.core.errors import InvalidInput, StoreError
from ledger.core.watches import (
    Crossing,
    Phase,
    Step,
    Watch,
    WatchState,
    crossing_of,
    decide,
    state_item,
    state_key,
    state_of,
)
from ledger.reads.total import Total
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.runtime.validity import signed_within
from ledger.settings.live import LiveSettings
from ledger.store.conditions import Absent, Condition, Equals
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Put, Rejected

log = logging.getLogger("ledger.watches")
Channel = Callable[[Crossing], Awaitable[None]]
Call = Callable[[Crossing], Awaitable[None] | None]
"""A caller's function: a coroutine function, or a plain one that does not block."""
Called = TypeVar("Called")


@dataclass(frozen=True, slots=True)
class CrossingCall:
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


def channels_of(watched: CrossingCall, *, metrics: Metrics, region: str) -> Sequence[Channel]:
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


DELIVERY_SECONDS = 30.0
"""How long the channels of one crossing may take; after that it counts as not delivered."""
REPEAT_SECONDS = 60.0
"""How long after its begin an unconfirmed delivery is repeated, plus `clock_skew`."""
_STAMP_BITS = 64


def repeat_after(settings: LiveSettings) -> timedelta:
    """Return the age of an unconfirmed delivery at which another process repeats it."""
    return timedelta(seconds=REPEAT_SECONDS + settings.current.clock_skew)


@dataclass(frozen=True, slots=True)
class WatchView:
    """The state after a look, and whether it delivered a crossing."""

    state: WatchState
    is_delivered: bool = False


class CrossingDecider:
    """Decides and delivers crossings through the store of the home region."""

    def __init__(
        self,
        store: Store,
        read: Callable[[str], Awaitable[Total]],
        *,
        settings: LiveSettings,
        services: Services,
    ) -> None:
        self._store = store
        self._read = read
        self._settings = settings
        self._clock = services.clock
        self._random = services.randomness

    async def look(
        self,
        watch: Watch,
        counter: str,
        channels: Sequence[Channel],
        *,
        suspect: Decimal | None = None,
    ) -> WatchView:
        """Take the step that state and total call for, and deliver the crossing if it is one.

        If the state does not turn the total `suspect`, which was read elsewhere, into a crossing or
        the end of one, only the state is read.

        Raises:
            DamagedItem: the state, or the counter, cannot be read.
            StoreError: DynamoDB could not do it, or this is not the home now. What was decided and
                not delivered is delivered at a later look.
        """
        key = state_key(watch.name, counter)
        with signed_within(self._settings.validity, self._clock):
            self._check_home()
            state = state_of(await self._store.get(Get(key)))
            if state.phase is Phase.CROSSED:
                step, value = self._step(watch, state, state.value), state.value
            elif suspect is not None and self._step(watch, state, suspect) is Step.NOTHING:
                return WatchView(state)
            else:
                total = await self._read(counter)
                value = total.value
                step = self._step(watch, state, value) if total.changes else Step.NOTHING
            if step is Step.NOTHING:
                return WatchView(state)
            wanted = self._wanted(step, state, value)
            shown = await self._write(key, state, wanted)
        if step is Step.REARM or shown.stamp != wanted.stamp:
            return WatchView(shown)
        crossing = crossing_of(watch, counter, shown, repeated=step is Step.DELIVER)
        return await self._deliver(key, shown, crossing, channels)

    def _wanted(self, step: Step, state: WatchState, total: Decimal) -> WatchState:
        stamp, now = f"{self._random.getrandbits(_STAMP_BITS):016x}", self._clock.now()
        match step:
            case Step.CROSS:
                return state.crossed(total, at=now, stamp=stamp)
            case Step.DELIVER:
                return state.claimed_again(at=now, stamp=stamp)
            case _:
                return state.entered(Phase.ARMED, stamp=stamp)

    async def _deliver(
        self, key: Key, state: WatchState, crossing: Crossing, channels: Sequence[Channel]
    ) -> WatchView:
        try:
            with anyio.fail_after(DELIVERY_SECONDS):
                for channel in channels:
                    await channel(crossing)
        except Exception:
            log.exception("crossing %s is not delivered yet", crossing.id)
            return WatchView(state)
        stamp = f"{self._random.getrandbits(_STAMP_BITS):016x}"
        with signed_within(self._settings.validity, self._clock):
            self._check_home()
            delivered = state.entered(Phase.DELIVERED, stamp=stamp)
            return WatchView(await self._write(key, state, delivered), is_delivered=True)

    @property
    def decides(self) -> bool:
        """Whether this region is the home now: no region is while the home is being moved."""
        return self._settings.current.terms.home == self._store.region

    def _check_home(self) -> None:
        if not self.decides:
            raise StoreError(
                f"{self._store.region} is not the home of the table now, so no watch is decided"
            )

    def _step(self, watch: Watch, state: WatchState, total: Decimal) -> Step:
        return decide(
            watch, state, total, now=self._clock.now(), repeat_after=repeat_after(self._settings)
        )

    async def _write(self, key: Key, seen: WatchState, wanted: WatchState) -> WatchState:
        """Put a state in place of the one seen; return the one that the table then shows."""
        unchanged: Condition = Equals("stamp", {"S": seen.stamp}) if seen.stamp else Absent()
        outcome = await self._store.write(Put(state_item(key, wanted), unchanged))
        match outcome:
            case Applied():
                return wanted
            case Rejected(found=found):
                return state_of(found[0])
            case _:
                return state_of(await self._store.get(Get(key)))
