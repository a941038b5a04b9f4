"""A sequence by a counter item: one `ADD`, whose answer is the caller's number.

::

    client 1   ADD 1 ──── 7 ── dies                        7 is a gap
    client 2        ADD 1 ──── 8 ── puts its item under 8
    client 3             ADD 1 ── no answer ── ADD 1 ── 10   9 may be a gap, and is never given

The `ADD`s of one item are applied one after another, so no number is given twice. An unanswered
one may have taken its number: it is repeated, which costs at worst the number.
"""

import random

import anyio

from ledger.core.errors import InvalidInput
from ledger.primitives.sequences.numbers import (
    COUNTER_SORT_KEY,
    NotNumbered,
    Numbered,
    counter_limit,
    last_of,
    partition_of,
)
from ledger.runtime.clock import Clock
from ledger.store.conditions import Absent, AnyOf, Compares
from ledger.store.port import Store
from ledger.store.retrier import BACKOFF, Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Applied, Rejected, Unknown, Update

BLOCK_MAX = 1_000_000


class CounterSequence:
    """One client's view of a sequence that begins at 1; any number of clients share it.

    With a `block` of n, n numbers are leased by one write and handed out from memory: numbers of
    one client grow, those of several interleave, and so they are not in the order of time. All
    clients must write in one region. Methods are for any task.

    Raises:
        InvalidCounter: the name breaks a rule of counter ids.
        InvalidInput: the block is not from 1 to a million.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        clock: Clock,
        randomness: random.Random,
        block: int = 1,
        backoff: Backoff = BACKOFF,
    ) -> None:
        if not (isinstance(block, int) and 1 <= block <= BLOCK_MAX):
            raise InvalidInput(
                f"block must be a whole number from 1 to {BLOCK_MAX:,}, got {block!r}"
            )
        self._store = store
        self._block = block
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=backoff)
        self._update = _taking((partition_of(name), COUNTER_SORT_KEY), block)
        self._leased = range(0)
        self._refill = anyio.Lock()

    async def next(self) -> Numbered | NotNumbered | Unknown:
        """Take the next number.

        `Unknown`: no try was answered; no number was handed out, some may be gaps. `NotNumbered`:
        fewer numbers are left than a block.

        Raises:
            DamagedItem: the counter item has no whole number.
            StoreError: the table could not be written.
        """
        if self._block == 1:
            taken = await self._take()
            return Numbered(taken[0]) if isinstance(taken, range) else taken
        async with self._refill:
            if not self._leased:
                taken = await self._take()
                if not isinstance(taken, range):
                    return taken
                self._leased = taken
            number, self._leased = self._leased[0], self._leased[1:]
            return Numbered(number)

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
