"""Shared by the methods that keep a counter in items, one per shard: keys, parts, outcomes.

Write sharding: a counter in several items, so that more can be written to it per second.

Each change goes to a random shard; the value is the sum of all. DynamoDB takes some 1,000 write
units per second at one item, and a write at a time at one item in transactions: shards multiply
that. `items` does it; here is what it promises.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from random import Random
from typing import ClassVar, Literal

from ledger.core import amounts, keys
from ledger.core.entry import Item, Key
from ledger.core.errors import RequestRefused
from ledger.primitives.counters.addition import outcome_of, plan_addition
from ledger.primitives.counters.counter import Guarantees
from ledger.primitives.counters.layout import LayoutMoved, revision_of, shard_key, value_of
from ledger.primitives.counters.thresholds import ThresholdPart, Thresholds, checked_limits
from ledger.runtime.clock import Clock
from ledger.runtime.services import Services
from ledger.store import writes
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import FinalOutcome, Outcome, Rejected

TRIES_MAX = 5
KnownIn = Literal["nowhere", "item", "counter"]


class ShardItems(ABC):
    """The items of a counter, and how its method changes one or several of them.

    `kind` is their sort key. `known_in` is where a repeated token is recognized: nowhere, in the
    shard's item, or in the whole counter. With `splits` one change can be divided over several
    shards, all or none.
    """

    guarantees: Guarantees
    backoff: ClassVar[Backoff] = Backoff(tries_max=TRIES_MAX)
    kind: ClassVar[str]
    known_in: ClassVar[KnownIn] = "nowhere"
    splits: ClassVar[bool] = False

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
    ) -> None:
        self.name: str = keys.checked_new_counter(name)
        self.limits: Thresholds = checked_limits(minimum, maximum)
        self.store = store
        self.randomness: Random = services.randomness
        self.clock: Clock = services.clock
        self.retrier: Retrier = Retrier.of(
            store, clock=self.clock, randomness=self.randomness, backoff=self.backoff
        )

    async def add_parts(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        """Make one change of one or, if the method `splits`, several shards: all or none.

        `LayoutMoved` is raised if the items belong to another layout than the parts.
        """
        try:
            return await self._add(parts, token)
        except RequestRefused:
            await self._check_overflow(parts)
            raise

    async def value_of(self, shard: int, *, consistent: bool = True) -> Decimal:
        """Return the value of one shard."""
        return self.value_in(await self.item(shard, consistent=consistent))

    async def item(self, shard: int, *, consistent: bool = True) -> Item | None:
        """Read the item of one shard."""
        return await self.store.get(Get(self.key(shard), consistent=consistent))

    def key(self, shard: int) -> Key:
        """Return the key of a shard's item: each has its own partition."""
        return shard_key(self.name, shard, self.kind)

    def value_in(self, item: Item | None) -> Decimal:
        """Return the value that an item shows; a counter never changed is not there and is 0."""
        return value_of(item)

    async def knows(self, shard: int, token: str) -> bool:
        """Return whether a shard's item shows that this token was applied."""
        del shard, token
        return False

    async def outcome(
        self,
        final: FinalOutcome,
        parts: Sequence[ThresholdPart],
        *,
        token: str | None = None,
        first: int = 0,
    ) -> Outcome:
        """Read how a change by `ADD` ended; the parts are the actions from `first` on.

        `LayoutMoved` is raised if a part was refused since its item belongs to another layout.
        """
        if isinstance(final.outcome, Rejected):
            for place, found in final.outcome.found.items():
                await self._check_layout(parts[place - first], found, final.doubt)
        return outcome_of(final, parts, token=token)

    async def _check_layout(
        self, part: ThresholdPart, found: Item | None, doubt: str | None
    ) -> None:
        if found is None and doubt is None:  # not every engine returns the item
            found = await self.item(part.shard)
        elif found is None:
            return
        if revision_of(found) != part.revision:
            # Refused for good, as no request of this layout can be applied any more. A method that
            # knows its own tries was shown by the same answer that none was applied before.
            raise LayoutMoved(doubt if self.known_in == "nowhere" else None)

    async def corrections(self, parts: Sequence[ThresholdPart]) -> list[writes.Action]:
        """Return the writes that make the parts of a change, to be sent with others, all or none.

        `LayoutMoved` is raised if the items are others by now.
        """
        return [plan_addition(self.key(part.shard), part) for part in parts]

    @abstractmethod
    async def _add(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        """Make the change, as the method does."""

    async def _check_overflow(self, parts: Sequence[ThresholdPart]) -> None:
        """Raise AmountOverflow if the refused request would have overflowed the value."""
        for part in parts:
            amounts.total([await self.value_of(part.shard), part.change])


_PARTS = (
    "The sum never passes them: each shard holds its part. So a change may be rejected although the"
    " sum would allow it, while others move between shards. One without room in its shard goes to"
    " another"
)
_SPLIT = (
    ", or is split over several, all or none, by a transaction; pieces are moved between shards"
    " where that pays."
)
_WHOLE = " that has room for all of it; this method does not split."
_OWN_SHARD = {
    "sum": " A token has its own shard, to which pieces are moved where it has no room."
    " Repeated after the number of shards changed, within the ten minutes, it is a conflict.",
    "slots": " A token has its own shard: without room there, its change is rejected.",
}
_TAGGED = (
    " A token has its own shard, to which pieces are moved where it has no room; after the"
    " number of shards changed, it is looked for where it was by the four numbers before. A change"
    " of method forgets it."
)


def sharded_guarantees(of: type[ShardItems], shards: int) -> Guarantees:
    """Return the guarantees of a method with this number of items."""
    promised = of.guarantees
    own = _OWN_SHARD.get(of.kind, _TAGGED) if of.known_in == "item" else ""
    return replace(
        promised,
        thresholds=_PARTS + (_SPLIT if of.splits else _WHOLE),
        tokens=promised.tokens + own,
        cost=promised.cost
        + " A value costs a read unit per shard."
        + (
            " A large change that adds to stock is a transaction over all shards."
            if of.splits
            else ""
        ),
        value_units=shards * promised.value_units,
    )
