"""The counter changed in a transaction with a client request token: DynamoDB detects repeats.

Source: Amazon DynamoDB API Reference, TransactWriteItems: "a client token is valid for 10 minutes
after the first request that uses it is completed"; the same token with another content is refused.
"""

from collections.abc import Sequence
from datetime import timedelta

from ledger.core.errors import TokenReused
from ledger.core.tokens import request_token
from ledger.primitives.counters.adding import addition, outcome_of
from ledger.primitives.counters.counter import (
    EXACT_LIMITS,
    SINGLE_ITEM_REGIONS,
    AddOutcome,
    Guarantees,
    Rejected,
)
from ledger.primitives.counters.items import ItemCounter
from ledger.primitives.counters.limits import Part
from ledger.primitives.counters.tokens import nonce
from ledger.store.writes import TOKEN_SECONDS, Outcome

REQUEST_LIFE_SECONDS = 300.0
"""How long after it was signed a request may still arrive."""
REPEAT_SECONDS_MAX = TOKEN_SECONDS - REQUEST_LIFE_SECONDS


class ClientTokenCounter(ItemCounter):
    """A value changed by `ADD` in a transaction that carries the change's token.

    No repeat is signed so late that DynamoDB could have forgotten the token when it arrives.
    """

    kind = "sum"
    known_in = "item"
    splits = True
    guarantees = Guarantees(
        unknown="Exact: a try without an answer is repeated under its token, and counts once.",
        tokens="Recognized for ten minutes, in one region; then it counts again. Another change"
        " under it is refused.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS + " A token is known only where it was used.",
        cost="Twice the write units: a transaction.",
        write_units=2,
        read_units=0,
        value_units=1,
    )

    async def _add(self, parts: Sequence[Part], token: str | None) -> AddOutcome:
        token = token or nonce(self.randomness)
        request = request_token(self.name, token)
        latest = self.clock.now() + timedelta(seconds=REPEAT_SECONDS_MAX)
        actions = [addition(self.key(part.shard), part, not_after=latest) for part in parts]

        async def attempt() -> Outcome:
            return await self.store.transact(actions, token=request)

        try:
            final = await self.retrier.until_answered(attempt)
        except TokenReused as error:
            return Rejected("token conflict", str(error))
        return outcome_of(final, parts, token=token)
