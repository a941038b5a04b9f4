"""What counters of one item per shard share: keys, checks, reading, and the parts of a change."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import ClassVar, Literal

from ledger.core import amounts, keys
from ledger.core.entry import Item, Key, number_of
from ledger.core.errors import RequestRefused
from ledger.primitives.counters.counter import Guarantees
from ledger.primitives.counters.limits import VALUE, Part, checked_limits
from ledger.primitives.tokens import checked_token
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Outcome

TRIES_MAX = 5
KnownIn = Literal["nowhere", "item", "counter"]


class ItemCounter(ABC):
    """A counter in one item, or in one per shard: `sharding` chooses the shards.

    `kind` is its items' sort key. `known_in` is where a repeated token is recognized: nowhere,
    in the shard's item, or in the whole counter. With `splits` one change can be divided over
    several shards, all or none.
    """

    guarantees: ClassVar[Guarantees]
    backoff: ClassVar[Backoff] = Backoff(tries_max=TRIES_MAX)
    kind: ClassVar[str]
    known_in: ClassVar[KnownIn] = "nowhere"
    splits: ClassVar[bool] = False

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        clock: Clock,
        randomness: Random,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
    ) -> None:
        self.name = keys.checked_counter(name)
        self.limits = checked_limits(minimum, maximum)
        self.store = store
        self.randomness = randomness
        self.clock = clock
        self.retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=self.backoff)

    async def add(self, change: int | Decimal, *, token: str | None = None) -> Outcome:
        """Change the value; see `Counter.add`."""
        part = Part(0, amounts.exact(change), self.limits)
        return await self.add_parts([part], checked_token(token))

    async def value(self, *, consistent: bool = True) -> Decimal:
        """Return the value in this region; see `Counter.value`."""
        return await self.value_of(0, consistent=consistent)

    async def add_parts(self, parts: Sequence[Part], token: str | None) -> Outcome:
        """Make one change of one or, where the method `splits`, several shards: all or none."""
        try:
            return await self._add(parts, token)
        except RequestRefused:
            await self._check_overflow(parts)
            raise

    async def value_of(self, shard: int, *, consistent: bool = True) -> Decimal:
        """Return the value of one shard."""
        return self.value_in(await self.store.get(Get(self.key(shard), consistent=consistent)))

    def key(self, shard: int) -> Key:
        """Return the key of a shard's item: each has a partition of its own."""
        return f"{keys.COUNT_PREFIX}~{shard}~{self.name}", self.kind

    def value_in(self, item: Item | None) -> Decimal:
        """Return the value that an item shows; a counter never changed is not there and is 0."""
        return number_of(item, VALUE) if item is not None and VALUE in item else Decimal(0)

    @abstractmethod
    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        """Make the change, as the method does."""

    async def _check_overflow(self, parts: Sequence[Part]) -> None:
        """Raise AmountOverflow if the refused request would have overflowed the value."""
        for part in parts:
            amounts.total([await self.value_of(part.shard), part.change])
