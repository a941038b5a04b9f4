"""The counter changed in a transaction with a marker item: the table itself knows repeats.

::

    transaction = { put marker, if absent ; ADD to the value, if the threshold allows }

    rejected at the marker    this token's change was applied before
    rejected at the value     the threshold
    no answer                 the same again: whatever became of it, it counts once
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from ledger.core import amounts
from ledger.core.entry import Item, Key, number_of
from ledger.core.keys import COUNT_PREFIX, EXPIRES
from ledger.primitives.counters.adding import addition, outcome_of
from ledger.primitives.counters.counter import EXACT_LIMITS, SINGLE_ITEM_REGIONS, Guarantees
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.limits import Part
from ledger.primitives.counters.tokens import nonce
from ledger.store import writes
from ledger.store.conditions import Absent
from ledger.store.reads import Get
from ledger.store.writes import Applied, FinalOutcome, Outcome, Rejected

MARKER_PREFIX = f"{COUNT_PREFIX}-marker~"
KEPT_SECONDS = 7 * 24 * 3600.0


class MarkerCounter(ItemCounter):
    """A value changed by `ADD` in a transaction that puts the marker of the change's token.

    A marker carries the change and when and where it was made. It expires after `kept_seconds`
    where the table's time to live is on for `~expires`; elsewhere it stays.
    """

    kind = "sum"
    known_in = "counter"
    splits = True
    kept_seconds = KEPT_SECONDS
    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated under its marker, and counts once.",
        tokens="Recognized as long as its marker lives (TTL, a week by default), and"
        " distinguished from a threshold; another change under it is refused.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS + " So does a marker: each region then counts the token once.",
        cost="Four write units: two items in a transaction. Markers are stored until they expire;"
        " TTL deletes them free of charge in their own region.",
        write_units=4,
        read_units=0,
        value_units=1,
    )

    async def _add(self, parts: Sequence[Part], token: str | None) -> Outcome:
        token = token or nonce(self.randomness)
        marker = self._marker(parts, token, self.clock.now())
        actions: list[writes.Action] = [writes.Put(marker, Absent())]
        actions += [addition(self.key(part.shard), part) for part in parts]

        async def attempt() -> Outcome:
            return await self.store.transact(actions)

        final = await self.retrier.until_answered(attempt)
        if isinstance(final.outcome, Rejected) and 0 in final.outcome.found:
            # Not every engine returns the item that made the condition false.
            found = final.outcome.found[0] or await self.store.get(Get(self.marker_key(token)))
            return _met(found or marker, marker, final)
        return outcome_of(final, parts, token=token)

    def marker_key(self, token: str) -> Key:
        """Return the key of a token's marker."""
        return f"{MARKER_PREFIX}{self.name}", token

    def _marker(self, parts: Sequence[Part], token: str, now: datetime) -> Item:
        """Return the marker of a change: what it was, when, in which region, at which shards."""
        partition, sort_key = self.marker_key(token)
        expires = now + timedelta(seconds=self.kept_seconds)
        change = amounts.total(part.change for part in parts)
        return {
            "pk": {"S": partition},
            "sk": {"S": sort_key},
            "change": {"N": amounts.to_text(change)},
            "at": {"S": now.isoformat()},
            "region": {"S": self.store.region},
            "shards": {"L": [{"N": str(part.shard)} for part in parts]},
            EXPIRES: {"N": str(int(expires.timestamp()))},
        }


def _met(found: Item, ours: Item, final: FinalOutcome) -> Outcome:
    """Return what a marker that exists means: our own attempt, an earlier call, another change."""
    theirs, wanted = number_of(found, "change"), number_of(ours, "change")
    if theirs != wanted:
        return Rejected(
            "token conflict", f"the token stands for {_text(theirs)}, not {_text(wanted)}"
        )
    return Rejected("applied before") if final.doubt is None else Applied()


def _text(amount: Decimal) -> str:
    return amounts.to_text(amount)
