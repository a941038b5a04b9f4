"""A record version guard by condition: `attribute_not_exists(pk) OR version < :version`.

::

    version 3   put if older than 3 ─────────────────────── refused: 4 is there
    version 4         put if older than 4 ── applied

DynamoDB judges the condition and writes in one step, so however handlers race, what is there only
ever gets newer. Nothing is locked, read before, or left behind.
"""

import random
from collections.abc import Sequence

from ledger.core.entry import Item
from ledger.primitives.versions.committing import Committing
from ledger.primitives.versions.state import (
    Event,
    Handled,
    LockLost,
    Refused,
    Skipped,
    checked_version,
    newer,
    version_of,
)
from ledger.runtime.clock import Clock
from ledger.store.port import Store
from ledger.store.retrier import BACKOFF, Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Action, Applied, Put, Rejected, Unknown


class ConditionGuard:
    """Writes what events bring, if they are newer. All must write in one region.

    Methods are for any task.
    """

    def __init__(
        self, store: Store, *, clock: Clock, randomness: random.Random, backoff: Backoff = BACKOFF
    ) -> None:
        self._store = store
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=backoff)
        self._committing = Committing(store, self._retrier, randomness)

    async def put(self, item: Item, *, version: int) -> Handled | Skipped | Unknown:
        """Put a whole item and its version, as attribute `version`, over an older one.

        An unanswered put is repeated: it cannot harm, and finding this very version in the table
        afterwards counts as `Handled`, whichever delivery wrote it.

        Raises:
            InvalidInput: the version is not an int from 0.
            DamagedItem: the item that is there has no version.
            StoreError: nothing was written, nor will be.
        """
        checked_version(version)
        write = Put({**item, "version": {"N": str(version)}}, newer(version))
        final = await self._retrier.until_answered(lambda: self._store.write(write))
        match final.outcome:
            case Applied():
                return Handled(version)
            case Rejected(found=found):
                return _refused(version, version_of(found[0]), unsure=final.doubt is not None)
            case Unknown():
                return final.outcome

    async def handle(
        self, event: Event, actions: Sequence[Action]
    ) -> Handled | Skipped | Refused | Unknown:
        """Do up to 99 actions if the event is newer than what was handled of its kind.

        The event's version is written in the same transaction: its actions are done once, in
        whatever order, number and parallel the event is delivered.

        Raises:
            InvalidInput: over 99 actions.
            DamagedItem: the item under the version's key is not a version.
            StoreError: nothing was written, nor will be.
        """
        committed = await self._committing.commit(event, actions)
        if isinstance(committed, LockLost):
            raise TypeError("there is no lock to be lost")
        return committed


def _refused(version: int, newest: int | None, *, unsure: bool) -> Handled | Skipped | Unknown:
    if newest is None:
        return Unknown("refused, but nothing is there")
    return Handled(version) if unsure and newest == version else Skipped(version, newest)
