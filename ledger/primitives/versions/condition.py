"""A record version guard by condition: `attribute_not_exists(pk) OR version < :version`.

::

    version 3   put if older than 3 ─────────────────────── refused: 4 is there
    version 4         put if older than 4 ── applied

DynamoDB judges the condition and writes in one step, so however handlers race, what is there only
ever gets newer. Nothing is locked or read before. A delete leaves a tombstone, which has a version
as a record has.
"""

from collections.abc import Iterable, Mapping, Sequence

from ledger.core import keys
from ledger.core.amounts import check_bool
from ledger.core.entry import Item, Key
from ledger.core.errors import InvalidInput, StoreError
from ledger.primitives.versions.committing import Committing, Judged
from ledger.primitives.versions.dead_letters import DeadLetters, handle_counting
from ledger.primitives.versions.letters import DeadLetter
from ledger.primitives.versions.many import ManyPuts
from ledger.primitives.versions.state import (
    DELETED,
    Adopted,
    Event,
    Handled,
    Refused,
    Repeats,
    Rules,
    Skipped,
    checked_event,
    checked_version,
    is_tombstone,
    stamped,
    version_of,
)
from ledger.runtime.call_deadlines import arranging, changing, reading
from ledger.runtime.services import Services
from ledger.store.conditions import AllOf, Condition, Has, Not
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import BACKOFF, Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import Action, Applied, Put, Rejected, Unknown, Update


class ConditionGuard:
    """Writes what events bring, if they are newer. All must write in one region.

    `repeats="handle"` handles an event of the very version that is there again. A tombstone stays
    for good, or expires after `tombstone_seconds` where the table's time to live is on. With
    `failures_max`, `handle` counts failures in the table, and an event that failed so often is a
    dead letter. Methods are for any task.

    Raises:
        InvalidInput: an option has a value that it cannot have.
    """

    def __init__(
        self,
        store: Store,
        *,
        services: Services,
        repeats: Repeats = "skip",
        tombstone_seconds: float | None = None,
        failures_max: int | None = None,
        backoff: Backoff = BACKOFF,
    ) -> None:
        self._store = store
        clock, randomness = services.clock, services.randomness
        self._clock = clock
        self._rules = Rules(repeats, tombstone_seconds)
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=backoff)
        self._committing = Committing(store, self._retrier, randomness, self._rules)
        self.dead_letters: DeadLetters = DeadLetters(
            store, self._retrier, failures_max=failures_max
        )
        self._counted = None if failures_max is None else self.dead_letters
        self._many = ManyPuts(store, self._rules, self._put_older)

    async def put(
        self, item: Item, *, version: int, timeout: float | None = None
    ) -> Handled | Skipped | Unknown:
        """Put a whole item and its version, as attribute `version`, over an older one.

        An unanswered put is repeated: it cannot harm, and finding this very version in the table
        afterwards counts as `Handled`, whichever delivery wrote it.

        Raises:
            InvalidInput: the version is not an int from 0, the item has no key, or is a tombstone,
                or its partition begins with `~`.
            DamagedItem: the item that is there has no version: `adopt` gives it one.
            NotSent: `timeout` seconds ended; nothing was written, nor will be.
            StoreError: nothing was written, nor will be.
        """
        versioned = _with_version(item, version)
        with changing(timeout):
            return await self._replace(versioned, version)

    async def put_many(
        self, records: Iterable[tuple[Item, int]], *, timeout: float | None = None
    ) -> list[Handled | Skipped | Unknown]:
        """Put items, each with its version, as `put` does each; returns the results in order.

        New records go 25 to a request. One that is there takes a request of its own, and a write
        more while most are new. Of several versions of a record only the newest is written.

        Raises:
            InvalidInput: a record is not a pair, or breaks a rule of `put`; nothing was written.
            DamagedItem, StoreError: as `put`, of one record. All others were tried; the same call
                may be made again.
            NotSent, OutcomeUnknown: `timeout` seconds ended, before or after some were sent.
        """
        pairs = map(_pair, _listed(records))
        versioned = [(_with_version(item, version), version) for item, version in pairs]
        with arranging(timeout, "some may be written; the same call writes the others"):
            return await self._many.put(versioned)

    async def delete(
        self, key: Key, *, version: int, timeout: float | None = None
    ) -> Handled | Skipped | Unknown:
        """Put a tombstone of this version over an older item, or where there is none.

        While the tombstone is there, no older version is written. Repeated as `put` is.

        Raises:
            InvalidInput, DamagedItem, NotSent, StoreError: as `put`.
        """
        item = stamped(_own_key(key), checked_version(version))
        item |= self._rules.tombstone(now=self._clock.now())
        with changing(timeout):
            return await self._replace(item, version)

    async def read(
        self, key: Key, *, consistent: bool = True, timeout: float | None = None
    ) -> Item | None:
        """Return the record under a key; None for no item, and for a tombstone.

        Raises:
            InvalidInput: the key is not two texts, or `consistent` no bool.
            ReadTooSlow: `timeout` seconds ended.
            StoreError: the table could not be read.
        """
        get = Get(_checked_key(key), consistent=check_bool("consistent", consistent))
        with reading(timeout):
            item = await self._store.get(get)
        return None if item is None or is_tombstone(item) else item

    async def adopt(
        self,
        key: Key,
        *,
        version: int,
        condition: Condition | None = None,
        timeout: float | None = None,
    ) -> Adopted | Skipped | Refused | Unknown:
        """Give an item that has no version this one, the caller's word for what the item shows.

        Of any number of adoptions and guarded writes that race, none takes a version away:
        `Skipped` names the version that is there. `Refused` holds the item, or None for no item,
        if there is none or the caller's own `condition` on it is false. Repeated as `put` is.

        Raises:
            InvalidInput: the version is not an int from 0, or the key not two texts, or its
                partition begins with `~`.
            DamagedItem: the item has an invalid `version`.
            NotSent: `timeout` seconds ended; nothing was written, nor will be.
            StoreError: nothing was written, nor will be.
        """
        own = (condition,) if condition else ()
        adoption = Update(
            _own_key(key),
            set={"version": {"N": str(checked_version(version))}},
            condition=AllOf((Has("pk"), Not(Has("version")), *own)),
        )
        with changing(timeout):
            final = await self._retrier.until_answered(lambda: self._store.write(adoption))
        match final.outcome:
            case Applied():
                return Adopted(version)
            case Rejected(found=found):
                return _not_adopted(version, found[0], unsure=final.doubt is not None)
            case Unknown():
                return final.outcome

    async def handle(
        self, event: Event, actions: Sequence[Action], *, timeout: float | None = None
    ) -> Judged | DeadLetter:
        """Do up to 99 actions if the event is newer than what was handled of its kind.

        The event's version is written in the same transaction: its actions are done once, in
        whatever order, number and parallel the event is delivered. With `failures_max`, a
        `Refused` and a request that DynamoDB finds wrong are failures; see `DeadLetters`.

        Raises:
            InvalidInput: over 99 actions, or not an event, or not a list of actions.
            DamagedItem: the item under the version's key is not a version.
            NotSent: `timeout` seconds ended; nothing was written, nor will be.
            StoreError: nothing was written, nor will be.
        """
        checked_event(event)
        with changing(timeout):
            return await handle_counting(
                self._counted, event, lambda: self._committing.commit(event, actions)
            )

    async def _replace(self, item: Item, version: int) -> Handled | Skipped | Unknown:
        return (await self._put(Put(item, self._rules.newer(version)), version))[0]

    async def _put_older(
        self, item: Item, version: int, doubt: str | None
    ) -> tuple[Handled | Skipped | Unknown, bool]:
        write = Put(item, self._rules.newer(version), returns_old=True)
        return await self._put(write, version, doubt=doubt)

    async def _put(
        self, write: Put, version: int, *, doubt: str | None = None
    ) -> tuple[Handled | Skipped | Unknown, bool]:
        """Return what became of a put, and whether it replaced nothing.

        `doubt` is the cause of an earlier unknown outcome of the same version.
        """
        try:
            final = await self._retrier.until_answered(lambda: self._store.write(write))
        except StoreError as error:
            if doubt is None:
                raise
            return Unknown(f"{doubt}; then {error}"), False
        unsure = (doubt or final.doubt) is not None
        match final.outcome:
            case Applied(item=replaced):
                return Handled(version), replaced is None
            case Rejected(found=found):
                return _refused(version, version_of(found[0]), unsure=unsure), False
            case Unknown():
                return final.outcome, False


def _refused(version: int, newest: int | None, *, unsure: bool) -> Handled | Skipped | Unknown:
    if newest is None:
        return Unknown("refused, but nothing is there")
    return Handled(version) if unsure and newest == version else Skipped(version, newest)


def _not_adopted(
    version: int, found: Item | None, *, unsure: bool
) -> Adopted | Skipped | Refused | Unknown:
    if found is None or "version" not in found:
        late = Unknown("one try unanswered, another refused: a condition was false")
        return late if unsure else Refused({0: found})
    newest = version_of(found) or 0
    return Adopted(version) if unsure and newest == version else Skipped(version, newest)


def _checked_key(key: object) -> Key:
    match key:
        case (str(partition), str(sort_key)) if partition and sort_key:
            return partition, sort_key
    raise InvalidInput(f"key must be two texts, partition and sort key, got {key!r}")


def _own_key(key: object) -> Key:
    partition, sort_key = _checked_key(key)
    return keys.checked_own_partition(partition), sort_key


def _listed(records: object) -> list[object]:
    if isinstance(records, Iterable) and not isinstance(records, str | bytes | Mapping):
        return list(records)
    raise InvalidInput(f"records must be a list of pairs of item and version, got {records!r:.80}")


def _pair(record: object) -> tuple[Item, int]:
    match record:
        case (Mapping() as item, version):
            return item, checked_version(version)
    raise InvalidInput(f"a record must be a pair of item and version, got {record!r:.80}")


def _with_version(item: Item, version: int) -> Item:
    key = _own_key(_key_in(item))
    return {**item, **stamped(key, checked_version(version))}


def _key_in(item: object) -> Key:
    if not isinstance(item, Mapping):
        raise InvalidInput(f"item must be a mapping of attributes, got {item!r}")
    if DELETED in item:
        raise InvalidInput(f"an item must not have {DELETED!r}: `delete` puts tombstones")
    values = (item.get(name) for name in ("pk", "sk"))
    return _checked_key(
        tuple(value.get("S") if isinstance(value, Mapping) else None for value in values)
    )
