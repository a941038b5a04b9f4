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
    from then on       look at the old place ; put t at its own, if absent
"""

from collections.abc import Sequence
from contextlib import suppress

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.core.errors import AccessDenied
from ledger.primitives.counters.adding import addition
from ledger.primitives.counters.counter import (
    EXACT_LIMITS,
    SINGLE_ITEM_REGIONS,
    Counter,
    Guarantees,
)
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.limits import Part
from ledger.primitives.counters.marking import earlier_key, marker_item, marker_key
from ledger.primitives.counters.tokens import nonce
from ledger.store import writes
from ledger.store.conditions import Absent
from ledger.store.reads import Get, Query
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected

KEPT_SECONDS = 7 * 24 * 3600.0
EARLIER_KNOWN_SECONDS = 3600.0
"""How long a counter goes by having seen markers at the old place before it asks again."""


class MarkerCounter(ItemCounter):
    """A value changed by `ADD` in a transaction that puts the marker of the change's token.

    A marker carries the change and when and where it was made. It expires after `kept_seconds`
    where the table's time to live is on for `~expires`; elsewhere it stays. With `both_places`
    processes of an earlier release may write at the same time; see `marker_places` of the settings.
    """

    kind = "sum"
    known_in = "counter"
    splits = True
    kept_seconds = KEPT_SECONDS
    both_places = False
    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated under its marker, and counts once.",
        tokens="Recognized as long as its marker lives (TTL, a week by default), and"
        " distinguished from a threshold; another change under it is refused.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS + " So does a marker: each region then counts the token once.",
        cost="Four write units: two items in a transaction. Markers are stored until they expire;"
        " TTL deletes them free of charge in their own region. A token of the caller costs a read"
        " unit more for as long as markers of an earlier release are in the table.",
        write_units=4,
        read_units=0,
        value_units=1,
    )
    _earlier: bool | None = None
    """Whether markers lie at the old place; None if it is not known."""
    _known_at = 0.0

    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        is_ours = token is None
        token = token or nonce(self.randomness)
        markers = [self._marker(key, parts) for key in self._keys(token)]
        if not (is_ours or self.both_places):
            found = await self._found_earlier(token)
            if found is not None:
                return _met(found, markers[0], None)
        actions: list[writes.Action] = [writes.Put(marker, Absent()) for marker in markers]
        actions += [addition(self.key(part.shard), part) for part in parts]

        async def attempt() -> Outcome:
            return await self.store.transact(actions)

        final = await self.retrier.until_answered(attempt)
        met = await self._marker_met(final, token, markers)
        if met is not None:
            return met
        return await self.outcome(final, parts, token=token, first=len(markers))

    def marker_key(self, token: str) -> Key:
        """Return the key of a token's marker."""
        return marker_key(self.name, token)

    def _keys(self, token: str) -> list[Key]:
        """Return the keys under which a token's marker is put."""
        earlier = [earlier_key(self.name, token)] if self.both_places else []
        return [self.marker_key(token), *earlier]

    def _marker(self, key: Key, parts: Sequence[Part]) -> Item:
        return marker_item(
            key,
            change=amounts.total(part.change for part in parts),
            at=self.clock.now(),
            region=self.store.region,
            shards=[part.shard for part in parts],
            kept_seconds=self.kept_seconds,
        )

    async def _marker_met(
        self, final: FinalOutcome, token: str, ours: Sequence[Item]
    ) -> Outcome | None:
        """Return what a marker means that stopped the transaction; None if none did."""
        if not isinstance(final.outcome, Rejected):
            return None
        for place, key in enumerate(self._keys(token)):
            if place in final.outcome.found:
                # Not every engine returns the item that made the condition false.
                found = final.outcome.found[place] or await self.store.get(Get(key))
                return _met(found or ours[place], ours[place], final.doubt)
        return None

    async def _found_earlier(self, token: str) -> Item | None:
        """Return the marker of an earlier release, None if there is none."""
        now = self.clock.monotonic()
        if self._earlier is None or (
            self._earlier and now - self._known_at >= EARLIER_KNOWN_SECONDS
        ):
            self._earlier, self._known_at = await self._any_earlier(), now
        return await self.store.get(Get(earlier_key(self.name, token))) if self._earlier else None

    async def _any_earlier(self) -> bool:
        """Return whether the old place has any marker, or may have."""
        place = earlier_key(self.name, "")[0]
        with suppress(AccessDenied):  # a policy of an earlier release has no Query here
            return bool((await self.store.query(Query(place, limit=1))).items)
        return True


def write_both_places(counter: Counter) -> None:
    """Let a counter put each marker in both places, if its method has markers; see the module."""
    if isinstance(counter, MarkerCounter):
        counter.both_places = True


def _met(found: Item, ours: Item, doubt: str | None) -> Outcome:
    """Return what a marker that exists means: our own attempt, an earlier call, another change."""
    theirs, wanted = number_of(found, "change"), number_of(ours, "change")
    if theirs != wanted:
        return Rejected(
            "token conflict",
            f"the token stands for {amounts.to_text(theirs)}, not {amounts.to_text(wanted)}",
        )
    return Rejected("applied before") if doubt is None else Applied()
