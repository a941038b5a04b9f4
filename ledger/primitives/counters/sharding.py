"""Write sharding: a counter in several items, so that more can be written to it per second.

Each change goes to a random shard; the value is the sum of all. DynamoDB takes some 1,000 write
units per second at one item, and a write at a time at one item in transactions: shards multiply
that. How many there are is kept in the table, and only ever grows: a reader asks each time.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.core.errors import InvalidInput, Unreachable
from ledger.core.keys import COUNT_PREFIX
from ledger.primitives.counters.counter import Guarantees
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.limits import Limits, Part
from ledger.primitives.counters.splitting import parts_for
from ledger.primitives.counters.tokens import draw
from ledger.primitives.tokens import checked_token
from ledger.runtime.tasks import run_all
from ledger.store import writes
from ledger.store.conditions import Absent, Compares
from ledger.store.reads import Get
from ledger.store.writes import Applied, Outcome, Rejected, Unknown

SHARDS_MAX = 1000
SHARDS_AT_ONCE = 16
PLANS_MAX = 5
"""Times that a change without room in its first shard looks for room in others."""


@dataclass(frozen=True, slots=True)
class Shards:
    """How many shards there are, and how many there were at first.

    The parts of thresholds, and the shards of tokens, are those of the first ones for good: more
    shards loosen no threshold and move no token.
    """

    count: int
    first: int


_PARTS = (
    "The sum never passes them: each shard holds its part. So a change may be rejected although the"
    " sum would allow it, while others move between shards. One without room in its shard goes to"
    " another"
)
_SPLIT = ", or is split over several, all or none, by a transaction."
_WHOLE = " that has room for all of it; this method does not split."
_OWN_SHARD = " A token has a shard of its own: without room there, its change is rejected."


def sharded_guarantees(of: type[ItemCounter] | ItemCounter, shards: int) -> Guarantees:
    """Return what a method promises when its items are so many."""
    promised = of.guarantees
    return replace(
        promised,
        thresholds=_PARTS + (_SPLIT if of.splits else _WHOLE),
        tokens=promised.tokens + (_OWN_SHARD if of.known_in == "item" else ""),
        cost=promised.cost + " A value costs a read unit per shard and one for their number.",
        value_units=shards * promised.value_units + 1,
    )


class ShardedCounter:
    """A counter in `shards` items or more, if more are in the table already.

    `items` says how each is changed; its thresholds are those of the whole. A counter that is made
    with more shards than there are adds them, while others go on writing; they are never taken
    away, which would hide what they hold. A threshold's parts stay where they are: an added shard
    has a part of 0, so with a `minimum` of 0 it is as good as any, while room under a `maximum`
    stays with the first ones.

    Raises:
        InvalidInput: `shards` is not 1 to 1,000.
    """

    def __init__(self, items: ItemCounter, *, shards: int) -> None:
        self.name = items.name
        self.guarantees = sharded_guarantees(items, checked_shards(shards))
        self._items = items
        self._wanted = shards
        self._known: Shards | None = None

    async def add(self, change: int | Decimal, *, token: str | None = None) -> Outcome:
        """Change the value by way of one shard, or several; see `Counter.add`."""
        outcome = await self._add(change, token)
        # The value of a shard is not the counter's.
        return Applied() if isinstance(outcome, Applied) else outcome

    async def _add(self, change: int | Decimal, token: str | None) -> Outcome:
        amount, token = amounts.exact(change), checked_token(token)
        shards = await self._shards()
        if token is not None and self._items.known_in == "item":
            shard = draw(token, shards.first)
            return await self._items.add_parts([self._part(shard, amount, shards)], token)
        first = self._items.randomness.randrange(shards.count)
        outcome = await self._items.add_parts([self._part(first, amount, shards)], token)
        if isinstance(outcome, Rejected) and outcome.reason == "threshold":
            outcome = await self._elsewhere(amount, token, shards, first)
        if isinstance(outcome, Unknown) and self._items.known_in == "item":
            return Unknown(outcome.cause)  # the token generated for it belongs to another shard
        return outcome

    async def value(self, *, consistent: bool = True) -> Decimal:
        """Return the sum of all shards, each read at a moment of its own; see `Counter.value`."""
        shards = await self._read(consistent=consistent)
        if shards is None:
            return Decimal(0)
        return amounts.total(await self._values(shards, consistent=consistent))

    @property
    def items(self) -> ItemCounter:
        """The counter of one item, by which each shard is changed."""
        return self._items

    async def shards(self) -> int:
        """Return how many shards there are."""
        return (await self._shards()).count

    async def _elsewhere(
        self, change: Decimal, token: str | None, shards: Shards, first: int
    ) -> Outcome:
        """Look for room in all shards, until it is found, used up, or others are always first."""
        limits = [self._limits(shard, shards) for shard in range(shards.count)]
        for _ in range(PLANS_MAX):
            values = await self._values(shards, consistent=True)
            parts = parts_for(change, values, limits, first=first, split=self._items.splits)
            if not parts:
                return Rejected("threshold", str(self._items.limits))
            outcome = await self._items.add_parts(parts, token)
            if not (isinstance(outcome, Rejected) and outcome.reason == "threshold"):
                return outcome
        return Rejected("contention", "other writers used the free room each time")

    def _part(self, shard: int, change: Decimal, shards: Shards) -> Part:
        return Part(shard, change, self._limits(shard, shards))

    def _limits(self, shard: int, shards: Shards) -> Limits:
        return self._items.limits.part(shard, shards.first)

    async def _values(self, shards: Shards, *, consistent: bool) -> Sequence[Decimal]:
        reads = [
            partial(self._items.value_of, shard, consistent=consistent)
            for shard in range(shards.count)
        ]
        return await run_all(reads, at_once=SHARDS_AT_ONCE)

    async def _shards(self) -> Shards:
        """Return how many there are, from memory if known: to write, an old number is enough."""
        if self._known is None:
            self._known = await self._read(consistent=True) or await self._begin()
            if self._known.count < self._wanted:
                await self._grow_to(self._wanted)
        return self._known

    async def _begin(self) -> Shards:
        """Store the first number of shards, unless another process did; return what is stored."""
        item = {**_key_attributes(self._key), **_attributes(Shards(self._wanted, self._wanted))}
        return await self._write(writes.Put(item, Absent()), at_least=1)

    async def _grow_to(self, shards: int) -> None:
        count = {"N": str(shards)}
        update = writes.Update(
            self._key, set={"shards": count}, condition=Compares("shards", "<", count)
        )
        self._known = await self._write(update, at_least=shards)

    async def _write(self, write: writes.Put | writes.Update, *, at_least: int) -> Shards:
        """Write until the table shows it; repeats and other writers are harmless."""
        tries = self._items.retrier.begin("write")
        while True:
            await self._items.store.write(write)
            found = await self._read(consistent=True)
            if found is not None and found.count >= at_least:
                tries.succeeded()
                return found
            if not await tries.again("unanswered"):
                raise Unreachable(f"counter {self.name!r}: no answer when its shards were written")

    async def _read(self, *, consistent: bool) -> Shards | None:
        item = await self._items.store.get(Get(self._key, consistent=consistent))
        return None if item is None else _shards_of(item)

    @property
    def _key(self) -> Key:
        return f"{COUNT_PREFIX}~shards~{self.name}", self._items.kind


def _attributes(shards: Shards) -> Item:
    return {"shards": {"N": str(shards.count)}, "first": {"N": str(shards.first)}}


def _shards_of(item: Item) -> Shards:
    return Shards(int(number_of(item, "shards")), int(number_of(item, "first")))


def _key_attributes(key: Key) -> Item:
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}}


def checked_shards(shards: int) -> int:
    """Return a number of shards.

    Raises:
        InvalidInput: it is not a whole number from 1 to 1,000.
    """
    whole = isinstance(shards, int) and not isinstance(shards, bool)
    if not (whole and 1 <= shards <= SHARDS_MAX):
        raise InvalidInput(
            f"shards must be a whole number from 1 to {SHARDS_MAX:,}, got {shards!r}"
        )
    return shards
