"""A sequence by sort keys: the items themselves, each under the number after the highest.

::

    client 1   highest? 6 ──── put 7 if absent: applied
    client 2   highest? 6 ───────── put 7 if absent: 7 is taken ── query: put 8   (or add one: 8)
    client 3   highest? 7 ── put 8 if absent: no answer ── read 8: is our token in it?

A number is put only after the one below it was seen or refused as taken, and items stay, so there
are no gaps whatever crashes. An unanswered put is never given up for another number while it may
still land: its own number is read and offered again until it is taken.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ledger.core.entry import AttributeValue, Item, key_of
from ledger.core.errors import InvalidInput, StoreError
from ledger.primitives.sequences.numbers import (
    FIRST_SORT_KEY,
    LAST_SORT_KEY,
    NUMBER_MAX,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    checked_content,
    content_of,
    fate_of,
    number_of_key,
    numbered_item,
    partition_of,
    sort_key_of,
)
from ledger.runtime.clock import Clock
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Put, Rejected

AfterRace = Literal["query", "add_one"]
BACKOFF = Backoff(longest_seconds=1.0, tries_max=64)
ADDED_MAX = 4
"""How often in a row one is added without a read; a client that is behind would stay behind."""
_TOKEN_BITS = 128


@dataclass(frozen=True, slots=True)
class _Offer:
    """One content on its way to a number.

    `open` is the number that may still become its; `added` how often one was added in a row.
    """

    content: Mapping[str, AttributeValue]
    token: str
    number: int | None = None
    open: MaybeNumbered | None = None
    added: int = 0


class SortKeySequence:
    """The numbered items of one project, beginning at 1; any number of clients append to them.

    `after_race` is how a client goes on when its number was taken: `query` reads the highest
    again, `add_one` offers the next number unseen, up to four times in a row. An eventually
    consistent query costs half and may lose more races; it never makes a gap. Items must not be
    deleted: the number of a deleted last item is given again. All clients must write in one
    region. Methods are for any task.

    Raises:
        InvalidCounter: the project's name breaks a rule of counter ids.
        InvalidInput: there is no such `after_race`.
    """

    def __init__(
        self,
        store: Store,
        project: str,
        *,
        clock: Clock,
        randomness: random.Random,
        after_race: AfterRace = "query",
        consistent: bool = True,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._store = store
        self._partition = partition_of(project)
        self._random = randomness
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=backoff)
        if after_race not in get_args(AfterRace):
            known = ", ".join(get_args(AfterRace))
            raise InvalidInput(f"after_race must be one of {known}, got {after_race!r}")
        self._after_race = after_race
        self._consistent = consistent

    async def append(
        self, content: Mapping[str, AttributeValue], *, resume: MaybeNumbered | None = None
    ) -> Numbered | NotNumbered | MaybeNumbered:
        """Put this content under the next number.

        `resume` goes on with a call that ended in `MaybeNumbered`; its content must be the same.

        Raises:
            InvalidInput: the content names an attribute of ours, or is over 400 KB.
            DamagedItem: something else lies between the numbered items.
            StoreError: the table could not be read or written; nothing was written, nor will be.
        """
        offer = _Offer(checked_content(content), self._new_token())
        if resume is not None:
            offer = _Offer(offer.content, resume.token, resume.number, resume)
        unanswered = self._retrier.begin("append")
        for tries in range(1, self._retrier.backoff.tries_max + 1):
            number = offer.number if offer.number is not None else await self.highest() + 1
            if number > NUMBER_MAX:
                return NotNumbered("exhausted")
            answer = await self._offered(offer, number)
            if isinstance(answer, Numbered):
                return answer
            offer = answer
            if offer.open is not None:
                if not await unanswered.again("unanswered"):
                    break
            elif not offer.added:  # a client that adds one would fall behind for good by waiting
                await self._retrier.pause(tries)
        return offer.open or NotNumbered("contention")

    async def highest(self) -> int:
        """Return the highest number that the table shows, 0 for none.

        Raises:
            DamagedItem: something else lies between the numbered items.
            StoreError: the table could not be read.
        """
        page = await self._store.query(
            Query(
                self._partition,
                consistent=self._consistent,
                first=FIRST_SORT_KEY,
                last=LAST_SORT_KEY,
                attributes=("pk", "sk"),
                limit=1,
                descending=True,
            )
        )
        return number_of_key(key_of(page.items[0])) if page.items else 0

    async def read(self, number: int) -> Item | None:
        """Return the content under a number, strongly consistent, None for no item.

        Raises:
            InvalidInput: the number is out of range.
            StoreError: the table could not be read.
        """
        item = await self._store.get(Get((self._partition, sort_key_of(number))))
        return None if item is None else content_of(item)

    async def _offered(self, offer: _Offer, number: int) -> Numbered | _Offer:
        """Offer a content under a number once; returns how to go on if it is not known to be."""
        item = numbered_item(self._partition, number, offer.content, token=offer.token)
        try:
            outcome = await self._store.write(Put(item, Absent()))
        except StoreError as error:
            if offer.open is None:
                raise
            return self._still_open(offer, number, str(error))
        match outcome:
            case Applied():
                return Numbered(number)
            case Rejected(found=found):
                return self._judged(offer, number, found[0], "refused, but nothing is there")
            case _:
                return await self._looked_up(offer, number, outcome.cause)

    async def _looked_up(self, offer: _Offer, number: int, cause: str) -> Numbered | _Offer:
        """Read whose the number is, after a put without an answer."""
        try:
            shown = await self._store.get(Get((self._partition, sort_key_of(number))))
        except StoreError as error:
            return self._still_open(offer, number, f"{cause}; then {error}")
        return self._judged(offer, number, shown, cause)

    def _judged(
        self, offer: _Offer, number: int, shown: Item | None, cause: str
    ) -> Numbered | _Offer:
        match fate_of(shown, offer.token):
            case "ours":
                return Numbered(number)
            case "open":
                return self._still_open(offer, number, cause)
            case "taken":  # nothing of ours can land there any more
                if self._after_race == "query" or offer.added == ADDED_MAX:
                    return _Offer(offer.content, offer.token)
                return _Offer(offer.content, offer.token, number + 1, added=offer.added + 1)

    def _still_open(self, offer: _Offer, number: int, cause: str) -> _Offer:
        """Stay with this number: what was sent for it may yet land."""
        open_one = MaybeNumbered(number, offer.token, cause)
        return _Offer(offer.content, offer.token, number, open_one)  # it waits before it goes on

    def _new_token(self) -> str:
        return f"{self._random.getrandbits(_TOKEN_BITS):0{_TOKEN_BITS // 4}x}"
