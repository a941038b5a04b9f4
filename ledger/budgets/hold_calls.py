"""Holds: an amount kept aside, settled once for what it came to, by the first process that does.

A durable hold is an entry that counts at once. It is resolved by one update of that item, on
condition that it is open and as it was read. Its owner, whose grant is at hand, writes the entry
alone; anyone else, or later, writes it with the rights item of each grant, in one transaction.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.budgets import balance, hold_rules
from ledger.budgets.calendar import whole_seconds, window_in
from ledger.budgets.credit_rules import highest_of
from ledger.budgets.grant_allowance import AtHand
from ledger.budgets.hold_rules import HoldResolution
from ledger.budgets.region_access import RegionAccess
from ledger.budgets.rights import GrantName, LateCharge
from ledger.budgets.rights_items import ControlItems, RightsView
from ledger.budgets.rights_plan import TooFewRights, highest_limit
from ledger.budgets.spend_record import SpendRecord, spend_of
from ledger.budgets.spend_request import Granted, Refused
from ledger.core import amounts, keys
from ledger.core.entry import Item, Key, entry_of
from ledger.core.errors import (
    InvalidInput,
    OutcomeUnknown,
    StateConflict,
    StoreError,
    Unreachable,
)
from ledger.core.ids import EPOCH
from ledger.core.values import Entry
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, Rejected, Unknown, Update

Held = Callable[[str, str], AtHand | None]
"""The grant at hand of a name, for the entries of a counter; None if this process has it not."""
Resolve = Callable[[SpendRecord], HoldResolution]


class HoldCalls:
    """Resolves and extends holds, each through the region that its entry was written in."""

    def __init__(self, access: RegionAccess, *, at_hand: Held) -> None:
        self._access = access
        self._at_hand = at_hand

    async def resolve(self, entry: Entry, how: Resolve, *, over: bool = False) -> Granted | Refused:
        """Resolve a hold; repeated in the same way it returns the entry as it is.

        `over` charges more than was held though there is not as much, since the cost was incurred.

        Raises:
            StateConflict: it is not a hold of this budget, or was resolved in another way; or
                there is no such entry (any more): then the outcome is unknown.
            OutcomeUnknown: no answer in time; the same call is harmless.
            StoreError: DynamoDB could not do it.
        """
        entry = await self.known(entry)
        store, item, hold = await self._found(entry)
        seconds = self._access.settings.current.write_deadline
        tries = self._access.tries(store, seconds=seconds)
        is_unsure = False
        while True:
            if hold.resolved is not None:
                return Granted(_resolved_alike(item, hold, how))
            resolved = how(hold)
            with _sure(entry, is_unsure=is_unsure):
                outcome = await self._write(store, entry, hold, resolved, over=over)
            if isinstance(outcome, Refused):
                if is_unsure:  # the earlier try may land yet
                    raise _unsettled(entry, "it is refused by now", is_unsure=True)
                return outcome
            if isinstance(outcome, Applied):
                tries.succeeded()
                return Granted(_entry_after(entry, resolved))
            is_unsure = is_unsure or isinstance(outcome, Unknown)
            cause = "contention" if isinstance(outcome, Rejected) else outcome.cause
            requests = 1 if isinstance(outcome, Rejected) else outcome.requests
            if not await tries.again("unanswered", requests=requests):
                raise _unsettled(entry, cause, is_unsure=is_unsure)
            with _sure(entry, is_unsure=is_unsure):
                store, item, hold = await self._found(entry)

    async def extend(self, entry: Entry, expires: int) -> Entry:
        """Let a hold expire later.

        Raises:
            As `resolve`, and InvalidInput: it would expire earlier.
        """
        entry = await self.known(entry)
        store, item, hold = await self._found(entry)
        tries = self._access.tries(store, seconds=self._access.settings.current.write_deadline)
        while True:
            update = hold_rules.extension_of(_key_of(entry), hold, expires)
            with self._access.signed():
                outcome = await store.write(update)
            if isinstance(outcome, Applied):
                tries.succeeded()
                break
            if isinstance(outcome, Unknown):
                raise _unsettled(entry, outcome.cause, is_unsure=True)
            if not await tries.again("unanswered"):  # it was extended, or resolved, meanwhile
                raise _unsettled(entry, "contention", is_unsure=False)
            store, item, hold = await self._found(entry)
        spending = entry_of(item).spending
        return replace(
            entry, spending=None if spending is None else replace(spending, hold=expires)
        )

    async def _write(
        self, store: Store, entry: Entry, hold: SpendRecord, resolved: HoldResolution, *, over: bool
    ) -> Applied | Rejected | Unknown | Refused:
        update = hold_rules.update_of(_key_of(entry), resolved)
        with self._access.signed():
            own = self._own(entry, hold)
            if own and (done := await self._by_owner(store, update, resolved, own)) is not None:
                return done
            return await self._apart(store, entry, resolved, over=over)

    def _own(self, entry: Entry, hold: SpendRecord) -> list[AtHand]:
        """Return the grants that the hold names if this process has them all at hand."""
        found = [self._at_hand(str(name), entry.counter) for name in hold.grants]
        own = [at_hand for at_hand in found if at_hand is not None]
        return own if len(own) == len(found) else []

    async def _by_owner(
        self, store: Store, update: Update, resolved: HoldResolution, at_hand: list[AtHand]
    ) -> Applied | Rejected | Unknown | None:
        """Write the entry alone, while its grants are at hand; None if they have too little."""
        for grant in at_hand:
            resolved.check(grant.limit)
        difference = resolved.difference
        more = max(Decimal(0), difference)
        own = [grant.allowance for grant in at_hand]
        if any(allowance.remaining < more for allowance in own):
            return None
        for allowance in own:
            allowance.take(more)
        now = self._access.items(store).time.latest
        expires = min(allowance.grant.expires for allowance in own)
        timed = replace(update, not_after=EPOCH + timedelta(seconds=expires))
        try:
            outcome = await store.write(timed)
        except BaseException:
            for allowance in own:
                allowance.doubted()
            raise
        for allowance in own:
            if isinstance(outcome, Applied):
                held = resolved.before
                allowance.settled(held.id, held.amount, LateCharge(difference, now))
            elif isinstance(outcome, Rejected):
                allowance.given_back(more)
            else:
                allowance.doubted()
        return outcome

    async def _apart(
        self, store: Store, entry: Entry, resolved: HoldResolution, *, over: bool
    ) -> Applied | Rejected | Unknown | Refused:
        """Write the entry together with the rights item of each grant."""
        control = self._access.items(store)
        grants = resolved.before.grants
        shown = {name.budget: await control.read(name.budget or entry.counter) for name in grants}
        items = {name.budget: shown[name.budget].of(name.holder) for name in grants}
        if not resolved.is_within_held:  # else no window's limit has to be read
            for budget, there in shown.items():
                counter = budget or entry.counter
                resolved.check(await self._highest_limit(control, counter, there))
        now = control.time.latest
        apart = hold_rules.charge_apart(resolved, items, now=now, over=over)
        if isinstance(apart, TooFewRights):
            more = resolved.difference
            lacking = next(name for name in grants if items[name.budget].available < more)
            here = max(Decimal(0), items[lacking.budget].available)
            terms = self._access.settings.current.terms
            kept = {
                holder: item
                for holder, item in shown[lacking.budget].items.items()
                if not terms.is_over(holder.region, holder.epoch)
            }
            counter = lacking.budget or entry.counter
            return Refused(counter, more, here, balance.elsewhere(kept, here))
        writes = hold_rules.apart_writes(_key_of(entry), apart, items, entry.counter)
        return await store.transact(writes)

    async def _highest_limit(
        self, control: ControlItems, counter: str, shown: RightsView
    ) -> Decimal:
        """Return the highest limit that a region knows of a budget, or of a window's."""
        window = window_in(counter, self._access.settings.current.terms)
        limit = shown.limit if window is None else await control.limit(window, shown)
        known = Decimal(0) if limit is None else limit.newest.limit
        rule = self._access.settings.current.terms.budget_of(counter)
        return highest_of(rule, highest_limit(known, shown.items.values()))

    async def known(self, entry: Entry) -> Entry:
        """Return an entry of which only counter and id may be known, as its region shows it.

        Without a region it is looked for here.

        Raises:
            StateConflict: the region does not show it; whether it was resolved is unknown.
        """
        if entry.spending is not None and entry.shard is not None:
            return entry
        store = await self._store_in(entry.region)
        shards = self._access.settings.current.terms.shards_read(entry.counter)
        for shard in range(shards) if entry.shard is None else [entry.shard]:
            item = await store.get(
                Get((keys.partition_key(keys.checked_counter(entry.counter), shard), entry.id))
            )
            if item is not None:
                return replace(entry_of(item), shard=shard)
        raise _missing(entry, store.region)

    async def _found(self, entry: Entry) -> tuple[Store, Item, SpendRecord]:
        """Return a hold as the region of its grants shows it, and that region's store.

        Of a key that was used in two regions at once the last writer's entry stands, which names
        grants of its own region: it is resolved there, and nowhere else.

        Raises:
            StateConflict: that region was lost, or taken out: only its expiry resolves it.
            Unreachable: that region cannot be reached from here, or shows another's entry so far.
        """
        grants = entry.spending.grants if entry.spending else ()
        terms = self._access.settings.current.terms
        try:
            holder = GrantName.parse(grants[0]).holder if grants else None
        except ValueError as error:
            raise InvalidInput(f"entry {entry.id}: {error}") from None
        region = entry.region if holder is None else holder.region
        for _ in range(2):
            if holder is not None and terms.is_over(holder.region, holder.epoch):
                raise StateConflict(
                    f"hold {entry.id} of {entry.counter!r} is of {holder.region}, which was lost"
                    " or taken out since: once its rights are reclaimed the compactor resolves it"
                    " by its expiry"
                )
            store = await self._store_in(region)
            item, hold = await self._read(store, entry)
            holder = hold.grants[0].holder
            region = holder.region
            if region == store.region and not terms.is_over(region, holder.epoch):
                return store, item, hold
        raise Unreachable(f"hold {entry.id} was made in two regions, which do not agree on it yet")

    async def _store_in(self, region: str | None) -> Store:
        return await self._access.store_of(region or self._access.store.region)

    async def _read(self, store: Store, entry: Entry) -> tuple[Item, SpendRecord]:
        item = await store.get(Get(_key_of(entry)))
        if item is None:
            raise _missing(entry, store.region)
        hold = spend_of(item)
        if hold is None or hold.hold is None:
            raise StateConflict(f"entry {entry.id} of {entry.counter!r} is not a hold")
        return item, hold


def _missing(entry: Entry, region: str) -> StateConflict:
    error = StateConflict(
        f"hold {entry.id} of {entry.counter!r} is not in {region}: it was never written, has not"
        " arrived, or was resolved and merged"
    )
    error.outcome = "unknown"  # an earlier call may have resolved it as this one asks
    return error


def expiry_of(expires: datetime | timedelta | float, now: datetime) -> int:
    """Return when a hold expires, in whole seconds since 1970, rounded up: never before it should.

    Raises:
        InvalidInput: it is neither an aware time, nor a duration or seconds from now, or is past.
    """
    try:
        at = _time_of(expires, now)
        if at <= now:
            raise InvalidInput(f"expires must be in the future, got {at.isoformat()}")
        return whole_seconds(at + (timedelta(seconds=1) - timedelta.resolution))
    except OverflowError:
        said = expires.isoformat() if isinstance(expires, datetime) else f"{expires!r:.80}"
        raise InvalidInput(f"expires must be a time in the calendar, got {said}") from None


def _time_of(expires: datetime | timedelta | float, now: datetime) -> datetime:
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise InvalidInput(f"expires must be an aware time, got {expires.isoformat()}")
        return expires
    if isinstance(expires, timedelta):
        return now + expires
    if isinstance(expires, int | float) and not isinstance(expires, bool) and expires > 0:
        return now + timedelta(seconds=expires)
    raise InvalidInput(f"expires must be a time, or seconds above 0 from now, got {expires!r:.80}")


def _key_of(entry: Entry) -> Key:
    return keys.partition_key(entry.counter, entry.shard or 0), entry.id


def _resolved_alike(item: Item, hold: SpendRecord, how: Resolve) -> Entry:
    """Return the entry if it was resolved as is asked for.

    Raises:
        StateConflict: it was not.
    """
    wanted = how(replace(hold, resolved=None)).after
    if (wanted.resolved, wanted.amount) == (hold.resolved, hold.amount):
        return replace(entry_of(item), repeated=True)
    was = f"hold {hold.id} was resolved before"
    error = StateConflict(f"{was}: {hold.resolved}, for {amounts.to_text(hold.amount)}")
    error.unread = entry_of(item).counter, f"{was}, otherwise"
    raise error


def _entry_after(entry: Entry, resolved: HoldResolution) -> Entry:
    spending = entry.spending
    if spending is not None:
        spending = replace(spending, resolved=resolved.after.resolved)
    return replace(entry, change=resolved.after.amount.copy_negate(), spending=spending)


@contextmanager
def _sure(entry: Entry, *, is_unsure: bool) -> Iterator[None]:
    """Let a request of a resolution fail as what it is, unless an earlier try may be applied."""
    try:
        yield
    except StoreError as error:
        if is_unsure:
            raise _unsettled(entry, str(error), is_unsure=True) from error
        raise


def _unsettled(entry: Entry, cause: str, *, is_unsure: bool) -> OutcomeUnknown | Unreachable:
    text = f"hold {entry.id} of {entry.counter!r} could not be resolved in time: {cause}"
    if is_unsure:
        return OutcomeUnknown(f"{text}; the same call is harmless", entries=[entry], retryable=True)
    return Unreachable(text)
