"""The counter changed in a transaction with a client request token: DynamoDB detects repeats.

Source: Amazon DynamoDB API Reference, TransactWriteItems: "a client token is valid for 10 minutes
after the first request that uses it is completed"; the same token with another content is refused.

A signature outlives a token: a request may arrive 15 minutes after it was signed
(`AWS_SIGNATURE_SECONDS`), when DynamoDB has forgotten for up to five minutes what it was::

    try 1   signed ── lost ──────────────────────────────────────── arrives: counts again
    try 2      signed ── applied ── 10 minutes: token known ── forgotten

No bound on repeats rules that out; the method `marker` does. What a bound can do is done: tries are
signed soon after the first, so only one that is held up for most of ten minutes can count again.
"""

from collections.abc import Sequence
from datetime import timedelta

from ledger.core.errors import TokenReused
from ledger.core.tokens import request_token
from ledger.primitives.counters.addition import plan_addition
from ledger.primitives.counters.counter import (
    AFTER_UNKNOWN,
    EXACT_LIMITS,
    FIRST_USE,
    SINGLE_ITEM_REGIONS,
    Guarantees,
)
from ledger.primitives.counters.item_counter import ItemCounter
from ledger.primitives.counters.new_tokens import nonce
from ledger.primitives.counters.thresholds import ThresholdPart
from ledger.store.writes import TOKEN_SECONDS, Outcome, Rejected

REPEAT_SECONDS_MAX = 60.0
"""How long after the first try of an `add` another may be signed."""
HELD_UP_SECONDS_MIN = TOKEN_SECONDS - REPEAT_SECONDS_MAX
"""A try that arrives sooner than this after its signature is recognized."""


class ClientTokenCounter(ItemCounter):
    """A value changed by `ADD` in a transaction that carries the change's token.

    No try is signed later than a minute after the first one of its `add`. So each that arrives
    within nine minutes of its signature counts once; an `add` without an answer by then is Unknown.
    """

    kind = "sum"
    known_in = "item"
    splits = True
    guarantees = Guarantees(
        unknown="A try without an answer is repeated under its token for a minute, and counts once;"
        " again only if it arrives more than nine minutes after it was sent, which AWS allows."
        + AFTER_UNKNOWN,
        tokens="Recognized for ten minutes, in one region; then it counts again. Another change"
        " under it is refused. A rejection by the threshold leaves the token free, also for an"
        " earlier try that is still on its way.",
        thresholds=EXACT_LIMITS,
        regions=SINGLE_ITEM_REGIONS + " A token is known only where it was used.",
        cost="Twice the write units: a transaction." + FIRST_USE,
        write_units=2,
        read_units=0,
        value_units=1,
    )

    async def _add(self, parts: Sequence[ThresholdPart], token: str | None) -> Outcome:
        token = token or nonce(self.randomness)
        request = request_token(self.name, token)
        latest = self.clock.now() + timedelta(seconds=REPEAT_SECONDS_MAX)
        actions = [plan_addition(self.key(part.shard), part, not_after=latest) for part in parts]

        async def attempt() -> Outcome:
            return await self.store.transact(actions, token=request)

        try:
            final = await self.retrier.until_answered(attempt)
        except TokenReused as error:
            return Rejected("token conflict", str(error))
        return await self.outcome(final, parts, token=token)
