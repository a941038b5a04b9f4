"""The nets of collections, read many to a request: those asked for, and those needed next.

A visit of a collection with few entries costs as many requests as one with many, and half of them
read only a net. A table that never lost a region has nets of one generation, so their keys are
known, and up to 100 of a region fit in one BatchGetItem, strongly consistent, signed under the
validity that its calls have in common. Reads requested while one is under way share the next one.

Each request also reads ahead the nets of collections that are visited soon. So the net of a visit
may be from a moment before it. That is as safe, because a net is read first and judged by what
every region shows afterwards: if it has changed, the visit finds it uncommitted and was in vain.
And what a region once showed committed stays so.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ledger.core import keys
from ledger.core.contract import Validity
from ledger.core.entry import Item, net_of
from ledger.core.errors import RegionUnreadable, StoreError, Unreachable
from ledger.core.values import NetChange
from ledger.runtime.validity import validity_here
from ledger.store.port import Store
from ledger.store.reads import EACH_GETS_MAX, Get

REQUESTS_AT_ONCE = 1
"""Requests at a time in one region: while one is under way, further reads join the next."""
AHEAD_MAX = 50
"""Nets that are read ahead and kept until their visits: of the longest, 400 KB each, 20 MB."""


@dataclass(slots=True, eq=False)
class _Ask:
    """A call for one net: woken when it is answered, or when it is its turn to send."""

    partition: str
    validity: Validity | None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    item: Item | None = None
    error: StoreError | None = None
    is_answered: bool = False

    def answer(self, item: Item | None, error: StoreError | None = None) -> None:
        self.item, self.error, self.is_answered = item, error, True
        self.woken.set()


def _nothing(_count_max: int) -> Iterable[str]:
    return ()


class NetReader:
    """Reads the nets of one generation in one region, of any collections.

    `upcoming` returns at most `count` collections whose nets are needed soon, in order.
    """

    def __init__(
        self, store: Store, *, generation: int, upcoming: Callable[[int], Iterable[str]] = _nothing
    ) -> None:
        self.generation = generation
        self._upcoming = upcoming
        self._ahead: dict[str, _Ask] = {}
        self._store = store
        self._sort_key = keys.net_sort_key(generation)
        self._waiting: deque[_Ask] = deque()
        self._in_flight = 0

    def knows(self, partition: str) -> bool:
        """Return whether a net was read ahead, so that `read` needs no request."""
        ahead = self._ahead.get(partition)
        return ahead is not None and ahead.is_answered and ahead.validity == validity_here()

    async def read(self, partition: str) -> NetChange | None:
        """Return a collection's net, as the region shows it, or showed it when it was read ahead.

        It is signed within the validity around the call.

        Raises:
            RegionUnreadable: the region cannot be read, or not within the validity.
            DamagedItem: the net cannot be read whole.
        """
        ask = await self._asked(partition, validity_here())
        if ask.error is not None:
            raise RegionUnreadable(self._store.region, ask.error) from ask.error
        return None if ask.item is None else net_of(ask.item)

    async def _asked(self, partition: str, validity: Validity | None) -> _Ask:
        """Return an answered call: the one made ahead, once, or a new one."""
        ahead = self._ahead.pop(partition, None)
        if ahead is not None and ahead.validity == validity:
            await ahead.woken.wait()
            if ahead.error is None:
                return ahead
        ask = _Ask(partition, validity)
        await self._ask(ask)
        return ask

    async def _ask(self, ask: _Ask) -> None:
        """Wait for the answer, or send the request that brings it, with those that wait as well."""
        if self._in_flight < REQUESTS_AT_ONCE:
            self._in_flight += 1
        else:
            self._waiting.append(ask)
            try:
                await ask.woken.wait()
            except BaseException:
                if ask in self._waiting:
                    self._waiting.remove(ask)
                elif not ask.is_answered:
                    self._pass_on()
                raise
            if ask.is_answered:
                return
        others = [waiting for waiting in self._waiting if waiting.validity == ask.validity]
        batch = [ask, *others[: EACH_GETS_MAX - 1]]
        self._waiting = deque(waiting for waiting in self._waiting if waiting not in batch)
        batch += self._further(batch)
        try:
            await self._send(batch)
        finally:
            for asked in batch:
                if not asked.is_answered:  # cancelled, like the pass
                    asked.answer(None, Unreachable("the call that was to read this was cancelled"))
            self._pass_on()

    def _further(self, batch: Sequence[_Ask]) -> list[_Ask]:
        """Return calls ahead of time for the next visits, as far as the request has room."""
        room = EACH_GETS_MAX - len(batch)
        known = {*self._ahead, *(ask.partition for ask in (*batch, *self._waiting))}
        coming = self._upcoming(AHEAD_MAX)
        new = (partition for partition in coming if partition not in known)
        further = [_Ask(partition, batch[0].validity) for partition in islice(new, room)]
        self._ahead.update((ask.partition, ask) for ask in further)
        return further

    def _pass_on(self) -> None:
        """Let the call that waits longest send the next request, if there is one."""
        if self._waiting:
            self._waiting.popleft().woken.set()
        else:
            self._in_flight -= 1

    async def _send(self, batch: Sequence[_Ask]) -> None:
        gets = [Get((ask.partition, self._sort_key)) for ask in batch]
        try:
            found = await self._store.get_each(gets)
        except StoreError as error:
            for ask in batch:
                ask.answer(None, error)
        else:
            for ask, item in zip(batch, found.items, strict=True):
                ask.answer(item)
