"""The methods beside the ledger, as a `Table` opens them: counters, sequences, leases, versions.

Each must be written in one region only; the pages of `ledger.primitives` say what each guarantees.
"""

import os
import socket
from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from functools import partial
from typing import Literal, Unpack, overload
from weakref import WeakValueDictionary

from ledger.core.amounts import check_bool
from ledger.core.entry import Key
from ledger.core.errors import InvalidInput
from ledger.core.keys import checked_new_counter
from ledger.primitives.counters import (
    OWN_OPTIONS,
    CollectionCounter,
    Counter,
    CounterOptions,
    ItemCounter,
    ItemMethodName,
    Layouts,
    MethodName,
    item_method_named,
    method_named,
)
from ledger.primitives.leases import Lease, LeaseOptions, LeaseRecord, LeaseTerms
from ledger.primitives.leases.heartbeats import Keeping, in_loop, thread_to
from ledger.primitives.leases.queries import list_leases
from ledger.primitives.sequences import (
    ADDED_MAX,
    AfterRace,
    AppendOptions,
    CounterSequence,
    Queue,
    SortKeySequence,
)
from ledger.primitives.versions import ConditionGuard, GuardOptions, LockGuard, Repeats
from ledger.primitives.versions.turn_queue import WAITING_MAX
from ledger.runtime.call_deadlines import each_in_time
from ledger.runtime.services import Services
from ledger.session.ledger import Ledger, store_here
from ledger.settings import Settings
from ledger.store.port import Store
from ledger.store.wrappers.call_store import CallStore

_OWNER_BITS = 64
_DEFAULT_TERMS = LeaseTerms()


class TableMethods:
    """What a table opens besides its ledger, over the same store, clock and randomness.

    `is_given` means that the ledger was given its store, so no other may be opened beside it.
    """

    def __init__(
        self, ledger: Ledger, settings: Settings, *, services: Services, is_given: bool
    ) -> None:
        self.ledger = ledger
        self.settings = settings
        self.region: str = ledger.region
        self._services = services
        self._is_given = is_given
        self._queues: WeakValueDictionary[str, Queue] = WeakValueDictionary()
        self._layouts = Layouts()

    @overload
    def counter(
        self, name: str, *, method: ItemMethodName, **options: Unpack[CounterOptions]
    ) -> ItemCounter: ...

    @overload
    def counter(
        self,
        name: str,
        *,
        method: Literal["collection"] = "collection",
        **options: Unpack[CounterOptions],
    ) -> Counter: ...

    def counter(
        self,
        name: str,
        *,
        method: MethodName = "collection",
        minimum: int | Decimal | None = None,
        maximum: int | Decimal | None = None,
        shards: int | None = None,
        kept_seconds: float | None = None,
        tags_max: int | None = None,
    ) -> Counter:
        """Return a counter kept by one of the methods of `ledger.primitives.counters`.

        The default method is the ledger's own, the only one that any number of regions may write.
        The others enforce `minimum` and `maximum`, and must be written in one region; `shards`
        spreads them over that many items, for more writes per second. The table records the method
        and the number of items of each name: `shards` applies if the name is new, or grows it if it
        has fewer; another method is refused at the first call (`MethodConflict`). `kept_seconds` is
        how long markers live (a week), `tags_max` how many writers the history has (12).

        Raises:
            InvalidCounter: the name breaks a rule.
            InvalidInput: there is no such method, it does not take thresholds, shards or another
                option given, or 0, the initial value, is not within the thresholds.
        """
        options = {"kept_seconds": kept_seconds, "tags_max": tags_max}
        own: dict[str, object] = {
            name: value for name, value in options.items() if value is not None
        }
        chosen = method_named(method, shards=shards)
        _check_options(
            method, **{name: own[name] for name in own if name != OWN_OPTIONS.get(method)}
        )
        if method == "collection" and minimum is None and maximum is None:
            return CollectionCounter(self.ledger, name, services=self._services)
        if OWN_OPTIONS.get(method) == "kept_seconds":
            own["marker_table"] = self.settings.marker_table
        make: Callable[..., Counter] = chosen.make
        made = make(
            self._store,
            name,
            services=self._services,
            minimum=minimum,
            maximum=maximum,
            **own,
        )
        if isinstance(made, ItemCounter):
            made.share(self._layouts, is_guarded=True)
        return made

    async def convert_counter(
        self,
        name: str,
        *,
        method: ItemMethodName,
        shards: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Convert a counter to another method, or another number of items, while it is in use.

        See `ItemCounter.convert`. Callers that use the previous method are refused afterwards.

        Raises:
            InvalidInput: there is no such method, or the counter cannot be converted to it.
            AmountOverflow: the sum does not fit in an item.
            NotSent, OutcomeUnknown: `timeout` seconds ended, as in `ItemCounter.convert`.
            StoreError: DynamoDB could not do it; the next call continues the conversion.
        """
        kind = item_method_named(method)
        counter = kind(self._store, name, services=self._services)
        counter.share(self._layouts, is_guarded=True)
        await counter.convert(shards=shards, timeout=timeout)

    @overload
    def sequence(
        self,
        name: str,
        *,
        method: Literal["counter"] = "counter",
        block: int = 1,
        kept_seconds: float | None = None,
    ) -> CounterSequence: ...

    @overload
    def sequence(
        self,
        name: str,
        *,
        method: Literal["sort-key"],
        after_race: AfterRace = "query",
        added_max: int = ADDED_MAX,
        consistent: bool = True,
    ) -> SortKeySequence: ...

    def sequence(
        self,
        name: str,
        *,
        method: str = "counter",
        block: int | None = None,
        kept_seconds: float | None = None,
        after_race: AfterRace | None = None,
        added_max: int | None = None,
        consistent: bool | None = None,
    ) -> CounterSequence | SortKeySequence:
        """Return a sequence of numbers: by a counter item (fast, gaps) or by sort keys (no gaps).

        See `ledger.primitives.sequences` for the options. One region must write it. Calls of one
        table to a sequence by sort keys run one after another, even through different objects.

        Raises:
            InvalidCounter: the name breaks a rule.
            InvalidInput: there is no such method, an option belongs to another method, or has
                an invalid value.
        """
        _check_method(method, "counter", "sort-key")
        if method == "counter":
            _check_options(
                method, after_race=after_race, added_max=added_max, consistent=consistent
            )
            return CounterSequence(
                self._store,
                name,
                services=self._services,
                block=1 if block is None else block,
                kept_seconds=kept_seconds,
            )
        _check_options(method, block=block, kept_seconds=kept_seconds)
        return SortKeySequence(
            self._store,
            name,
            services=self._services,
            options=AppendOptions(
                after_race="query" if after_race is None else after_race,
                added_max=ADDED_MAX if added_max is None else added_max,
                consistent=True if consistent is None else consistent,
                queue=self._queues.setdefault(
                    checked_new_counter(name, "name of a sequence"), Queue()
                ),
            ),
        )

    def lease(
        self,
        name: str,
        *,
        owner: str | None = None,
        terms: LeaseTerms = _DEFAULT_TERMS,
        key: Key | None = None,
        in_thread: bool = False,
        delete_on_release: bool = False,
    ) -> Lease:
        """Return one contender for a lease: `async with table.lease("nightly-job").held() as held`.

        `owner` identifies the contender to others and must be unique; by default it is made of
        host, process and a random number. `key` places the item elsewhere. `in_thread` sends the
        heartbeats of `held` from a thread with a connection of its own, for work that blocks the
        event loop; `delete_on_release` leaves no item behind. See `ledger.primitives.leases`.

        Raises:
            InvalidInput: the name or the key breaks a rule, the owner is empty, or `in_thread` in
                a table that was given its store, which a thread cannot reopen.
        """
        keeping: Keeping = in_loop
        if check_bool("in_thread", in_thread):
            if self._is_given:
                raise InvalidInput(
                    "in_thread needs a table that opens its own store, not one given to it"
                )
            keeping = thread_to(self.settings, self.region, self._services)
        return Lease(
            self._store,
            name,
            owner=self._owner() if owner is None else owner,
            terms=terms,
            services=self._services,
            options=LeaseOptions(key=key, keeping=keeping, delete_on_release=delete_on_release),
        )

    def leases(self, *, timeout: float | None = None) -> AsyncIterator[LeaseRecord]:
        """Yield all leases, also those of compactors, by a scan: every item is read and charged.

        One look does not show whether a holder is alive: see `Lease.watch`. `timeout` bounds each
        wait for the next one, in seconds.

        Raises:
            InvalidInput: `timeout` is not a number above 0.
            ReadTooSlow: it ended.
            DamagedItem, StoreError: as `list_leases`.
        """
        return each_in_time(timeout, list_leases(self._store))

    @overload
    def versions(
        self,
        *,
        method: Literal["condition"] = "condition",
        repeats: Repeats = "skip",
        tombstone_seconds: float | None = None,
        failures_max: int | None = None,
    ) -> ConditionGuard: ...

    @overload
    def versions(
        self,
        *,
        method: Literal["lock"],
        owner: str | None = None,
        terms: LeaseTerms = _DEFAULT_TERMS,
        check_first: bool = True,
        waiting_max: int = WAITING_MAX,
        repeats: Repeats = "skip",
        tombstone_seconds: float | None = None,
        failures_max: int | None = None,
    ) -> LockGuard: ...

    def versions(
        self,
        *,
        method: str = "condition",
        owner: str | None = None,
        terms: LeaseTerms | None = None,
        check_first: bool | None = None,
        waiting_max: int | None = None,
        repeats: Repeats = "skip",
        tombstone_seconds: float | None = None,
        failures_max: int | None = None,
    ) -> ConditionGuard | LockGuard:
        """Return a guard that handles only newer versions of records, by condition or by lock.

        See `ledger.primitives.versions` for the options. One region must write.

        Raises:
            InvalidInput: there is no such method, an option belongs to another method, or has
                an invalid value.
        """
        _check_method(method, "condition", "lock")
        if method == "condition":
            _check_options(
                method, owner=owner, terms=terms, check_first=check_first, waiting_max=waiting_max
            )
            return ConditionGuard(
                self._store,
                services=self._services,
                repeats=repeats,
                tombstone_seconds=tombstone_seconds,
                failures_max=failures_max,
            )
        return LockGuard(
            self._store,
            owner=self._owner() if owner is None else owner,
            services=self._services,
            options=GuardOptions(
                terms=_DEFAULT_TERMS if terms is None else terms,
                check_first=True if check_first is None else check_first,
                waiting_max=WAITING_MAX if waiting_max is None else waiting_max,
                repeats=repeats,
                tombstone_seconds=tombstone_seconds,
                failures_max=failures_max,
            ),
        )

    @property
    def _store(self) -> Store:
        """The open store, for objects that outlive this opening."""
        return CallStore(self.ledger.store, partial(store_here, self.ledger))

    def _owner(self) -> str:
        """Return a name that no other contender has, readable by people."""
        unique = self._services.randomness.getrandbits(_OWNER_BITS)
        return f"{socket.gethostname()}-{os.getpid()}-{unique:016x}"


def _check_method(method: str, *known: str) -> None:
    if method not in known:
        raise InvalidInput(f"method must be one of {', '.join(known)}, got {method!r}")


def _check_options(method: str, **others: object) -> None:
    """Refuse options that only other methods have."""
    for name, value in others.items():
        if value is not None:
            raise InvalidInput(f"method {method!r} takes no {name}, got {value!r}")
