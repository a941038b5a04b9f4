"""The counter changed in a transaction with a marker item: the table itself knows repeats.

::

    transaction = { put marker, if absent ; ADD to the value, if the threshold allows }

    rejected at the marker    this token's change was applied before
    rejected at the value     the threshold
    no answer                 the same again: whatever became of it, it counts once

Markers of earlier releases lie in another place (`marking`). A caller's token is looked up there
as long as anything is there at all, which one Query a counter and hour finds out; a token made here
cannot be there. That is exact once no process of an earlier release writes. Beside them
`both_places` puts each marker in both places: they recognize ours, and we theirs::

    earlier release    put t at the old place, if absent
    both_places        put t at the old place and its own, if absent at both
    afterwards         look at the old place ; put t at its own, if absent

Markers may lie in a table of their own, since a transaction spans tables of one region. The place
before is then the one in the counter's table, and the same three steps lead from it, and back.
"""

from collections.abc import Sequence
from copy import copy
from decimal import Decimal
from functools import cached_property
from random import Random
from types import MappingProxyType
from typing import Self

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.core.marker import Details, Marker
from ledger.primitives.counters.adding import addition
from ledger.primitives.counters.counter import (
    AFTER_UNKNOWN,
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.earlier_markers import EarlierMarkers
from ledger.primitives.counters.handed import doubt_of, is_doubtful
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.layout import Layout
from ledger.primitives.counters.limits import Part
from ledger.primitives.counters.marker_places import (
    MarkerPlaces,
    Place,
    checked_places,
    checked_table,
)
from ledger.primitives.counters.marking import (
    Attributes,
    checked_details,
    details_in,
    earlier_key,
    marker_item,
    marker_key,
    marker_of,
    same_details,
)
from ledger.primitives.counters.tokens import nonce
from ledger.primitives.tokens import checked_kept
from ledger.runtime.calls import reading
from ledger.runtime.clock import Clock
from ledger.store import writes
from ledger.store.port import Store
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected
from ledger.writing.plan import checked_key

KEPT_SECONDS = 7 * 24 * 3600.0


class MarkerCounter(ItemCounter):
    """A value changed by `ADD` in a transaction that puts the marker of the change's token.

    A marker carries the change and when and where it was made. It expires after `kept_seconds`
    (a week; None for good) where the table's time to live is on for `~expires`; elsewhere it stays.
    `marker_table` names a table of the same region in which markers lie, by default the counter's.
    With `marker_places="both"` processes of an earlier release, or without `marker_table`, may
    write at the same time; with "only" no marker is looked for at any place before; see the
    settings of these names.

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
        " TTL deletes them free of charge in their own region. A token of the caller costs a read"
        " unit more for as long as markers of an earlier release are in the table." + FIRST_USE,
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
        clock: Clock,
        randomness: Random,
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
        kept_seconds: float | None = KEPT_SECONDS,
        marker_table: str | None = None,
        marker_places: MarkerPlaces = "own",
    ) -> None:
        super().__init__(
            store,
            name,
            clock=clock,
            randomness=randomness,
            minimum=minimum,
            maximum=maximum,
            shards=shards,
        )
        self.kept_seconds = checked_kept(kept_seconds)
        self.marker_table = checked_table(marker_table)
        self.marker_places = checked_places(marker_places)

    @cached_property
    def earlier(self) -> EarlierMarkers:
        """The markers that earlier releases left."""
        return EarlierMarkers(self.store, self.name, clock=self.clock)

    def keeping(self, details: Details) -> Self:
        """Return the same counter, whose changes are kept with these details."""
        _ = self.earlier  # known in common
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
        found = await self.store.get(self._places(token)[0].get)
        return found or await self._found_before(token, is_put=False)

    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        is_ours = token is None
        token = token or nonce(self.randomness)
        places = self._places(token)
        markers = [self._marker(place.key, parts) for place in places]
        if not is_ours:
            found = await self._found_before(token, is_put=True)
            if found is not None:
                return _met(found, markers[0], None)
        actions: list[writes.Action] = [
            place.put(marker) for place, marker in zip(places, markers, strict=True)
        ]
        actions += [addition(self.key(part.shard), part) for part in parts]

        async def attempt() -> Outcome:
            return await self.store.transact(actions)

        final = await self.retrier.until_answered(attempt)
        met = await self._marker_met(final, token, markers)
        if met is not None:
            return met
        return await self.outcome(final, parts, token=token, first=len(markers))

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

    def _places(self, token: str) -> list[Place]:
        """Return the places at which a token's marker is put, its own first."""
        own = Place(self.marker_key(token), self.marker_table)
        return [own, self._place_before(token)] if self.marker_places == "both" else [own]

    def _place_before(self, token: str) -> Place:
        """Return where processes that use both places look for a marker."""
        if self.marker_table:
            return Place(self.marker_key(token))
        return Place(earlier_key(self.name, token))

    async def _found_before(self, token: str, *, is_put: bool) -> Item | None:
        """Return a token's marker at places before; if it `is_put`, at those where it is not."""
        if self.marker_places == "only":
            return None
        are_both_put = is_put and self.marker_places == "both"
        if not self.marker_table:
            return None if are_both_put else await self.earlier.found(token)
        if not are_both_put:
            found = await self.store.get(self._place_before(token).get)
            if found is not None:
                return found
        return await self.earlier.found(token)

    def _marker(self, key: Key, parts: Sequence[Part]) -> Item:
        return marker_item(
            key,
            change=amounts.total(part.change for part in parts),
            at=self.clock.now(),
            region=self.store.region,
            shards=[part.shard for part in parts],
            kept_seconds=self.kept_seconds,
            details=self.details,
        )

    async def _marker_met(
        self, final: FinalOutcome, token: str, ours: Sequence[Item]
    ) -> Outcome | None:
        """Return the meaning of a marker that stopped the transaction; None if none did."""
        if not isinstance(final.outcome, Rejected):
            return None
        for number, place in enumerate(self._places(token)):
            if number in final.outcome.found:
                # Not every engine returns the item that made the condition false.
                found = final.outcome.found[number] or await self.store.get(place.get)
                return _met(found or ours[number], ours[number], final.doubt)
        return None


def _met(found: Item, ours: Item, doubt: str | None) -> Outcome:
    """Return the meaning of an existing marker: our attempt, an earlier call, another change."""
    first, wanted = marker_of(found), number_of(ours, "change")
    if first.change != wanted:
        stands = f"the token stands for {amounts.to_text(first.change)}"
        return Rejected("token conflict", f"{stands}, not {amounts.to_text(wanted)}", first=first)
    if not same_details(details_in(found), details_in(ours)):
        return Rejected("token conflict", "the token stands for other details", first=first)
    return Rejected("applied before", first=first) if doubt is None else Applied()
