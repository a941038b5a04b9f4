"""A sequence by sort keys: the items themselves, each under the number after the highest.

::

    client 1   highest? 6 ──── put 7 if absent: applied
    client 2   highest? 6 ───────── put 7 if absent: 7 is taken ── query: put 8   (or add one: 8)
    client 3   highest? 7 ── put 8 if absent: no answer ── read 8: is it from this call?

A number is put only after the one below it was seen or refused as taken, and items stay, so there
are no gaps whatever crashes. An unanswered put is never given up for another number while it may
still land: its own number is read and offered again until it is taken. A caller's token is put as a
marker in one transaction with the items, so at most one of all transactions with it is applied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from ledger.core.amounts import check_bool
from ledger.core.entry import AttributeValue, Item, Key, key_of
from ledger.core.errors import InvalidInput, StoreError
from ledger.primitives.sequences.call_queue import Queue, QueueTurn
from ledger.primitives.sequences.contents import (
    check_sizes,
    checked_content,
    checked_contents,
    digest_of,
)
from ledger.primitives.sequences.numbers import (
    FIRST_SORT_KEY,
    LAST_SORT_KEY,
    NUMBER_MAX,
    MaybeNumbered,
    NotNumbered,
    Numbered,
    content_of,
    fate_of,
    number_of_key,
    partition_of,
    sort_key_of,
)
from ledger.primitives.sequences.offers import AfterRace, NumbersMarker, Offer
from ledger.primitives.tokens import checked_token
from ledger.runtime.call_deadlines import changing, reading
from ledger.runtime.services import Services
from ledger.store.port import Store
from ledger.store.reads import Get, Query
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Outcome, Put, Rejected, Unknown

BACKOFF = Backoff(longest_seconds=1.0, tries_max=64)
ADDED_MAX = 4
"""How often one is added without a read; a client that is behind would stay behind."""
_NONCE_BITS = 128

Appended = Numbered | NotNumbered | MaybeNumbered


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """Options of a client that appends.

    `after_race` is how a client continues when its number was taken: `query` reads the highest
    again, `add_one` offers the next number unseen, up to `added_max` times, and then goes on by
    query. An eventually consistent query costs half and may lose more races; it never makes a gap.
    Calls of one process go one after another where they share a `queue`, as those of one `Table`
    do.
    """

    after_race: AfterRace = "query"
    added_max: int = ADDED_MAX
    consistent: bool = True
    queue: Queue | None = None
    backoff: Backoff = BACKOFF


_USUAL = AppendOptions()


class SortKeySequence:
    """The numbered items of one project, beginning at 1; any number of clients append to them.

    Items must not be deleted: the number of a deleted last item is given again. All clients
    must write in one region. Methods are for any task.

    Raises:
        InvalidCounter: the project's name breaks a rule of counter ids.
        InvalidInput: there is no such `after_race`, `added_max` is not from 1 to 64, or
            `consistent` no bool.
    """

    def __init__(
        self,
        store: Store,
        project: str,
        *,
        services: Services,
        options: AppendOptions = _USUAL,
    ) -> None:
        self._store = store
        self._project = project
        self._partition = partition_of(project)
        self._random = services.randomness
        self._retrier = Retrier.of(
            store,
            clock=services.clock,
            randomness=services.randomness,
            backoff=options.backoff,
        )
        after_race, added_max = options.after_race, options.added_max
        if after_race not in get_args(AfterRace):
            known = ", ".join(get_args(AfterRace))
            raise InvalidInput(f"after_race must be one of {known}, got {after_race!r}")
        if type(added_max) is not int or not 1 <= added_max <= BACKOFF.tries_max:
            raise InvalidInput(
                f"added_max must be a whole number from 1 to {BACKOFF.tries_max}, got {added_max!r}"
            )
        self._after_race = after_race
        self._added_max = added_max
        self._consistent = check_bool("consistent", options.consistent)
        self._queue = Queue() if options.queue is None else options.queue

    async def append(
        self,
        content: Mapping[str, AttributeValue],
        *,
        token: str | None = None,
        resume: MaybeNumbered | None = None,
        timeout: float | None = None,
    ) -> Appended:
        """Put this content under the next number.

        A `token` names the call for as long as the table stands: the same token with the same
        content returns the number that it was given, from any process; with other content it is a
        `token conflict`. `resume` continues a call that ended in `MaybeNumbered`; its content
        must be the same. With `timeout` the call ends after that many seconds: as `MaybeNumbered`,
        or `NotSent`.

        Raises:
            InvalidInput: the content names an attribute of ours, has none of DynamoDB's forms, or
                is over 400 KB; or `resume` is of another call.
            InvalidEntry: the token is not a str of 1 to 1,024 bytes of UTF-8.
            DamagedItem: something else is between the numbered items, or is the marker.
            NotSent: `timeout` ended; nothing was written, nor will be.
            StoreError: the table could not be read or written; nothing was written, nor will be.
        """
        with changing(timeout):
            return await self._appended((checked_content(content),), token, resume)

    async def append_many(
        self,
        contents: Sequence[Mapping[str, AttributeValue]],
        *,
        token: str | None = None,
        resume: MaybeNumbered | None = None,
        timeout: float | None = None,
    ) -> Appended:
        """Put these contents, 1 to 99, under consecutive numbers in their order, all or none.

        They are one transaction, which costs twice the units of single puts. `token`, `resume` and
        `timeout` are as for `append`, for all of them together.

        Raises:
            InvalidInput: as `append`; or not 1 to 99 contents, or over 4 MB together.
            InvalidEntry, DamagedItem, NotSent, StoreError: as `append`.
        """
        with changing(timeout):
            return await self._appended(checked_contents(contents), token, resume)

    async def highest(self, *, timeout: float | None = None) -> int:
        """Return the highest number that the table shows, 0 for none.

        Raises:
            DamagedItem: something else is between the numbered items.
            ReadTooSlow: `timeout` seconds ended.
            StoreError: the table could not be read.
        """
        with reading(timeout):
            return await self._highest()

    async def _highest(self) -> int:
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

    async def read(self, number: int, *, timeout: float | None = None) -> Item | None:
        """Return the content under a number, strongly consistent, None for no item.

        Raises:
            InvalidInput: the number is out of range.
            ReadTooSlow: `timeout` seconds ended.
            StoreError: the table could not be read.
        """
        with reading(timeout):
            item = await self._store.get(Get(self._key(number)))
        return None if item is None else content_of(item)

    async def _appended(
        self,
        contents: tuple[Mapping[str, AttributeValue], ...],
        token: str | None,
        resume: MaybeNumbered | None,
    ) -> Appended:
        offer = self._offer(contents, checked_token(token), resume)
        check_sizes(offer.items(self._partition, NUMBER_MAX - offer.count + 1))
        async with self._queue.turn() as turn:
            return await self._settled(offer, turn)

    def _offer(
        self,
        contents: tuple[Mapping[str, AttributeValue], ...],
        token: str | None,
        resume: MaybeNumbered | None,
    ) -> Offer:
        """Return the next offer; with a caller's token the marker says how to continue."""
        nonce = f"{self._random.getrandbits(_NONCE_BITS):0{_NONCE_BITS // 4}x}"
        if resume is not None:
            _check_resume(resume, len(contents), token)
            if not resume.is_callers:
                return Offer(contents, resume.token, first=resume.number, open=resume)
            token = resume.token
        if token is None:
            return Offer(contents, nonce)
        return Offer(
            contents, nonce, NumbersMarker(self._project, token, "item", digest_of(*contents))
        )

    async def _settled(self, offer: Offer, turn: QueueTurn) -> Appended:
        """Offer contents until it is known what became of them, within the bounds."""
        unanswered = self._retrier.begin("append")
        for tries in range(1, self._retrier.backoff.tries_max + 1):
            first = offer.first if offer.first is not None else await self._following()
            if first + offer.count - 1 > NUMBER_MAX:
                return await self._at_the_end(offer)
            answer = await self._offered(offer, first)
            if not isinstance(answer, Offer):
                return answer
            offer = answer
            if offer.open is not None:
                turn.leave()
                if not await unanswered.again("unanswered"):
                    break
            elif offer.first is None:  # a client that adds one would fall further behind by waiting
                await self._retrier.pause(tries)
        return offer.open or NotNumbered("contention")

    async def _following(self) -> int:
        """Return the number to be offered: the one below it is in the table."""
        if (guess := self._queue.guess()) is not None:
            return guess
        return self._queue.above(await self._highest())

    async def _at_the_end(self, offer: Offer) -> Numbered | NotNumbered:
        """Return the answer to a call that finds no numbers left: a repeat is still recognized."""
        if offer.marker is not None:
            shown = await self._store.get(Get(offer.marker.key))
            if shown is not None:
                return offer.marker.met(shown)
        return NotNumbered("exhausted")

    async def _offered(self, offer: Offer, first: int) -> Numbered | NotNumbered | Offer:
        """Offer contents from a number on, once; returns how to continue if the outcome is open."""
        try:
            outcome = await self._send(
                offer.puts(self._partition, first, region=self._store.region)
            )
            match outcome:
                case Applied():
                    self._queue.has_put(first, offer.count)
                    return Numbered(first, offer.count)
                case Rejected(found=found):
                    return await self._refused(offer, first, found)
                case Unknown(cause):
                    offer = offer.unanswered(first, cause)
                    return self._judged(offer, first, await self._shown(self._key(first)))
        except StoreError as error:
            if offer.open is None:
                raise
            return offer.unanswered(first, str(error))

    async def _send(self, puts: Sequence[Put]) -> Outcome:
        if len(puts) == 1:
            return await self._store.write(puts[0])
        return await self._store.transact(puts)

    async def _refused(
        self, offer: Offer, first: int, found: Mapping[int, Item | None]
    ) -> Numbered | NotNumbered | Offer:
        """Judge puts that were refused; not every engine returns the items that made them so."""
        shown = None
        if 0 in found:
            shown = found[0] or await self._shown(self._key(first))
            if fate_of(shown, offer.nonce) == "ours":
                return Numbered(first, offer.count)
        if offer.marker is not None and offer.count in found:
            marker = found[offer.count] or await self._shown(offer.marker.key)
            if marker is not None:
                return offer.marker.met(marker)
        if found.keys() - {0, offer.count}:  # a number behind the first is another's
            return offer.taken(first, after_race=self._after_race, added_max=self._added_max)
        return self._judged(offer, first, shown)

    def _judged(self, offer: Offer, first: int, shown: Item | None) -> Numbered | Offer:
        """Judge an offer by the item under its first number."""
        match fate_of(shown, offer.nonce):
            case "ours":
                return Numbered(first, offer.count)
            case "taken":
                return offer.taken(first, after_race=self._after_race, added_max=self._added_max)
            case "open":
                cause = "refused, but nothing is there" if offer.open is None else offer.open.cause
                return offer.unanswered(first, cause)

    async def _shown(self, key: Key) -> Item | None:
        return await self._store.get(Get(key))

    def _key(self, number: int) -> Key:
        return self._partition, sort_key_of(number)


def _check_resume(resume: MaybeNumbered, count: int, token: str | None) -> None:
    """Raise unless this is the `MaybeNumbered` of a call with as many contents and this token."""
    if not isinstance(resume, MaybeNumbered):
        raise InvalidInput(f"resume must be a MaybeNumbered, got {resume!r}")
    if resume.count != count:
        raise InvalidInput(
            f"resume must have the same contents: {resume.count} of them, got {count}"
        )
    if token is not None and (not resume.is_callers or resume.token != token):
        raise InvalidInput(f"resume must be of a call with token {token!r}, got another")
