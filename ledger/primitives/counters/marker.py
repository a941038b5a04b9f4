"""The counter changed in a transaction with a marker item: the table itself knows repeats.

::

    transaction = { put marker, if absent ; ADD to the value, if the threshold allows }

    rejected at the marker    this token's change was applied before
    rejected at the value     the threshold
    no answer                 the same again: whatever became of it, it counts once

Markers may lie in a table of their own, since a transaction spans tables of one region.
"""

from collections.abc import Sequence
from copy import copy
from decimal import Decimal
from types import MappingProxyType
from typing import Self

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.core.tokens import Details, Marker
from ledger.primitives.counters.addition import plan_addition
from ledger.primitives.counters.counter import (
    AFTER_UNKNOWN,
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.hand_over_tokens import doubt_of, is_doubtful
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.layout import Layout
from ledger.primitives.counters.marker_items import (
    Attributes,
    checked_details,
    checked_table,
    details_in,
    marker_item,
    marker_key,
    marker_of,
    same_details,
)
from ledger.primitives.counters.new_tokens import nonce
from ledger.primitives.counters.thresholds import ThresholdPart
from ledger.primitives.tokens import checked_kept
from ledger.runtime.call_deadlines import reading
from ledger.runtime.services import Services
from ledger.store import writes
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected
from ledger.writes.entry_plan import checked_key

KEPT_SECONDS = 7 * 24 * 3600.0


class MarkerCounter(ItemCounter):
    """A value changed by `ADD` in a transaction that puts the marker of the change's token.

    A marker carries the change and when and where it was made. It expires after `kept_seconds`
    (a week; None for good) where the table's time to live is on for `~expires`; elsewhere it stays.
    `marker_table` names a table of the same region in which markers lie, by default the counter's.

    Raises:
        InvalidInput: `kept_seconds` is not over 0 and up to a century, or another option is
            invalid.
    """

    kind = "sum"
    known_in = "counter"
    splits = True
    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated under its marker, and counts once."
        + AFTER_UNKNOWN,
        tokens="Recognized as long as its marker lives (TTL, a week by default), and"
        " distinguished from a threshold: a repeat returns what was first made, with its details."
        " Another change, or other details, under it are refused. A rejection by"
        " the threshold leaves the token free, also for an earlier try that is still on its way.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS + " So does a marker: each region then counts the token once.",
        cost="Four write units: two items in a transaction. Markers are stored until they expire;"
        " TTL deletes them free of charge in their own region." + FIRST_USE,
        write_units=4,
        read_units=0,
        value_units=1,
    )
    details: Attributes = MappingProxyType({})

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        services: Services,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
        kept_seconds: float | None = KEPT_SECONDS,
        marker_table: str | None = None,
    ) -> None:
        super().__init__(
            store,
            name,
            services=services,
            minimum=minimum,
            maximum=maximum,
            shards=shards,
        )
        self.kept_seconds = checked_kept(kept_seconds)
        self.marker_table = checked_table(marker_table)

    def keeping(self, details: Details) -> Self:
        """Return the same counter, whose changes are kept with these details."""
        other = copy(self)
        other.details = checked_details(details)
        return other

    async def lookup(self, token: str, *, timeout: float | None = None) -> Marker | None:
        """Return what was made under a token; see `Counter.lookup`."""
        token = checked_key(token, what="token")
        with reading(timeout):
            found = await self._found(token)
            if found is not None:
                return marker_of(found)
            layout = await self._layout.shown()
        if layout is not None and is_doubtful(layout, token, self.clock.now()):
            raise doubt_of(self.name, layout, token)
        return None

    async def _found(self, token: str) -> Item | None:
        return await self.store.get(Get(self.marker_key(token), table=self.marker_table))

    async def _add(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        token = token or nonce(self.randomness)
        marker = self._marker(token, parts)
        additions = [plan_addition(self.key(part.shard), part) for part in parts]
        actions = [self._put(marker), *additions]

        async def attempt() -> Outcome:
            return await self.store.transact(actions)

        final = await self.retrier.until_answered(attempt)
        met = await self._marker_met(final, token, marker)
        if met is not None:
            return met
        return await self.outcome(final, parts, token=token, first=1)

    def _may_be_late(self, layout: Layout) -> bool:
        """Return True: each marker is an item of its own."""
        del layout
        return True

    async def _is_known(self, layout: Layout, token: str) -> bool:
        """Return whether the token has a marker here."""
        del layout
        return await self._found(token) is not None

    def marker_key(self, token: str) -> Key:
        """Return the key of a token's marker."""
        return marker_key(self.name, token)

    def _put(self, marker: Item) -> writes.Action:
        put = writes.Put(marker, Absent())
        return writes.InTable(self.marker_table, put) if self.marker_table else put

    def _marker(self, token: str, parts: Sequence[ThresholdPart]) -> Item:
        return marker_item(
            self.marker_key(token),
            change=amounts.total(part.change for part in parts),
            at=self.clock.now(),
            region=self.store.region,
            shards=[part.shard for part in parts],
            kept_seconds=self.kept_seconds,
            details=self.details,
        )

    async def _marker_met(self, final: FinalOutcome, token: str, ours: Item) -> Outcome | None:
        """Return the meaning of a marker that stopped the transaction; None if none did."""
        if not isinstance(final.outcome, Rejected) or 0 not in final.outcome.found:
            return None
        # Not every engine returns the item that made the condition false.
        found = final.outcome.found[0] or await self._found(token)
        return _met(found or ours, ours, final.doubt)


def _met(found: Item, ours: Item, doubt: str | None) -> Outcome:
    """Return the meaning of an existing marker: our attempt, an earlier call, another change."""
    first, wanted = marker_of(found), number_of(ours, "change")
    if first.change != wanted:
        stands = f"the token stands for {amounts.to_text(first.change)}"
        return Rejected("token conflict", f"{stands}, not {amounts.to_text(wanted)}", first=first)
    if not same_details(details_in(found), details_in(ours)):
        return Rejected("token conflict", "the token stands for other details", first=first)
    return Rejected("applied before", first=first) if doubt is None else Applied()
