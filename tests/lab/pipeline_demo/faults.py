"""A store whose requests fail by the stage that makes them.

Of a stage's requests a share fails, in each of these ways in turn. At a share of one in 50, one of
every 50 requests fails, drawn from the seed: so a short run meets failures too.

- the request is lost, or its answer: the caller cannot know which;
- it is delayed: there is no answer, and it is applied after the stage's next request;
- map and reduce only, the worker crashes: while the request is in flight, so that it is applied
  once the lane has been restarted; before it; or after it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from math import inf
from random import Random

from ledger.core.entry import Item
from ledger.core.errors import StoreError
from ledger.pipeline.core.items import PIPELINE_PREFIX, STATE_PREFIX
from ledger.store.port import Store
from ledger.store.reads import FoundItems, Get
from ledger.store.wrappers.faults import (
    Fault,
    FaultCall,
    FaultyStore,
    Late,
    Lost,
    NeverArrived,
    Raises,
)
from ledger.store.wrappers.forwarder import READS, Answer, ForwardingStore
from ledger.store.writes import Action, EachOutcome, Outcome, Write


class Crashed(Exception):
    """Injected worker crash."""


# Made new each time: an error that is raised again and again keeps all that it went through.
_LOSSES: Sequence[Callable[[], Fault]] = (Lost, NeverArrived, Late)
_CRASHES: Sequence[Callable[[], Fault]] = (
    lambda: Late(Crashed("while its request was in flight")),
    lambda: Raises(Crashed("before its request")),
    lambda: Raises(Crashed("after its request"), applied=True),
)


class StageFaults:
    """Draws which requests of a stage fail; `requests` and `failed` count them."""

    def __init__(self, share: float, draw: Random, *, crashes: bool) -> None:
        self.requests = 0
        self.failed = 0
        self._share = share
        self._draw = draw
        self._next = self._drawn()
        self._writes = cycle((*_CRASHES, *_LOSSES) if crashes else _LOSSES)

    def __call__(self, call: FaultCall) -> Fault | None:
        """Draw the fault of a call, if any."""
        self.requests += 1
        if self.requests <= self._next:
            return None
        self.failed += 1
        self._next = self._drawn()
        return NeverArrived() if call.operation in READS else next(self._writes)()

    def _drawn(self) -> float:
        """Draw how many requests come before the next that fails, all that failed included."""
        return (self.failed + self._draw.random()) / self._share if self._share else inf


class StageFaultStore(ForwardingStore):
    """A `Store` where the requests of state, map and reduce each have their own faults."""

    def __init__(self, inner: Store, faults: Mapping[str, StageFaults]) -> None:
        super().__init__(inner)
        self._state, self._map, self._reduce = (
            FaultyStore(inner, faults[stage]) for stage in ("state", "map", "reduce")
        )

    async def write(self, write: Write) -> Outcome:
        """Do a write, or fail: of state, or of map where a batch changes nothing."""
        partition = write.key[0]
        if partition.startswith(STATE_PREFIX):
            return await _landing(self._state, self._state.write(write))
        if partition.startswith(PIPELINE_PREFIX):
            return await _landing(self._map, self._map.write(write))
        return await self._inner.write(write)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several writes of states, or fail."""
        return await _landing(self._state, self._state.write_each(writes))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, or fail: map's begins with the lane, reduce's with entries."""
        is_map = actions[0].key[0].startswith(PIPELINE_PREFIX)
        stage = self._map if is_map else self._reduce
        return await _landing(stage, stage.transact(actions, token=token))

    async def get_each(self, gets: Sequence[Get]) -> FoundItems:
        """Read several states, or fail."""
        return await self._state.get_each(gets)

    async def get(self, get: Get) -> Item | None:
        """Read an item, or fail, if it is a state."""
        store = self._state if get.key[0].startswith(STATE_PREFIX) else self._inner
        return await store.get(get)


async def _landing(stage: FaultyStore, call: Awaitable[Answer]) -> Answer:
    """Make a stage's call, then let land what was in flight before it."""
    waiting = len(stage.in_flight)
    answer = await call
    for _ in range(min(waiting, len(stage.in_flight))):
        with suppress(StoreError):  # its caller has gone
            await stage.land()
    return answer
