"""The atomic counter: `ADD`; nothing distinguishes two attempts of one change."""

from collections.abc import Sequence

from ledger.primitives.counters.addition import plan_addition
from ledger.primitives.counters.counter import (
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.thresholds import ThresholdPart
from ledger.store.retry import Backoff
from ledger.store.writes import Outcome

_ONCE = Backoff(tries_max=1)
_TOKENS = "Ignored: nothing about a change is stored, so the same token counts again."
_COST = "The lowest: one write of a small item." + FIRST_USE


class AtomicCounter(ItemCounter):
    """A value changed by `ADD`; an unanswered attempt is repeated, so it may count twice.

    The other policy is `AtomicOnceCounter`.
    """

    kind = "sum"
    splits = True
    guarantees = Guarantees(
        unknown="May count too often: a try without an answer is repeated, whatever became of it.",
        tokens=_TOKENS,
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost=_COST,
        write_units=1,
        read_units=0,
        value_units=1,
    )

    async def _add(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        del token  # it is not stored, so it could not be recognized
        actions = [plan_addition(self.key(part.shard), part) for part in parts]

        async def attempt() -> Outcome:
            if len(actions) == 1:
                return await self.store.write(actions[0])
            return await self.store.transact(actions)

        final = await self.retrier.until_answered(attempt)
        return await self.outcome(final, parts)


class AtomicOnceCounter(AtomicCounter):
    """A value changed by `ADD`, each change tried once: one that was not applied is missing."""

    backoff = _ONCE
    guarantees = Guarantees(
        unknown="May count too seldom: a try without an answer is not repeated, and is Unknown.",
        tokens=_TOKENS,
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS,
        cost=_COST,
        write_units=1,
        read_units=0,
        value_units=1,
    )
