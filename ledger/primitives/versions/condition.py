"""A record version guard by condition: `attribute_not_exists(pk) OR version < :version`.

::

    version 3   put if older than 3 ─────────────────────── refused: 4 is there
    version 4         put if older than 4 ── applied

DynamoDB judges the condition and writes in one step, so however handlers race, what is there only
ever gets newer. Nothing is locked or read before. A delete leaves a tombstone, which has a version
as a record has.

Many records put by condition in one call: those that are new share requests.

::

    25 records   put if absent, each on its own ──┬── applied ─────────> handled
                                                  ├── rejected ──┐
                                                  └── unknown ───┴────> a separate put, if older

`put if absent` can be said as a statement, 25 to a request; `put if absent or older` cannot. So a
record that is there takes a write more. Where most of the last 25 were there, the next go by puts
of their own at once, which say what they replaced, until most are new again.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial

from ledger.core import keys
from ledger.core.amounts import check_bool
from ledger.core.entry import Item, Key, key_of
from ledger.core.errors import InvalidInput, LedgerError, StoreError
from ledger.primitives.versions.commit import Judged, VersionCommit
from ledger.primitives.versions.dead_letters import DeadLetters, handle_counting
from ledger.primitives.versions.failure_items import DeadLetter
from ledger.primitives.versions.version_rules import (
    DELETED,
    Adopted,
    Event,
    Handled,
    Refused,
    Repeats,
    Skipped,
    VersionRules,
    checked_event,
    checked_version,
    is_tombstone,
    stamped,
    version_of,
)
from ledger.runtime.call_deadlines import arranging, changing, reading
from ledger.runtime.services import Services
from ledger.runtime.tasks import run_all
from ledger.store.conditions import Absent, AllOf, Condition, Has, Not
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retrier import BACKOFF, Retrier
from ledger.store.retry import Backoff
from ledger.store.writes import (
    EACH_WRITES_MAX,
    Action,
    Applied,
    Outcome,
    Put,
    Rejected,
    Unknown,
    Update,
)

PARTS_AT_ONCE = 4
PUTS_AT_ONCE = 8
"""Separate puts of each part, at a time."""

Result = Handled | Skipped | Unknown
Versioned = tuple[Item, int]
"""An item with its version in it, and the version."""
PutOlder = Callable[[Item, int, str | None], Awaitable[tuple[Result, bool]]]
"""Puts over an older item; takes the cause of an earlier doubt; returns whether it was new."""


class ManyPuts:
    """Puts many records; remembers whether those of late were new."""

    def __init__(self, store: Store, rules: VersionRules, put_older: PutOlder) -> None:
        self._store = store
        self._rules = rules
        self._put_older = put_older
        self._mostly_new = True

    async def put(self, records: Sequence[Versioned]) -> list[Result]:
        """Put each record, of those of one key the newest; returns the results in order.

        Raises:
            DamagedItem, StoreError: of one record; all others were tried.
        """
        newest = self._newest(records)
        once = [records[place] for place in newest.values()]
        parts = [
            once[start : start + EACH_WRITES_MAX] for start in range(0, len(once), EACH_WRITES_MAX)
        ]
        done = await run_all([partial(self._part, part) for part in parts], at_once=PARTS_AT_ONCE)
        told = dict(zip(newest, [result for part in done for result in part], strict=True))
        for result in told.values():
            if isinstance(result, LedgerError):
                raise result
        return [
            result if place == newest[key_of(item)] else self._overtaken(version, result)
            for place, (item, version) in enumerate(records)
            for result in (told[key_of(item)],)
            if not isinstance(result, LedgerError)
        ]

    def _overtaken(self, version: int, newest: Result) -> Result:
        """Return what became of a version, given what became of the one that stays."""
        match newest:
            case Handled(version=handled) if self._rules.is_old(version, handled):
                return Skipped(version, handled)
            case Skipped(newest=found):
                return Skipped(version, found)
        return newest

    def _newest(self, records: Sequence[Versioned]) -> dict[Key, int]:
        """Return, by key, the place of the version that stays: of duplicates, as the rules say."""
        newest: dict[Key, int] = {}
        for place, (item, version) in enumerate(records):
            other = newest.setdefault(key_of(item), place)
            if not self._rules.is_old(version, records[other][1]):
                newest[key_of(item)] = place
        return newest

    async def _part(self, part: Sequence[Versioned]) -> list[Result | LedgerError]:
        if len(part) == 1 or not self._mostly_new:
            told = await self._alone(part, [None] * len(part))
            self._look_back(sum(is_new for _, is_new in told), len(part))
            return [result for result, _ in told]
        answer = await self._together(part)
        self._look_back(sum(isinstance(outcome, Applied) for outcome in answer), len(part))
        results: dict[int, Result | LedgerError] = {
            place: Handled(version) if isinstance(outcome, Applied) else outcome
            for place, ((_, version), outcome) in enumerate(zip(part, answer, strict=True))
            if isinstance(outcome, Applied | StoreError)
        }
        left = [place for place in range(len(part)) if place not in results]
        doubts = [_doubt(answer[place]) for place in left]
        again = await self._alone([part[place] for place in left], doubts)
        results.update(zip(left, (result for result, _ in again), strict=True))
        return [results[place] for place in range(len(part))]

    def _look_back(self, new: int, of: int) -> None:
        if of > 1:
            self._mostly_new = 2 * new >= of

    async def _together(self, part: Sequence[Versioned]) -> Sequence[Outcome | StoreError]:
        try:
            answer = await self._store.write_each([Put(item, Absent()) for item, _ in part])
        except StoreError as error:
            return [error] * len(part)
        return answer.outcomes

    async def _alone(
        self, part: Sequence[Versioned], doubts: Sequence[str | None]
    ) -> list[tuple[Result | LedgerError, bool]]:
        async def one(
            item: Item, version: int, doubt: str | None
        ) -> tuple[Result | LedgerError, bool]:
            try:
                return await self._put_older(item, version, doubt)
            except LedgerError as error:
                return error, False

        jobs = [partial(one, *record, doubt) for record, doubt in zip(part, doubts, strict=True)]
        return await run_all(jobs, at_once=PUTS_AT_ONCE) if jobs else []


def _doubt(outcome: Outcome | StoreError) -> str | None:
    return outcome.cause if isinstance(outcome, Unknown) else None


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
        self._rules = VersionRules(repeats, tombstone_seconds)
        self._retrier = Retrier.of(store, clock=clock, randomness=randomness, backoff=backoff)
        self._committing = VersionCommit(store, self._retrier, randomness, self._rules)
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
