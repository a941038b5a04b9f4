"""A lease held: acquired by one contender at a time, kept by heartbeats, lost before it is taken.

::

    async with lease.held(wait_seconds=60) as held:
        if isinstance(held, NotHeld):
            return                                   # held.owner leads
        while work:
            lease.check()                            # LeaseLost before another can have taken it
            await lease.transact(writes)             # LeaseLost if another has it: nothing written

`check` stops a holder whose heartbeats fail; the fence that `transact` adds stops one that stalls
after its check. Every write is conditional on the record that the contender saw before (`item`), so
of any number of contenders one wins (`contention`). `holding` says until when it relies on that.
"""

import math
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from ledger.core.amounts import check_bool
from ledger.core.entry import AttributeValue, Item, Key
from ledger.core.errors import DamagedItem, InvalidInput, LeaseLost
from ledger.primitives.leases.contention import Contention
from ledger.primitives.leases.heartbeats import Keeping, expire, give_back, in_loop
from ledger.primitives.leases.holding import BEATS_MAX, Beat, Holding, holder
from ledger.primitives.leases.item import LeaseItem, Sending
from ledger.primitives.leases.lease_rules import (
    NO_OWNER,
    LeaseGrant,
    LeaseRecord,
    LeaseTerms,
    NotHeld,
    checked_data,
    checked_key,
    checked_owner,
    checked_terms,
    checked_wait,
    own_key,
    record_of,
)
from ledger.primitives.leases.queries import is_alive
from ledger.runtime.call_deadlines import (
    arranging,
    changing,
    reading,
    seconds_left,
)
from ledger.runtime.services import Services
from ledger.runtime.supervisor import supervised
from ledger.runtime.tasks import background_tasks
from ledger.store.port import Store
from ledger.store.writes import (
    Action,
    Applied,
    Check,
    Outcome,
    Rejected,
    checked_kinds,
    checked_request_token,
)

ELSEWHERE = "contend for it through that region, or let its holder there hand it over"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseOptions:
    """Options of a contender.

    The item is under `key`, by default in its own partition (`own_key`). `elsewhere` is the advice
    in the error of a lease that belongs to another region. `keeping` sends the heartbeats of
    `held`. With `delete_on_release` a release deletes the item, with the data in it.
    """

    key: Key | None = None
    elsewhere: str = ELSEWHERE
    keeping: Keeping = in_loop
    delete_on_release: bool = False


_USUAL = LeaseOptions()


class Lease:
    """One contender for one lease, in the region of its store.

    `owner` must be unique to this object: a new one at each start of a process. The randomness of
    its services makes the rvns and must not repeat another contender's. `lost` is the event of the
    current holding, a new one at each acquisition. Its methods are for one task at a time, besides
    the heartbeats that `held` sends; `check`, `confirm`, `fence`, `transact`, `look`, `lost` and
    `held_until` are for any task.

    Raises:
        InvalidInput: the owner is not a string or empty, the terms are not `LeaseTerms`, the name
            breaks a rule of counter ids, or the key is that of a counter.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        owner: str,
        terms: LeaseTerms,
        services: Services,
        options: LeaseOptions = _USUAL,
    ) -> None:
        self.name = name
        self.owner: str = checked_owner(owner, name)
        self.terms: LeaseTerms = checked_terms(terms)
        self.lost: anyio.Event = anyio.Event()
        self._beats: deque[Beat] = deque(maxlen=BEATS_MAX)
        self._store = store
        self._keeping = options.keeping
        self._deletes = check_bool("delete_on_release", options.delete_on_release)
        place = own_key(name) if options.key is None else checked_key(options.key)
        self._item = LeaseItem(store, place, Sending(services))
        self._clock = services.clock
        self._contention = Contention(
            name,
            owner=owner,
            terms=terms,
            item=self._item,
            services=services,
            elsewhere=options.elsewhere,
            begin=self._begin,
        )
        self._holding: Holding | None = None
        self._why = "it was not acquired"

    @property
    def beats(self) -> tuple[Beat, ...]:
        """The latest heartbeats, oldest first, up to `BEATS_MAX`."""
        return tuple(self._beats.copy())  # in one step, which no other thread shares

    @property
    def held_until(self) -> float:
        """Until when no other can take it, on our monotonic clock; minus infinity if not held.

        That is a full lease from before the last heartbeat known to be applied was sent.
        """
        if self._holding is None or self._holding.is_over:
            return -math.inf
        return self._holding.held_until

    async def acquire(
        self,
        wait_seconds: float | None = None,
        *,
        data: Mapping[str, AttributeValue] | None = None,
        take_expired: bool = True,
        timeout: float | None = None,
    ) -> LeaseGrant | NotHeld:
        """Take the lease, waiting up to `wait_seconds` for it: 0 looks once, None waits for ever.

        `data` is stored with it, replacing the data there, which `LeaseGrant.data` has; without it
        that stays. Without `take_expired` it is taken only if it was released, deleted or never
        held: a holder that died keeps it until an operator deletes its item. Returns the same
        `LeaseGrant` again while it is held, and stores nothing then. `timeout` bounds the wait too,
        and unlike it the requests.

        Raises:
            InvalidInput: the data is not a map of attributes or over 400 KB, or the wait is not 0
                or more.
            LeaseLost: the lease belongs to another region.
            DamagedItem: the item in the table is not a lease.
            NotSent, OutcomeUnknown: `timeout` ended, before or after it was asked for; nothing is
                held. The same call recognizes what an unanswered one wrote.
            StoreError: the table could not be read or written; nothing is held.
        """
        stored = None if data is None else checked_data(data)
        wait = checked_wait(wait_seconds)
        check_bool("take_expired", take_expired)
        if self._holding is not None and self._holding.safe_seconds() > 0:
            return self._holding.grant
        with arranging(timeout, "the lease may have been taken, and then runs out by itself"):
            return await self._contention.acquire(
                min(wait, seconds_left()), stored, take_expired=take_expired
            )

    async def hand_over(self, home: str, *, timeout: float | None = None) -> bool:
        """Transfer the lease to contenders of another region, under the next epoch.

        Returns whether that is known to be applied; if not, look again and repeat. From then on
        no contender of this region can take it, and no fence of an earlier epoch holds here.

        Raises:
            InvalidInput: the region is not a string, or empty: no region could take the lease
                again.
            LeaseLost: the lease is not surely ours.
            NotSent, OutcomeUnknown: `timeout` seconds ended, before or after it was sent.
            StoreError: the table could not be read or written.
        """
        if not isinstance(home, str) or not home or not home.isascii():
            raise InvalidInput(f"home must be the name of a region, got {home!r}")
        holding = self._checked()
        record = holding.record
        wanted = replace(record, owner=NO_OWNER, epoch=record.epoch + 1, home=home)
        with arranging(timeout, "it may be handed over: look again, and repeat"):
            written = await self._item.take(record, wanted)
        if written.applied:
            self._end(holding, f"it was handed over to {home}")
            return True
        holding.take_in(written.shown)
        return False

    async def look(self, *, timeout: float | None = None) -> LeaseRecord | None:
        """Read who has the lease, and what is stored with it, without contending for it.

        Strongly consistent in its own region; None if it was never held, or is deleted.

        Raises:
            ReadTooSlow: `timeout` seconds ended.
            DamagedItem, StoreError: as `acquire`.
        """
        with reading(timeout):
            return await self._item.read()

    async def watch(self, *, timeout: float | None = None) -> bool:
        """Look at the lease for up to the time that its owner declared; False if nothing was sent.

        One look cannot show whether a holder is alive: its clock is not ours. False means that the
        item showed the same record all the time, or no owner; a contender could have taken it.

        Raises:
            ReadTooSlow: `timeout` seconds ended before that could be said.
            DamagedItem, StoreError: as `acquire`.
        """
        with reading(timeout):
            return await is_alive(self._item, self.terms, self._clock)

    async def heartbeat(
        self, *, data: Mapping[str, AttributeValue] | None = None, timeout: float | None = None
    ) -> bool:
        """Hold the lease for another `lease_seconds` from now, and store new data with it, if any.

        Returns whether this heartbeat is known to be applied. If not, the lease is ours as before
        until `held_until`: try again soon. One whose time is over, and that is not lost yet, asks
        the table: see `confirm`.

        Raises:
            InvalidInput: the data is not a map of attributes, or over 400 KB.
            LeaseLost: another has taken it, or may have by now; it is then not held any more.
            NotSent, OutcomeUnknown: `timeout` seconds ended; ours as before until `held_until`.
            StoreError: the table could not be read or written; ours as before until `held_until`.
        """
        holding = self._current()
        stored = None if data is None else checked_data(data)
        with arranging(timeout, "the heartbeat may be applied: send another"):
            return await holding.beat(self._item, stored)

    async def confirm(self, *, timeout: float | None = None) -> None:
        """Return if the lease is surely ours, as `check`; if its time is over, ask the table first.

        For the moment after a step that held up the event loop, and its heartbeats with it: a
        heartbeat that is still applied shows that no other has had the lease.

        Raises:
            LeaseLost: as `check`.
            ReadTooSlow: `timeout` seconds ended; the same as of a StoreError.
            StoreError: the table could not be asked; act as after `LeaseLost`, or ask again.
        """
        holding = self._current()
        if holding.safe_seconds() <= 0:
            with reading(timeout):
                await holding.beat(self._item)

    async def release(self, *, timeout: float | None = None) -> bool:
        """Release the lease, so that the next contender need not wait; no harm if not held.

        The item, its epoch and its data stay, or are deleted (`delete_on_release`). Returns whether
        the lease is known to be ours no longer; if not, it runs out by itself.

        Raises:
            DamagedItem: the item in the table is not a lease.
            NotSent, OutcomeUnknown: `timeout` seconds ended; the lease runs out by itself.
            StoreError: the table could not be read or written; the lease runs out by itself.
        """
        with arranging(timeout, "the lease runs out by itself", retryable=False):
            holding = self._holding
            if holding is None or holding.is_taken:
                self._holding = None
                return True
            self._end(holding, "it was released")
            return await holding.give_up(self._item, delete=self._deletes)

    def check(self) -> None:
        """Return if the lease is surely ours for at least `terms.margin_seconds` from now.

        Raises:
            LeaseLost: another has taken it, or may soon; `lost` is set as well.
        """
        self._checked()

    def fence(self) -> Check:
        """Return the check of our holding for a transaction, as `LeaseGrant.fence` does.

        Raises:
            LeaseLost: as `check`.
        """
        return self._checked().grant.fence()

    async def transact(
        self,
        actions: Sequence[Action],
        *,
        token: str | None = None,
        data: Mapping[str, AttributeValue] | None = None,
        timeout: float | None = None,
    ) -> Outcome:
        """Do up to 99 actions, all or none, only while our epoch is the current one.

        The outcome is as the store's, and `Rejected` names the places of these actions. `token`
        makes repeats harmless that arrive within ten minutes, of the same holding. `data` is stored
        with the lease in the same transaction, which is a heartbeat as well.

        Raises:
            InvalidInput: the actions are invalid; or the data is not a map of attributes or over
                400 KB, or with a token: a repeat writes another record, so is not the same
                transaction.
            LeaseLost: as `confirm`; or another has taken the lease, and nothing was written by this
                call.
            NotSent: `timeout` seconds ended; nothing was written, nor will be.
            StoreError: nothing was written, nor will be.
        """
        if data is not None and token is not None:
            raise InvalidInput(f"a transaction with data takes no token, got {token!r:.80}")
        checked_request_token(token)
        stored = None if data is None else checked_data(data)
        actions = checked_kinds(actions)
        with changing(timeout):
            return await self._transacted(actions, token, stored)

    async def _transacted(
        self, actions: Sequence[Action], token: str | None, stored: Item | None
    ) -> Outcome:
        await self.confirm()
        holding = self._current()
        fence: Action = holding.grant.fence()
        wanted: LeaseRecord | None = None
        if stored is not None:
            wanted, fence = self._item.renewal(holding.record, data=stored)
        outcome = await self._store.transact([fence, *actions], token=token)
        if not isinstance(outcome, Rejected):
            if isinstance(outcome, Applied):
                holding.extend(wanted)
            return outcome
        if 0 in outcome.found:
            raise self._fenced_off(holding, outcome.found[0])
        return Rejected(found={place - 1: item for place, item in outcome.found.items()})

    def _fenced_off(self, holding: Holding, found: Item | None) -> LeaseLost:
        """Return the error of a fence that did not hold; a later holding of ours is unaffected."""
        try:
            why = f"{holder(None if found is None else record_of(found))} has it"
        except DamagedItem as error:
            why = str(error)
        if holding is not self._holding:
            return LeaseLost(f"lease {self.name!r} was lost to {self.owner!r}: {why}")
        return holding.lose(why, taken=True)

    @asynccontextmanager
    async def held(
        self,
        wait_seconds: float | None = None,
        *,
        data: Mapping[str, AttributeValue] | None = None,
        take_expired: bool = True,
        timeout: float | None = None,
    ) -> AsyncIterator[LeaseGrant | NotHeld]:
        """Acquire the lease, keep it by heartbeats while the body runs, and release it at the end.

        The body gets what `acquire` returned, and runs in both cases. `lost` is set before
        another can take the lease, unless the event loop is held up until then; the body is not
        stopped: it asks `check`, or waits for `lost`. The release happens on errors and on
        cancellation too, within `RELEASE_SECONDS_MAX`. Another task of the event loop may leave the
        block than the one that entered it. `timeout` is that of `acquire`.

        Raises:
            InvalidInput, LeaseLost, DamagedItem, NotSent, OutcomeUnknown, StoreError: as `acquire`,
                before the body runs; or the connection of a thread that sends heartbeats could not
                be opened.
        """
        outcome = await self.acquire(
            wait_seconds, data=data, take_expired=take_expired, timeout=timeout
        )
        if isinstance(outcome, NotHeld):
            yield outcome
            return
        holding = self._current()
        try:
            async with supervised(self._kept(holding)):
                yield outcome
        finally:
            with anyio.CancelScope(shield=True):
                await give_back(self, self._clock)

    @asynccontextmanager
    async def _kept(self, holding: Holding) -> AsyncIterator[None]:
        """Keep a holding by heartbeats, and lose it when its time is over."""
        async with self._keeping(holding, self._item, self._clock), background_tasks() as tasks:
            tasks.start_soon(expire, holding, self._item, self._clock)
            yield

    def _begin(self, grant: LeaseGrant, wanted: LeaseRecord) -> Holding:
        """Begin a holding of ours, of which the first record is `wanted`."""
        self._holding = Holding(
            self.name,
            grant,
            wanted,
            terms=self.terms,
            sending=self._item.sending,
            clock=self._clock,
            beats=self._beats,
        )
        self.lost = self._holding.lost
        return self._holding

    def _current(self) -> Holding:
        """Return the holding, although its time may be over.

        Raises:
            LeaseLost: there is no lease.
        """
        if self._holding is None:
            raise LeaseLost(f"lease {self.name!r} is not held by {self.owner!r}: {self._why}")
        self._holding.check_not_over()
        return self._holding

    def _checked(self) -> Holding:
        holding = self._current()
        holding.check()
        return holding

    def _end(self, holding: Holding, why: str) -> None:
        self._holding, self._why = None, why
        holding.end(why)
