"""An event's effects and its version, written by one transaction until the outcome is known.

Every try carries the same client request token, so that within DynamoDB's ten minutes a repeat
finds out what became of the tries before it: applied if one of them was. Once a newer version is
there none of them can land any more.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

from ledger.core.errors import InvalidInput
from ledger.primitives.versions.version_rules import (
    Event,
    Handled,
    LockLost,
    Refused,
    Skipped,
    VersionRules,
    version_of,
)
from ledger.store.port import Store
from ledger.store.retrier import Retrier
from ledger.store.writes import (
    TRANSACTION_ACTIONS_MAX,
    Action,
    Applied,
    Check,
    FinalOutcome,
    Rejected,
    Unknown,
    checked_kinds,
)

_TOKEN_BITS = 128

Judged = Handled | Skipped | Refused | Unknown
Committed = Handled | Skipped | Refused | LockLost | Unknown


@dataclass(frozen=True, slots=True)
class VersionCommit:
    """The actions and checks that write an event's effects."""

    store: Store
    retrier: Retrier
    randomness: random.Random
    rules: VersionRules

    @overload
    async def commit(self, event: Event, actions: Sequence[Action]) -> Judged: ...

    @overload
    async def commit(
        self, event: Event, actions: Sequence[Action], *, fence: Check
    ) -> Committed: ...

    async def commit(
        self, event: Event, actions: Sequence[Action], *, fence: Check | None = None
    ) -> Committed:
        """Write an event's version and these actions, all or none, if the version is newer.

        With a `fence` they stand only while it holds.

        Raises:
            InvalidInput: too many actions for one transaction, or not a list of actions.
            DamagedItem: the item under the version's key is not a version.
            StoreError: nothing was written, nor will be.
        """
        own: list[Action] = [
            self.rules.version_put(event, now=self.retrier.clock.now()),
            *([fence] if fence else []),
        ]
        _check_actions(actions, TRANSACTION_ACTIONS_MAX - len(own))
        final = await self._send((*own, *actions))
        match final.outcome:
            case Applied():
                return Handled(event.version)
            case Rejected() as rejected:
                judged = _judged(event, rejected, fence)
                # A try in flight can land once the caller's own condition is true again.
                late = isinstance(judged, Refused) and final.doubt is not None
                return Unknown(f"one try unanswered, another refused: {judged}") if late else judged
            case unknown:
                return unknown

    async def _send(self, actions: Sequence[Action]) -> FinalOutcome:
        """Do a transaction until it is answered."""
        token = f"{self.randomness.getrandbits(_TOKEN_BITS):0{_TOKEN_BITS // 4}x}"
        return await self.retrier.until_answered(lambda: self.store.transact(actions, token=token))


def _check_actions(actions: object, most: int) -> None:
    if (size := len(checked_kinds(actions))) > most:
        raise InvalidInput(f"actions must be at most {most}, got {size}")


def _judged(event: Event, rejected: Rejected, fence: Check | None) -> Skipped | LockLost | Refused:
    """Return why a transaction was refused: an old version, else a lost lock, else the caller."""
    if (newest := version_of(rejected.found.get(0))) is not None:
        return Skipped(event.version, newest)
    own = 2 if fence else 1
    if fence and 1 in rejected.found:
        return LockLost("another holds the lock by now, so nothing was written")
    return Refused({place - own: item for place, item in rejected.found.items()})
