"""A store that puts entries only by INSERT statements, as a strict writer may.

IAM sees partition keys and names of attributes, but no sort keys. A policy that allows PutItem on a
counter's partition therefore lets its holder replace the net change by a forged one. INSERT has a
separate permission (`PartiQLInsert`), and never replaces an item; restricted to the attributes of
entries (`dynamodb:Attributes`) it cannot put anything that counts as a net change.

::

    put on Absent             INSERT, alone or up to 25 to a request; write units as a put
    the same in a transaction INSERT, in ExecuteTransaction; write units as in a transaction
    put of a batch            INSERT: one that finds an item there is compared with it
    existing item             read: half a read unit, or one, more than a put that returns it

Sources: Amazon DynamoDB Developer Guide, "PartiQL insert statements" (an existing item is a
DuplicateItemException), "Using IAM policy conditions for fine-grained access control" (PutItem and
BatchWriteItem always replace the whole item, whatever attributes are allowed); Service
Authorization Reference, "Actions, resources, and condition keys for Amazon DynamoDB".
"""

from collections.abc import Sequence
from typing import TypeVar

from ledger.core.entry import entry_of
from ledger.core.errors import DamagedItem, RequestRefused, StoreError
from ledger.core.values import same_call
from ledger.store.conditions import Absent
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import (
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Put,
    Rejected,
    Unknown,
    Write,
)

Given = TypeVar("Given", bound=Action)
_ABSENT = Absent()


class InsertStore(ForwardingStore):
    """A `Store` that puts entries as statements; its reads are those of the store behind."""

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write; the existing item of a failed put is not returned."""
        return await self._inner.write(_inserted(write))

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes, each on its own."""
        return await self._inner.write_each([_inserted(write) for write in writes])

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction of puts of new items."""
        return await self._inner.transact([_inserted(action) for action in actions], token=token)

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Put up to 25 entries; one that an earlier try put already is applied.

        Raises:
            RequestRefused: one is a delete.
            StoreError: nothing was written.
        """
        puts = [_put(write) for write in writes]
        answer = await self._inner.write_each(puts)
        failed = [error for error in answer.outcomes if isinstance(error, StoreError)]
        if len(failed) == len(puts):
            raise failed[0]
        unprocessed, unknown, causes = list[int](), list[int](), list[str]()
        for place, outcome in enumerate(answer.outcomes):
            match outcome:
                case StoreError():
                    unprocessed.append(place)
                    causes.append(str(outcome))
                case Unknown(cause):
                    unknown.append(place)
                    causes.append(cause)
                case Rejected() if cause := await self._in_the_way(puts[place]):
                    unknown.append(place)
                    causes.append(cause)
                case Rejected() | Applied():
                    pass
        cause = causes[0] if causes else ""
        return BatchOutcome(tuple(unprocessed), tuple(unknown), cause, answer.write_units)

    async def _in_the_way(self, put: Put) -> str:
        """Return why it is unknown whether an item is as it was to be put; "" if it is."""
        try:
            found = await self._inner.get(Get(put.key))
        except StoreError as error:
            return f"an item exists under its key and could not be read: {error}"
        if found is None:
            return "an item existed under its key and is gone"
        try:
            is_there = same_call(entry_of(put.item), entry_of(found))
        except DamagedItem as error:
            return str(error)
        return "" if is_there else "another change exists under its key"


def _inserted(action: Given) -> Given:
    """Return a put on `Absent` as a statement, any other action unchanged."""
    if isinstance(action, Put) and isinstance(action.condition, Absent):
        return action._replace(as_statement=True)
    return action


def _put(write: BatchWrite) -> Put:
    if not isinstance(write, Put):
        raise RequestRefused("a strict writer must not delete")
    return write._replace(condition=_ABSENT, as_statement=True)


def inserting(store: Store, *, is_strict: bool) -> Store:
    """Return the store through which a writer writes entries."""
    return InsertStore(store) if is_strict else store
