"""The set of slots: an item holds the tokens of the members, each once.

The value is the number of slots taken. A change of k takes k slots for its token, one of -k gives
the k back that the token took; how the item holds them is in `slot_item`.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from ledger.core import amounts
from ledger.core.capacity import item_size
from ledger.core.entry import ITEM_BYTES_MAX, Item
from ledger.core.errors import InvalidAmount, InvalidEntry, InvalidInput, RequestRefused
from ledger.primitives.counters.counter import (
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
    ReconcileOutcome,
)
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.layout import LAYOUT, LayoutMoved, both, revision_of, stands
from ledger.primitives.counters.new_tokens import nonce
from ledger.primitives.counters.slot_item import (
    COUNTED,
    ONE,
    SLOTS,
    SlotSet,
    bytes_of,
    giving_back,
    taking,
)
from ledger.primitives.counters.thresholds import ThresholdPart
from ledger.runtime.services import Services
from ledger.store import writes
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected, Unknown

__all__ = ["SLOTS", "SlotsCounter"]

LOOKS_MAX = 8
"""Times that a change looks at the set again because its form, or its members, changed."""


class SlotsCounter(ItemCounter):
    """How many slots of `maximum` the tokens in a set hold.

    Raises:
        InvalidInput: a minimum other than 0, below which no set can go anyway.
    """

    kind = "slots"
    known_in = "item"
    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated; a token is in the set once.",
        tokens="Recognized for as long as it holds its slots, that is without end; another number"
        " of slots under it is refused.",
        thresholds="maximum holds exactly, by the number of slots taken; minimum is always 0.",
        regions=SINGLE_ITEM_REGIONS,
        cost="A write unit per KB of all tokens held: 400 KB, DynamoDB's limit of an item, is the"
        " most, and 400 units a change. Giving back reads the item first; so does taking several,"
        " until the counter knows that the set is counted." + FIRST_USE,
        write_units=1,
        read_units=0,
        value_units=1,
        changes="+k takes k slots for the token; -k gives the k back that the token took",
    )

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
    ) -> None:
        super().__init__(
            store,
            name,
            services=services,
            minimum=minimum,
            maximum=maximum,
            shards=shards,
        )
        if self.limits.minimum:
            raise InvalidInput(
                f"counter {name!r}: minimum of a set of slots must be 0, got {minimum}"
            )
        self._counted: set[int] = set()
        """Shards whose sets are known to be counted."""

    async def reconcile(
        self,
        *,
        counted: int | Decimal,
        at: datetime | None = None,
        value: int | Decimal | None = None,
        reason: str | None = None,
        token: str | None = None,
        timeout: float | None = None,
    ) -> ReconcileOutcome:
        """Refuse: a set is what its tokens hold, so each is given back, or taken, by its name."""
        del counted, at, value, reason, token, timeout
        raise InvalidInput(
            f"counter {self.name!r}: a set of slots is corrected token by token: give back what"
            " holds none, take the missing slots"
        )

    def value_in(self, item: Item | None) -> Decimal:
        """Return how many slots are taken."""
        return SlotSet.of(item).filled

    async def _add(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        (part,) = parts
        if not part.change or not amounts.is_whole(part.change):
            raise InvalidAmount(
                "change of slots must be a whole number: k to take k, -k to give k back, got"
                f" {part.change}"
            )
        if part.change > 0:
            return await self._take(part, token or nonce(self.randomness))
        if token is None:
            raise InvalidEntry("token is needed to give slots back: the one that took them")
        return await self._give_back(part, token)

    async def _take(self, part: ThresholdPart, token: str) -> Outcome:
        if not SlotSet().has_room(part.change, part.limits.maximum):
            return Rejected("threshold", str(part.limits))
        return await self._take_until_known(part, token, await self._first_look(part))

    async def _take_until_known(self, part: ThresholdPart, token: str, seen: SlotSet) -> Outcome:
        """Take slots in a set of the form seen, again as long as it turns out to be another."""
        doubt: str | None = None
        for _ in range(LOOKS_MAX):
            counts = not seen.is_counted and part.change != ONE
            has_room = seen.has_room(part.change, part.limits.maximum)
            if counts and (seen.held(token) or not has_room):
                return _refused(part, token, seen, doubt)
            final = await self._sent(part, token, seen)
            match final.outcome:
                case Applied(item):
                    return Applied(value=self._noted(part, item).filled)
                case Unknown(cause):
                    return Unknown(cause, token)
                case Rejected("size"):
                    return final.outcome
            doubt = final.doubt or doubt
            found = self._known(part, await self._found(part, final.outcome), doubt)
            is_same = found.is_counted == seen.is_counted and not counts
            if is_same or found.held(token):
                return _refused(part, token, found, doubt)
            if found.is_counted:
                doubt = (
                    None  # a counted set is never plain again: requests for a plain one are void
                )
            seen = found
        return Unknown(doubt, token) if doubt else Rejected("contention", _KEPT_CHANGING)

    async def _first_look(self, part: ThresholdPart) -> SlotSet:
        """Return what is known of the set; if it is to become counted, what it shows."""
        if part.shard in self._counted:
            return COUNTED
        return SlotSet() if part.change == ONE else await self._look(part)

    async def _look(self, part: ThresholdPart) -> SlotSet:
        return self._known(part, await self.store.get(Get(self.key(part.shard))), None)

    def _known(self, part: ThresholdPart, item: Item | None, doubt: str | None) -> SlotSet:
        """Return the set that an item shows; it must belong to the layout known."""
        if revision_of(item) != part.revision:
            raise LayoutMoved(doubt)
        return self._noted(part, item)

    def _noted(self, part: ThresholdPart, item: Item | None) -> SlotSet:
        found = SlotSet.of(item)
        (self._counted.add if found.is_counted else self._counted.discard)(part.shard)
        return found

    async def _sent(self, part: ThresholdPart, token: str, seen: SlotSet) -> FinalOutcome:
        """Send the update that takes the slots; a set without room for the token is a rejection."""
        key, maximum = self.key(part.shard), part.limits.maximum
        update = taking(key, token, part.change, maximum=maximum, seen=seen)
        try:
            return await self._written(part, update)
        except RequestRefused:
            rejected = await self._without_room(part, token)
            if rejected is None:
                raise
            return FinalOutcome(rejected)

    async def _give_back(self, part: ThresholdPart, token: str) -> Outcome:
        # Without this read, a repeat could not distinguish slots given back from some never held.
        doubt: str | None = None
        seen = await self._look(part)
        for _ in range(LOOKS_MAX):
            held = seen.held(token)
            if not held:
                return Rejected("no such slot") if doubt is None else Applied()
            if held != part.change.copy_negate():
                return _conflict(token, held, part.change.copy_negate(), doubt)
            final = await self._written(part, giving_back(self.key(part.shard), token, seen))
            match final.outcome:
                case Applied(item):
                    return Applied(value=self._noted(part, item).filled)
                case Unknown(cause):
                    return Unknown(cause, token)
            doubt = final.doubt or doubt
            found = self._known(part, await self._found(part, final.outcome), doubt)
            if found.is_counted and not seen.is_counted and found.held(token):
                doubt = None
            seen = found
        return Unknown(doubt, token) if doubt else Rejected("contention", _KEPT_CHANGING)

    async def _written(self, part: ThresholdPart, update: writes.Update) -> FinalOutcome:
        """Send an update of a set that belongs to the layout known."""
        known = replace(update, condition=both(stands(LAYOUT, part.revision), update.condition))
        return await self.retrier.until_answered(lambda: self.store.write(known))

    async def _found(self, part: ThresholdPart, rejected: Rejected) -> Item | None:
        # Not every engine returns the item that made the condition false.
        return rejected.found[0] or await self.store.get(Get(self.key(part.shard)))

    async def _without_room(self, part: ThresholdPart, token: str) -> Rejected | None:
        """Return the rejection if the request was over DynamoDB's item size; None if it was not."""
        item = await self.store.get(Get(self.key(part.shard)))
        size = item_size(item or {}) + bytes_of(token, part.change)
        if size <= ITEM_BYTES_MAX:
            return None
        found = SlotSet.of(item)
        return Rejected(
            "size",
            f"{found.filled} slots are taken by {found.tokens} tokens, and with this one the item"
            f" would have {size:,} bytes: DynamoDB's items hold up to {ITEM_BYTES_MAX:,} (400 KB);"
            " use shorter tokens, or shards",
        )


_KEPT_CHANGING = "others changed the set each time"


def _refused(part: ThresholdPart, token: str, found: SlotSet, doubt: str | None) -> Outcome:
    """Return why no slots were taken: the token holds some, or too few are free."""
    held = found.held(token)
    if held and held != part.change:
        return _conflict(token, held, part.change, doubt)
    if doubt is None:
        return Rejected("applied before") if held else Rejected("threshold", str(part.limits))
    if held:
        return Applied()
    return Unknown(f"{doubt}; there is no room now, but it may still land", token)


def _conflict(token: str, held: Decimal, wanted: Decimal, doubt: str | None) -> Outcome:
    """Return the outcome if the token holds another number of slots."""
    if doubt is None:
        return Rejected("token conflict", f"the token holds {held} slots, not {wanted}")
    return Unknown(f"{doubt}; the token holds {held} slots now, not {wanted}", token)
