"""Shared by the methods that keep a counter in items, one per shard: keys, parts, outcomes."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar, Literal

from ledger.core import amounts, keys
from ledger.core.entry import Item, Key
from ledger.core.errors import RequestRefused
from ledger.primitives.counters.adding import addition, outcome_of
from ledger.primitives.counters.counter import Guarantees
from ledger.primitives.counters.layout import LayoutMoved, revision_of, shard_key, value_of
from ledger.primitives.counters.limits import Limits, Part, checked_limits
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
        self.limits: Limits = checked_limits(minimum, maximum)
        self.store = store
        self.randomness = services.randomness
        self.clock = services.clock
        self.retrier: Retrier = Retrier.of(
            store, clock=self.clock, randomness=self.randomness, backoff=self.backoff
        )

    async def add_parts(self, parts: Sequence[Part], token: str | None) -> Outcome:
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
        parts: Sequence[Part],
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

    async def _check_layout(self, part: Part, found: Item | None, doubt: str | None) -> None:
        if found is None and doubt is None:  # not every engine returns the item
            found = await self.item(part.shard)
        elif found is None:
            return
        if revision_of(found) != part.revision:
            # Refused for good, as no request of this layout can be applied any more. A method that
            # knows its own tries was shown by the same answer that none was applied before.
            raise LayoutMoved(doubt if self.known_in == "nowhere" else None)

    async def corrections(self, parts: Sequence[Part]) -> list[writes.Action]:
        """Return the writes that make the parts of a change, to be sent with others, all or none.

        `LayoutMoved` is raised if the items are others by now.
        """
        return [addition(self.key(part.shard), part) for part in parts]

    @abstractmethod
    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        """Make the change, as the method does."""

    async def _check_overflow(self, parts: Sequence[Part]) -> None:
        """Raise AmountOverflow if the refused request would have overflowed the value."""
        for part in parts:
            amounts.total([await self.value_of(part.shard), part.change])
