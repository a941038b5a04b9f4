"""Noticing crossings while totals are read: compared in memory, looked at in the background.

::

    total read ── nothing follows from the state last known ── nothing is done
              └── something may: queued ── a look through the home region ── decided, delivered

No call waits for it, and none fails because of it. The state of a counter is read once, and again
after `REFRESH_SECONDS`, because another process may have changed it. In another region than the
home the home's store is opened with the first look, and a suspicion that the home does not confirm
is looked at again for some seconds: the changes may be on their way there.

The states of a watch's counters, as one region shows them.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from contextvars import Context
from dataclasses import dataclass
from decimal import Decimal
from functools import partial

import anyio
from anyio.abc import TaskGroup

from ledger.core.errors import AccessDenied, InvalidInput, LedgerError
from ledger.core.watches import Step, WatchState, decide, state_of, watch_partition
from ledger.reads.reader import Reader
from ledger.reads.total import Total
from ledger.runtime.services import Services
from ledger.runtime.tasks import is_cancelled, run_all
from ledger.settings import Settings
from ledger.settings.live import LiveSettings
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.watches.crossings import CrossingCall, CrossingDecider, channels_of, repeat_after

REFRESH_SECONDS = 60.0
"""How long a state is assumed to be as it was read."""
KNOWN_MAX = 10_000
"""States remembered, and counters whose watches are remembered."""
WAITING_MAX = 10_000
"""Counters that wait for a look; further suspicions are dropped."""
LOOKS_AT_ONCE = 8
LOOKS_MAX = 5
"""Looks at a suspicion that the home does not confirm."""
AGAIN_SECONDS = 1.0
"""The wait between two of them, and after a look that failed."""
CLOSE_SECONDS_MAX = 5.0
"""How long closing waits for looks and deliveries under way."""
log = logging.getLogger("ledger.watches")


class Watches:
    """The watches of one process: those of its settings, and those made in code."""

    def __init__(self, settings: Settings) -> None:
        self._watched = tuple(
            CrossingCall(watch.named(name)) for name, watch in settings.watches.items()
        )
        self._matching: dict[str, tuple[CrossingCall, ...]] = {}

    def add(self, watched: CrossingCall) -> None:
        """Add a watch.

        Raises:
            InvalidInput: there is one of this name.
        """
        name = watched.watch.name
        if any(name == watched.watch.name for watched in self._watched):
            raise InvalidInput(f"there is a watch {name!r} already: give this one another name")
        self._watched = (*self._watched, watched)
        self._matching = {}

    def of(self, counter: str) -> Sequence[CrossingCall]:
        """Return the watches of a counter."""
        if not self._watched:
            return ()
        found = self._matching.get(counter)
        if found is None:
            if len(self._matching) >= KNOWN_MAX:
                self._matching = {}
            found = tuple(watched for watched in self._watched if watched.watch.matches(counter))
            self._matching[counter] = found
        return found

    @property
    def counters(self) -> set[str]:
        """The counters that watches name without a wildcard."""
        named = (watched.watch.counter for watched in self._watched)
        return {counter for counter in named if counter is not None}


@dataclass(frozen=True, slots=True)
class _Known:
    """A state and when, by the monotonic clock, it was read."""

    state: WatchState
    at: float


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """A total that may make a crossing, or end one."""

    watched: CrossingCall
    counter: str
    total: Decimal

    @property
    def place(self) -> tuple[str, str]:
        return self.watched.watch.name, self.counter


class Watcher:
    """Notices crossings from the totals that one process reads in one region.

    The home's store is the process's own, or `home`, or is opened if that is allowed.
    """

    def __init__(
        self,
        watches: Watches,
        store: Store,
        *,
        home: Store | None = None,
        may_open: bool = True,
        settings: LiveSettings,
        services: Services,
        tasks: TaskGroup,
    ) -> None:
        self._watches = watches
        self._region = store.region
        self._stores = [store, home] if home is not None else [store]
        self._may_open = may_open
        self._settings = settings
        self._services = services
        self._clock = services.clock
        self._metrics = services.metrics
        self._tasks = tasks
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._waiting: OrderedDict[tuple[str, str], _Suspicion] = OrderedDict()
        self._asked = anyio.Event()
        self._ended: anyio.Event | None = None
        self._is_closed = False

    def saw(self, total: Total) -> None:
        """Compare a total with its watches, and queue a suspicion; returns at once."""
        for watched in self._watches.of(total.counter):
            suspicion = _Suspicion(watched, total.counter, total.value)
            if total.changes and self._is_due(suspicion):
                self._ask(suspicion)

    def _is_due(self, suspicion: _Suspicion) -> bool:
        known = self._known.get(suspicion.place)
        if known is None or self._clock.monotonic() - known.at >= REFRESH_SECONDS:
            return True
        return self._follows(suspicion, known.state)

    def _follows(self, suspicion: _Suspicion, state: WatchState) -> bool:
        step = decide(
            suspicion.watched.watch,
            state,
            suspicion.total,
            now=self._clock.now(),
            repeat_after=repeat_after(self._settings),
        )
        return step is not Step.NOTHING

    def _ask(self, suspicion: _Suspicion) -> None:
        place = suspicion.place
        if self._is_closed or (place not in self._waiting and len(self._waiting) >= WAITING_MAX):
            log.debug("no look at %s: too many wait, or closed", place)
            return
        self._waiting[place] = suspicion
        self._asked.set()
        if self._ended is None:
            self._ended = anyio.Event()
            # It outlives the call that noticed something first, so it must not keep its context.
            Context().run(self._tasks.start_soon, self._run, self._ended)

    async def close(self) -> None:
        """End the looks under way, after a moment, and begin none; called before the tasks end."""
        self._is_closed = True
        self._asked.set()
        if self._ended is not None and not is_cancelled():
            with anyio.move_on_after(CLOSE_SECONDS_MAX, shield=True):
                await self._ended.wait()

    async def _run(self, ended: anyio.Event) -> None:
        """Look at queued suspicions, until closed; pauses if the home cannot be opened."""
        try:
            while not (self._is_closed and not self._waiting):
                async with self._decider() as decider:
                    await self._serve(decider)
        except AccessDenied as error:
            self._is_closed = True
            log.warning("no watch is decided by this process: %s", error)
        except LedgerError as error:
            self._failed(error)
        finally:
            self._waiting.clear()
            self._ended = None
            ended.set()

    @asynccontextmanager
    async def _decider(self) -> AsyncIterator[CrossingDecider]:
        """Open the home region."""
        async with self._opened_home() as store:
            reader = Reader(store, settings=self._settings, services=self._services)
            yield CrossingDecider(
                store,
                partial(reader.total, consistent=True),
                settings=self._settings,
                services=self._services,
            )

    def _opened_home(self) -> AbstractAsyncContextManager[Store]:
        home = self._settings.current.home
        for store in self._stores:
            if store.region == home:
                return nullcontext(store)
        if not self._may_open:
            raise LedgerError(f"watches are decided in {home}, but its store was not given")
        # Imported only here, since it brings botocore.
        from ledger.store.connections import open_store  # noqa: PLC0415

        return open_store(
            self._settings.current,
            home,
            metrics=self._metrics,
            clock=self._clock,
            randomness=self._services.randomness,
        )

    async def _serve(self, decider: CrossingDecider) -> None:
        """Look at queued suspicions, several at once, until closed or the home has changed."""
        work = partial(self._work, decider, self._settings.current.home)
        await run_all([work] * LOOKS_AT_ONCE, at_once=LOOKS_AT_ONCE)

    async def _work(self, decider: CrossingDecider, home: str) -> None:
        while self._settings.current.home == home:
            if self._waiting:
                await self._look(decider, self._waiting.popitem(last=False)[1])
            elif self._is_closed:
                return
            else:
                if self._asked.is_set():
                    self._asked = anyio.Event()
                await self._asked.wait()

    async def _look(self, decider: CrossingDecider, suspicion: _Suspicion) -> None:
        """Look at a suspicion, again if changes may still be on their way to the home."""
        watch, counter = suspicion.watched.watch, suspicion.counter
        channels = channels_of(suspicion.watched, metrics=self._metrics, region=self._region)
        try:
            for _ in range(LOOKS_MAX):
                await self._settings.renew()
                if not decider.decides:  # the home is being moved: a later read asks again
                    return
                looked = await decider.look(watch, counter, channels, suspect=suspicion.total)
                self._remember(suspicion.place, looked.state)
                is_settled = looked.is_delivered or not self._follows(suspicion, looked.state)
                if is_settled or self._is_closed or self._region == self._settings.current.home:
                    return
                await self._clock.sleep(AGAIN_SECONDS)
        except AccessDenied:
            raise
        except LedgerError as error:
            self._failed(error)
            if not self._is_closed:
                await self._clock.sleep(AGAIN_SECONDS)

    def _remember(self, place: tuple[str, str], state: WatchState) -> None:
        self._known[place] = _Known(state, self._clock.monotonic())
        self._known.move_to_end(place)
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _failed(self, error: LedgerError) -> None:
        log.warning("a watch could not be looked at: %s", error)
        self._metrics.error(self._region, error)


async def read_watch_states(store: Store, name: str) -> AsyncIterator[tuple[str, WatchState]]:
    """Yield the counters of a watch that ever crossed its bound, in order, page by page.

    Raises:
        DamagedItem: a state cannot be read.
        StoreError: DynamoDB could not do it.
    """
    query = Query(watch_partition(name))
    while True:
        page = await store.query(query)
        for item in page.items:
            yield item["sk"]["S"], state_of(item)
        if page.after is None:
            return
        query = query.next(page)
