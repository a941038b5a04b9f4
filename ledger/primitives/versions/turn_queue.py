"""Turns: of one process's calls for a subject one has the lock, or asks for it, at a time.

::

    1   has the turn ── lock ── handled ── release
    4       waits                                  Skipped(4, newest=5)
    3         waits                                Skipped(3, newest=5)
    5           waits ──────────────────────────── has the turn ── lock ── handled ── release

When a turn ends it goes to the newest of those that wait, of the kind that has waited longest.
Those that it overtakes are skipped once it is known to be handled, or found old itself, and not
before: if it fails, whatever the way, the next newest has its turn. So `Skipped` always names a
version that was handled.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio

from ledger.core.entry import Key
from ledger.core.errors import InvalidInput
from ledger.primitives.versions.version_rules import Busy, Event, Handled, Skipped, VersionRules
from ledger.runtime.clock import Clock
from ledger.runtime.tasks import background_tasks

WAITING_MAX = 1000

Outcome = TypeVar("Outcome")


@dataclass(eq=False, slots=True)
class _Waiting:
    """A call that waits: `ended` is set with the turn, or with an outcome instead of it."""

    event: Event
    ended: anyio.Event = field(default_factory=anyio.Event)
    instead: Skipped | Busy | None = None
    has_turn: bool = False


class SubjectTurns:
    """The turns of one guard's calls, by subject; `owner` is who has the lock while one waits here.

    At most `waiting_max` calls wait, of all subjects together; those beyond contend for the lock by
    themselves, and with 0 all do.
    """

    def __init__(self, *, rules: VersionRules, clock: Clock, owner: str, waiting_max: int) -> None:
        if not isinstance(waiting_max, int) or isinstance(waiting_max, bool) or waiting_max < 0:
            raise InvalidInput(f"waiting_max must be a whole number from 0, got {waiting_max!r}")
        self._rules = rules
        self._clock = clock
        self._owner = owner
        self._waiting_max = waiting_max
        self._queues: dict[Key, list[_Waiting]] = {}
        self._waiting = 0

    async def take(
        self, event: Event, handle: Callable[[], Awaitable[Outcome]], *, deadline: float
    ) -> Outcome | Skipped | Busy:
        """Handle an event in its turn, unless one that had waited with it was handled in its place.

        `Busy` if no turn came by the deadline, a moment of the monotonic clock.
        """
        queue = self._queues.get(event.lock_key)
        if queue is None:
            self._queues[event.lock_key] = []
        elif self._waiting >= self._waiting_max:
            return await handle()
        elif (instead := await self._wait(event, queue, deadline)) is not None:
            return instead
        newest: int | None = None
        try:
            outcome = await handle()
            newest = _newest_in(outcome)
        finally:
            self._pass_on(event, newest)
        return outcome

    async def _wait(
        self, event: Event, queue: list[_Waiting], deadline: float
    ) -> Skipped | Busy | None:
        """Wait for a turn; return None with it."""
        waiting = _Waiting(event)
        queue.append(waiting)
        self._waiting += 1
        try:
            async with background_tasks() as tasks:
                tasks.start_soon(self._give_up, waiting, queue, deadline)
                await waiting.ended.wait()
        except BaseException:
            if waiting.has_turn:
                self._pass_on(event, None)
            elif waiting in queue:
                self._end(waiting, queue)
            raise
        return waiting.instead

    async def _give_up(self, waiting: _Waiting, queue: list[_Waiting], deadline: float) -> None:
        await self._clock.sleep(max(0.0, deadline - self._clock.monotonic()))
        if waiting in queue:
            self._end(waiting, queue, Busy(self._owner))

    def _pass_on(self, event: Event, newest: int | None) -> None:
        """End a turn in which this version was found to be the newest; None if there was none."""
        queue = self._queues[event.lock_key]
        if newest is not None:
            for waiting in [other for other in queue if other.event.kind == event.kind]:
                if self._rules.is_old(waiting.event.version, newest):
                    self._end(waiting, queue, Skipped(waiting.event.version, newest))
        if not queue:
            del self._queues[event.lock_key]
            return
        alike = [other for other in queue if other.event.kind == queue[0].event.kind]
        following = max(alike, key=lambda one: one.event.version)
        following.has_turn = True
        self._end(following, queue)

    def _end(
        self, waiting: _Waiting, queue: list[_Waiting], instead: Skipped | Busy | None = None
    ) -> None:
        queue.remove(waiting)
        self._waiting -= 1
        waiting.instead = instead
        waiting.ended.set()


def _newest_in(outcome: object) -> int | None:
    """Return the version that an outcome reports as handled."""
    match outcome:
        case Handled(version):
            return version
        case Skipped(newest=newest):
            return newest
        case _:
            return None
