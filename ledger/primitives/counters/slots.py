"""The set of slots: an item holds the tokens of the members, each once.

The value is the size of the set. A change is +1, which takes a slot for its token, or -1, which
gives the token's slot back.
"""

from collections.abc import Sequence
from decimal import Decimal
from random import Random

from ledger.core.capacity import item_size
from ledger.core.entry import ITEM_BYTES_MAX, Item
from ledger.core.errors import InvalidAmount, InvalidEntry, InvalidInput, RequestRefused
from ledger.primitives.counters.counter import SINGLE_ITEM_REGIONS, Guarantees
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.limits import Part
from ledger.primitives.counters.tokens import nonce
from ledger.runtime.clock import Clock
from ledger.store import writes
from ledger.store.conditions import AllOf, AnyOf, Condition, Contains, Has, Not, Shorter
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected, Unknown

SLOTS = "slots"


class SlotsCounter(ItemCounter):
    """How many tokens are in a set that holds up to `maximum`.

    Raises:
        InvalidInput: a minimum other than 0, below which no set can go anyway.
    """

    kind = "slots"
    known_in = "item"
    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated; a token is in the set once.",
        tokens="Recognized for as long as it holds its slot, that is without end.",
        thresholds="maximum holds exactly, by the size of the set; minimum is always 0.",
        regions=SINGLE_ITEM_REGIONS,
        cost="A write unit per KB of all tokens held: 400 KB, DynamoDB's limit of an item, is the"
        " most, and 400 units a change. Giving back reads the item first.",
        write_units=1,
        read_units=0,
        value_units=1,
        changes="+1 takes a slot for the token; -1 gives the token's slot back",
    )

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
        super().__init__(
            store, name, clock=clock, randomness=randomness, minimum=minimum, maximum=maximum
        )
        if self.limits.minimum:
            raise InvalidInput(
                f"counter {name!r}: minimum of a set of slots must be 0, got {minimum}"
            )

    def value_in(self, item: Item | None) -> Decimal:
        """Return the size of the set."""
        return Decimal(len(_tokens(item)))

    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        (part,) = parts
        if part.change == 1:
            return await self._take(part, token or nonce(self.randomness))
        if part.change != -1:
            raise InvalidAmount(
                f"change of slots must be 1 (take one) or -1 (give one back), got {part.change}"
            )
        if token is None:
            raise InvalidEntry("token is needed to give a slot back: the one that took it")
        return await self._give_back(part, token)

    async def _take(self, part: Part, token: str) -> Outcome:
        maximum = part.limits.maximum
        if maximum is not None and maximum < 1:
            return Rejected("threshold", str(part.limits))
        try:
            final = await self._written(_taking(self.key(part.shard), token, maximum))
        except RequestRefused:
            outcome = await self._without_room(part, token)
            if outcome is None:
                raise
            return outcome
        match final.outcome:
            case Applied(item):
                return Applied(value=self.value_in(item))
            case Unknown(cause):
                return Unknown(cause, token)
        held = token in _tokens(await self._found(part, final.outcome))
        return self._refused(part, token, held=held, doubt=final.doubt)

    @staticmethod
    def _refused(part: Part, token: str, *, held: bool, doubt: str | None) -> Outcome:
        """Return why no slot was taken: the token holds one, or none is free."""
        if doubt is None:
            return Rejected("applied before") if held else Rejected("threshold", str(part.limits))
        if held:
            return Applied()
        return Unknown(f"{doubt}; all slots are taken now, but it may land later", token)

    async def _give_back(self, part: Part, token: str) -> Outcome:
        # Without this read, a repeat could not distinguish a slot given back from one never held.
        if token not in _tokens(await self.store.get(Get(self.key(part.shard)))):
            return Rejected("no such slot")
        slot = {"S": token}
        update = writes.Update(
            self.key(part.shard),
            discard={SLOTS: {"SS": [token]}},
            condition=Contains(SLOTS, slot),
        )
        final = await self._written(update)
        match final.outcome:
            case Applied(item):
                return Applied(value=self.value_in(item))
            case Unknown(cause):
                return Unknown(cause, token)
        return Rejected("no such slot") if final.doubt is None else Applied()

    async def _written(self, update: writes.Update) -> FinalOutcome:
        return await self.retrier.until_answered(lambda: self.store.write(update))

    async def _found(self, part: Part, rejected: Rejected) -> Item | None:
        # Not every engine returns the item that made the condition false.
        return rejected.found[0] or await self.store.get(Get(self.key(part.shard)))

    async def _without_room(self, part: Part, token: str) -> Rejected | None:
        """Return the rejection if the request was over DynamoDB's item size; None if it was not."""
        item = await self.store.get(Get(self.key(part.shard)))
        size = item_size(item or {}) + len(token.encode())
        if size <= ITEM_BYTES_MAX:
            return None
        return Rejected(
            "size",
            f"{len(_tokens(item))} slots are taken, and with this token the item would have"
            f" {size:,} bytes: DynamoDB's items hold up to {ITEM_BYTES_MAX:,} (400 KB); use shorter"
            " tokens, or shards",
        )


def _taking(key: tuple[str, str], token: str, maximum: Decimal | None) -> writes.Update:
    """Return the update that takes a slot if one is free and the token holds none yet."""
    condition: Condition = Not(Contains(SLOTS, {"S": token}))
    if maximum is not None:
        free = AnyOf((Not(Has(SLOTS)), Shorter(SLOTS, int(maximum))))
        condition = AllOf((free, condition))
    return writes.Update(key, add={SLOTS: {"SS": [token]}}, condition=condition)


def _tokens(item: Item | None) -> Sequence[str]:
    found: Sequence[str] = (item or {}).get(SLOTS, {}).get("SS", ())
    return found
