"""A sequence by a counter item: one `ADD`, whose answer is the caller's number.

::

    client 1   ADD 1 ──── 7 ── dies                        7 is a gap
    client 2        ADD 1 ──── 8 ── puts its item under 8
    client 3             ADD 1 ── no answer ── ADD 1 ── 10   9 may be a gap, and is never given

The `ADD`s of one item are applied one after another, so no number is given twice. An unanswered
one may have taken its number: it is repeated, which costs at worst the number.

A caller's token is kept by a marker, which is put after the number was taken: a transaction does
not return what its `ADD` made of the item, so the two cannot be one. One marker is put of a token,
and its number is the token's::

    call     marker? none ── ADD 1 ── 7 ── put marker 7 if absent ── 7
    repeat      marker? none ── ADD 1 ── 8 ── put marker 8 if absent: 7 is there ── 7    8 is a gap
    repeat                                          marker? 7 ────────────────────── 7
"""

from collections.abc import Callable
from datetime import timedelta

import anyio

from ledger.core.entry import Item, Key
from ledger.core.errors import InvalidInput
from ledger.primitives.sequences.contents import checked_item, digest_of
from ledger.primitives.sequences.numbers import (
    COUNTER_SORT_KEY,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    counter_limit,
    last_of,
    partition_of,
)
from ledger.primitives.sequences.offers import NumbersMarker, given_by
from ledger.primitives.tokens import checked_kept, checked_token
from ledger.runtime.call_deadlines import changing, unless_ended
from ledger.runtime.services import Services
from ledger.store.conditions import Absent, AnyOf, Compares
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import BACKOFF, Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Put, Rejected, Unknown, Update

BLOCK_MAX = 1_000_000

MakeItem = Callable[[int], Item]
"""Returns the item, with its place, that is to be put under a number; always the same one."""


class CounterSequence:
    """One client's view of a sequence that begins at 1; any number of clients share it.

    With a `block` of n, n numbers are leased by one write and handed out from memory: numbers of
    one client grow, those of several interleave, and so they are not in the order of time. A token
    is remembered for good, or for `kept_seconds` where the table's time to live is on for
    `~expires`. All clients must write in one region. Methods are for any task.

    Raises:
        InvalidCounter: the name breaks a rule of counter ids.
        InvalidInput: the block is not from 1 to a million, or `kept_seconds` not up to a century.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        block: int = 1,
        kept_seconds: float | None = None,
        backoff: Backoff = BACKOFF,
    ) -> None:
        if type(block) is not int or not 1 <= block <= BLOCK_MAX:
            raise InvalidInput(
                f"block must be a whole number from 1 to {BLOCK_MAX:,}, got {block!r}"
            )
        self._store = store
        self._name = name
        clock, randomness = services.clock, services.randomness
        self._clock = clock
        self._block = block
        self._kept_seconds = checked_kept(kept_seconds)
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=backoff)
        self._update = _taking((partition_of(name), COUNTER_SORT_KEY), block)
        self._leased = range(0)
        self._refill = anyio.Lock()

    async def next(
        self, *, token: str | None = None, timeout: float | None = None
    ) -> Numbered | NotNumbered | Unknown:
        """Take the next number; with a `token`, the one that it was given before, if any.

        `Unknown`: no try was answered; no number was handed out, some may be gaps; the same call
        with the same token may be made again. `NotNumbered`: fewer numbers are left than a block,
        or the token stands for an item (`token conflict`). With `timeout` the call ends after so
        many seconds.

        Raises:
            InvalidEntry: the token is not a str of 1 to 1,024 bytes of UTF-8.
            DamagedItem: the counter item, or the marker, has no whole number.
            NotSent: `timeout` ended; the token has no number from this call.
            StoreError: the table could not be read or written; the token has no number from this
                call, unless `outcome` is unknown.
        """
        checked = checked_token(token)
        with changing(timeout):
            return await (self._following() if checked is None else self._numbered(checked))

    async def _numbered(self, token: str) -> Numbered | NotNumbered | Unknown:
        marker = NumbersMarker(self._name, token, "number")
        if (shown := await self._shown(marker.key)) is not None:
            return marker.met(shown)
        taken = await self._following()
        return await self._remembered(marker, taken) if isinstance(taken, Numbered) else taken

    async def put_next(
        self,
        make: MakeItem,
        *,
        token: str | None = None,
        resume: MaybeNumbered | None = None,
        timeout: float | None = None,
    ) -> Numbered | NotNumbered | MaybeNumbered | Unknown:
        """Take the next number, and put the item that `make` returns for it, if its place is free.

        The number is part of the item's key, or an attribute, as `make` wants it; it is called
        again for the same number, and must return the same item. With a `token` the item and the
        token's marker are one transaction, so a repeat finds both or neither: it returns the number
        of the item that was put, or takes another. A call that ends in between leaves one number
        unused. `resume` continues a call that ended in `MaybeNumbered`. With `timeout` the call
        ends after that many seconds.

        `occupied`: another item exists under its key; the number stays unused.

        Raises:
            InvalidInput: the item has no place, or attributes of ours, or is over 400 KB; its
                number stays unused.
            InvalidEntry: the token is not a str of 1 to 1,024 bytes of UTF-8.
            DamagedItem: the counter item, or the marker, has no whole number.
            NotSent: `timeout` ended; no item was put, nor will be.
            StoreError: the table could not be read or written; no item was put, nor will be, unless
                `outcome` is unknown.
        """
        if not callable(make):
            raise InvalidInput(f"make must be a function from a number to an item, got {make!r}")
        token = _token_of(checked_token(token), resume)
        with changing(timeout):
            if token is not None:
                return await self._put_once(make, token)
            if resume is not None:
                return await self._put(make, Numbered(resume.number), is_resumed=True)
            taken = await self._following()
            return await self._put(make, taken) if isinstance(taken, Numbered) else taken

    async def _following(self) -> Numbered | NotNumbered | Unknown:
        """Take the next number, from memory or from the table."""
        if self._block == 1:
            taken = await self._take()
            return Numbered(taken[0]) if isinstance(taken, range) else taken
        await unless_ended(self._refill.acquire())
        try:
            if not self._leased:
                taken = await self._take()
                if not isinstance(taken, range):
                    return taken
                self._leased = taken
            number, self._leased = self._leased[0], self._leased[1:]
            return Numbered(number)
        finally:
            self._refill.release()

    async def _remembered(
        self, marker: NumbersMarker, taken: Numbered
    ) -> Numbered | NotNumbered | Unknown:
        """Put the marker of a number; where there is one already, its number is the token's."""
        put = Put(self._marker_item(marker, taken), Absent())
        outcome = (await self._retrier.until_answered(lambda: self._store.write(put))).outcome
        match outcome:
            case Applied():
                return taken
            case Rejected(found=found):
                shown = found[0] or await self._shown(marker.key)
                return _vanished(marker.token) if shown is None else marker.met(shown)
            case Unknown(cause):
                return Unknown(cause, marker.token)

    async def _put_once(
        self, make: MakeItem, token: str
    ) -> Numbered | NotNumbered | MaybeNumbered | Unknown:
        """Put an item together with the marker of its token, unless there is one."""
        place = NumbersMarker(self._name, token, "number").key
        if (shown := await self._shown(place)) is not None:
            return self._met(make, token, shown)
        taken = await self._following()
        if not isinstance(taken, Numbered):
            return taken
        item = checked_item(make(taken.number))
        marker = NumbersMarker(self._name, token, "number", digest_of(item))
        puts = [Put(self._marker_item(marker, taken), Absent()), Put(item, Absent())]
        outcome = (await self._retrier.until_answered(lambda: self._store.transact(puts))).outcome
        match outcome:
            case Applied():
                return taken
            case Rejected(found=found) if 0 in found:
                shown = found[0] or await self._shown(place)
                return _vanished(token) if shown is None else self._met(make, token, shown)
            case Rejected():
                return _occupied(item, taken)
            case Unknown(cause):
                return MaybeNumbered(taken.number, token, cause, is_callers=True)

    def _met(self, make: MakeItem, token: str, shown: Item) -> Numbered | NotNumbered:
        """Return the meaning of a marker for the item of this call under the marker's number."""
        item = checked_item(make(given_by(shown).number))
        return NumbersMarker(self._name, token, "number", digest_of(item)).met(shown)

    async def _put(
        self, make: MakeItem, taken: Numbered, *, is_resumed: bool = False
    ) -> Numbered | NotNumbered | MaybeNumbered:
        """Put an item under a number that belongs only to this call."""
        item = checked_item(make(taken.number))
        put = Put(item, Absent())
        final = await self._retrier.until_answered(lambda: self._store.write(put))
        match final.outcome:
            case Applied():
                return taken
            case Rejected(found=found):
                shown = found[0] or await self._shown(put.key)
                is_ours = shown is not None and digest_of(shown) == digest_of(item)
                may_be_ours = is_resumed or final.doubt is not None
                return taken if may_be_ours and is_ours else _occupied(item, taken)
            case Unknown(cause):
                return MaybeNumbered(taken.number, "", cause)

    async def _shown(self, key: Key) -> Item | None:
        return await self._store.get(Get(key))

    def _marker_item(self, marker: NumbersMarker, taken: Numbered) -> Item:
        kept = self._kept_seconds
        expires = None if kept is None else self._clock.now() + timedelta(seconds=kept)
        return marker.item(taken, region=self._store.region, expires=expires)

    async def _take(self) -> range | NotNumbered | Unknown:
        """Take a block of numbers; an unanswered try is repeated, at the cost of a gap."""
        outcome = (
            await self._retrier.until_answered(lambda: self._store.write(self._update))
        ).outcome
        match outcome:
            case Applied():
                return _block_of(outcome, self._block)
            case Rejected():
                return _refused(outcome)
            case Unknown():
                return outcome


def _token_of(token: str | None, resume: MaybeNumbered | None) -> str | None:
    """Return the caller's token, given or in the call that is resumed."""
    if resume is None:
        return token
    if not isinstance(resume, MaybeNumbered):
        raise InvalidInput(f"resume must be a MaybeNumbered, got {resume!r}")
    known = resume.token if resume.is_callers else None
    if token is not None and token != known:
        raise InvalidInput(f"resume must be of a call with token {token!r}, got another")
    return known


def _vanished(token: str) -> Unknown:
    return Unknown("refused because of the token's marker, which then was not there", token)


def _occupied(item: Item, taken: Numbered) -> NotNumbered:
    place = f"{item['pk']['S']!r}, {item['sk']['S']!r}"
    return NotNumbered(
        "occupied", f"another item exists at {place}; number {taken.number} stays unused"
    )


def _taking(key: tuple[str, str], block: int) -> Update:
    """Return the write that takes a block; it is refused where DynamoDB would lose digits."""
    room = Compares("number", "<=", counter_limit(block))
    return Update(key, add={"number": {"N": str(block)}}, condition=AnyOf((Absent(), room)))


def _block_of(applied: Applied, block: int) -> range:
    if applied.item is None:
        raise TypeError("an update is answered with the new item")
    last = last_of(applied.item)
    return range(last - block + 1, last + 1)


def _refused(rejected: Rejected) -> NotNumbered:
    """Return the end of the sequence; a damaged number fails the comparison too, and raises."""
    if (found := rejected.found[0]) is not None:
        last_of(found)
    return NotNumbered("exhausted")
