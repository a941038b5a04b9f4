"""A record that events bring to new versions, guarded, and the calls that it takes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from anyio.lowlevel import checkpoint
from support.ledgers import HOME, make_services, seeded, services_of

from ledger.core.entry import Item
from ledger.primitives.leases.lease import Lease
from ledger.primitives.leases.lease_rules import NO_OWNER, LeaseTerms
from ledger.primitives.versions import ConditionGuard, Event, LockGuard, Skipped
from ledger.primitives.versions.lock import GuardOptions
from ledger.primitives.versions.turn_queue import SubjectTurns
from ledger.primitives.versions.version_rules import LOCK_SORT_KEY
from ledger.runtime.clock import Clock
from ledger.store.memory import MemoryStore, MemoryTable
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.retry import Backoff
from ledger.store.writes import Action, Outcome, Put, Update, Write
from ledger.testing.clock import ManualClock

SUBJECT = "customer-7"
RECORD = ("record", SUBJECT)
ARRIVALS = (1, 4, 3, 2, 5)
"""The worked example: how five versions of one record arrive."""
_seeds = count()
SHORT = LeaseTerms(lease_seconds=4.0, heartbeat_seconds=1.0)


class Noting(MemoryStore):
    """A store that notes every call, and of locks what it was; others act in the midst of calls."""

    def __init__(self, table: MemoryTable | None = None) -> None:
        super().__init__(HOME, table)
        self.calls: list[tuple[str, str]] = []
        self.lock_calls: Counter[str] = Counter()

    def count(self, operation: str, partition: str | None = None) -> int:
        """Return how many calls there were of an operation, in a partition or in all."""
        return sum((operation, partition or place) == (name, place) for name, place in self.calls)

    async def get(self, get: Get) -> Item | None:
        """Read one item."""
        self.calls.append(("get", get.key[0]))
        await checkpoint()
        return await super().get(get)

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write."""
        self.calls.append(("write", write.key[0]))
        if write.key[1] == LOCK_SORT_KEY:
            self.lock_calls[_lock_call(write)] += 1
        await checkpoint()
        return await super().write(write)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction."""
        self.calls.append(("transact", ""))
        await checkpoint()
        return await super().transact(actions, token=token)


def _lock_call(write: Write) -> str:
    """Tell what a write of a lock is."""
    if isinstance(write, Put):
        return "acquire"
    assert isinstance(write, Update)
    return "release" if write.set["owner"] == {"S": NO_OWNER} else "heartbeat"


@dataclass
class Handling:
    """A handler that brings the record to the event's version, and the versions it was run for."""

    versions: list[int] = field(default_factory=list)

    async def __call__(self, event: Event, lease: Lease) -> list[Action]:
        """Note the event; the guard writes the record."""
        del lease
        self.versions.append(event.version)
        await checkpoint()
        return [record_put(event.version)]


def record_put(version: int) -> Put:
    """Return the write that brings the record to a version, whatever is there."""
    partition, sort_key = RECORD
    return Put({"pk": {"S": partition}, "sk": {"S": sort_key}, "shows": {"N": str(version)}})


def record_in(table: MemoryTable) -> int | None:
    """Return the version that the record shows."""
    item = table.get(RECORD)
    return int(item["shows"]["N"]) if item else None


def event(version: int, kind: str = "record", **options: Any) -> Event:
    """Return an event of the customer."""
    return Event(SUBJECT, version, kind, **options)


def lock_guard(
    store: Store,
    *,
    check_first: bool = True,
    clock: Clock | None = None,
    randomness: Random | None = None,
    terms: LeaseTerms = SHORT,
    tries_max: int = 8,
    **options: Any,
) -> LockGuard:
    """Return a guard by lock, with draws of its own; without a clock time stands still.

    On a clock that leaps over its sleeps, heartbeats would come in a handling that takes no time.
    """
    return LockGuard(
        store,
        owner="handler",
        services=services_of(clock or ManualClock(), randomness or seeded(next(_seeds))),
        options=GuardOptions(
            terms=terms,
            check_first=check_first,
            backoff=Backoff(tries_max=tries_max),
            **options,
        ),
    )


def condition_guard(store: Store, *, tries_max: int = 8, **options: Any) -> ConditionGuard:
    """Return a guard by condition, with draws of its own; sleeps are over at once."""
    return ConditionGuard(
        store,
        services=make_services(seed=next(_seeds)),
        backoff=Backoff(tries_max=tries_max),
        **options,
    )


class HastyTurns(SubjectTurns):
    """Broken turns: what is overtaken is skipped at once, whatever becomes of the newest."""

    def _pass_on(self, event: Event, newest: int | None) -> None:
        queue = self._queues[event.lock_key]
        newest = max((waiting.event.version for waiting in queue), default=newest)
        for waiting in list(queue):
            if newest is not None and waiting.event.version < newest:
                self._end(waiting, queue, Skipped(waiting.event.version, newest))
        super()._pass_on(event, None)
