"""A record version guard by lock: a lease held through check, handling and writing the version.

::

    version 4   newer? ── lock ── newer? ── handle ── version 4 and effects, fenced ── release
    version 3     newer? yes ── waits ─────────────────────────────────── lock ── newer? no: release
    version 2                                               newer? no: no lock asked for

In a process one call at a time asks for a subject's lock (`turn_queue`). The check before the lock
only saves calls: it may be stale. The one inside decides, since no other handler runs meanwhile. A
holder that is paused past its lease continues without the lock; its commit is refused by the fence,
but nothing here stops what its handler writes by itself.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ledger.core.amounts import check_bool
from ledger.core.errors import InvalidInput, LeaseLost
from ledger.primitives.leases.lease import Lease, LeaseOptions
from ledger.primitives.leases.lease_rules import LeaseGrant, LeaseTerms, NotHeld, checked_terms
from ledger.primitives.versions.commit import Committed, VersionCommit
from ledger.primitives.versions.dead_letters import DeadLetters, handle_counting
from ledger.primitives.versions.failure_items import DeadLetter
from ledger.primitives.versions.turn_queue import WAITING_MAX, SubjectTurns
from ledger.primitives.versions.version_rules import (
    Busy,
    Event,
    LockLost,
    Repeats,
    Skipped,
    VersionRules,
    checked_event,
    checked_handler,
    is_within,
    version_of,
)
from ledger.runtime.call_deadlines import arranging, seconds_left, unless_ended
from ledger.runtime.services import Services
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import BACKOFF, Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Action

WAIT_SECONDS = 10.0
WAIT_SECONDS_MAX = 86400.0
TERMS = LeaseTerms()
ELSEWHERE = "guards of one subject must all work through one region"
_OWNER_BITS = 64

Handler = Callable[[Event, Lease], Awaitable[Sequence[Action]]]
"""Handles a newer event, under the given lease; returns what to write with the version.

What it returns is written once. What it does by itself is done at least once: it runs again if the
version was not written. Before each such step it asks `lease.check()`, which raises `LeaseLost`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOptions:
    """Options of a guard by lock.

    Without `check_first` every event takes the lock. Up to `waiting_max` calls wait in this process
    for their turn, and of those of one subject and kind the newest is handled; 0: every call
    contends for the lock by itself. The others are as in `ConditionGuard`.
    """

    terms: LeaseTerms = TERMS
    check_first: bool = True
    waiting_max: int = WAITING_MAX
    repeats: Repeats = "skip"
    tombstone_seconds: float | None = None
    failures_max: int | None = None
    backoff: Backoff = BACKOFF


_USUAL = GuardOptions()


class LockGuard:
    """Handles events one at a time for each subject, the newest version of each kind only.

    `owner` names this process in the lock; each call adds its own ending. All must write in one
    region. Methods are for any task.

    Raises:
        InvalidInput: an option has a value that it cannot have.
    """

    def __init__(
        self,
        store: Store,
        *,
        owner: str,
        services: Services,
        options: GuardOptions = _USUAL,
    ) -> None:
        if not isinstance(owner, str) or not owner:
            raise InvalidInput(f"owner must be a text that is not empty, got {owner!r}")
        self._store = store
        self._owner = owner
        clock, randomness = services.clock, services.randomness
        self._clock = clock
        self._services = services
        self._terms = checked_terms(options.terms)
        self._check_first = check_bool("check_first", options.check_first)
        self._rules = VersionRules(options.repeats, options.tombstone_seconds)
        self._turns = SubjectTurns(
            rules=self._rules, clock=clock, owner=owner, waiting_max=options.waiting_max
        )
        retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=options.backoff)
        self._committing = VersionCommit(store, retrier, randomness, self._rules)
        failures_max = options.failures_max
        self.dead_letters: DeadLetters = DeadLetters(store, retrier, failures_max=failures_max)
        self._counted = None if failures_max is None else self.dead_letters

    async def handle(
        self,
        event: Event,
        handler: Handler,
        *,
        wait_seconds: float = WAIT_SECONDS,
        timeout: float | None = None,
    ) -> Committed | Busy | DeadLetter:
        """Run the handler if the event is newer than what was handled of its subject and kind.

        What the handler raises is raised, with the lock given back and the version not written.
        `Unknown`: the handler ran; whether its actions and the version are there is not known.
        With `failures_max`, what is raised and a `Refused` are failures; see `DeadLetters`.
        `wait_seconds` is for the lock, `timeout` for all of it: a handler that runs at its end is
        cancelled, and what the lock's item shows of us runs out by itself.

        Raises:
            InvalidInput: the handler returned over 98 actions, or not a list of actions; the
                event is invalid; the handler cannot be called; the wait is not from 0 to a day.
            LeaseLost: the lock belongs to another region.
            DamagedItem: the lock, or the version, is not of our form.
            NotSent: `timeout` ended before the lock was asked for.
            OutcomeUnknown: it ended later: the handler may have run, the guard wrote no version.
                The same call handles the event again.
            StoreError: the table could not be read or written; the guard wrote no version.
        """
        checked_event(event)
        checked_handler(handler)
        if wait_seconds != 0 and not is_within(wait_seconds, WAIT_SECONDS_MAX):
            raise InvalidInput(
                f"wait_seconds must be from 0 to {WAIT_SECONDS_MAX:,.0f}, got {wait_seconds!r}"
            )
        with arranging(timeout, "the handler may have run, its version is not written"):
            deadline = self._clock.monotonic() + min(wait_seconds, seconds_left())
            handle = partial(self._handle_in_turn, event, handler, deadline)
            return await self._turns.take(event, handle, deadline=deadline)

    async def _handle_in_turn(
        self, event: Event, handler: Handler, deadline: float
    ) -> Committed | Busy | DeadLetter:
        if self._check_first:
            newest = await self._newest(event, consistent=False)
            if newest is not None and self._rules.is_old(event.version, newest):
                return Skipped(event.version, newest)
        return await handle_counting(
            self._counted, event, partial(self._handle_locked, event, handler, deadline)
        )

    async def _handle_locked(
        self, event: Event, handler: Handler, deadline: float
    ) -> Committed | Busy:
        lease = self._lease(event)
        async with lease.held(max(0.0, deadline - self._clock.monotonic())) as held:
            if isinstance(held, NotHeld):
                return Busy(held.owner)
            return await self._handle_held(event, handler, held, lease)

    async def _handle_held(
        self, event: Event, handler: Handler, held: LeaseGrant, lease: Lease
    ) -> Committed:
        newest = await self._newest(event, consistent=True)
        if newest is not None and self._rules.is_old(event.version, newest):
            return Skipped(event.version, newest)
        try:
            actions = await unless_ended(handler(event, lease))
        except LeaseLost as error:
            return LockLost(str(error))
        return await self._committing.commit(event, actions, fence=held.fence())

    async def _newest(self, event: Event, *, consistent: bool) -> int | None:
        return version_of(await self._store.get(Get(event.key, consistent=consistent)))

    def _lease(self, event: Event) -> Lease:
        """Return a separate contender for one call: a lease has one owner, one task."""
        ending = f"{self._services.randomness.getrandbits(_OWNER_BITS):016x}"
        return Lease(
            self._store,
            f"versions of {event.subject}",
            owner=f"{self._owner}#{ending}",
            terms=self._terms,
            services=self._services,
            options=LeaseOptions(key=event.lock_key, elsewhere=ELSEWHERE),
        )
