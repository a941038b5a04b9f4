"""A store whose requests go wrong by the stage that makes them, before, after or long after.

Of a stage's requests a share goes wrong, drawn from the seed, in one of these ways after the other:

- the request is lost, or its answer: the caller cannot know which;
- it is late: the caller hears nothing, and it lands after the stage's next request;
- map and reduce only, the worker crashes: while the request is in flight, so that it lands when the
  lane has been begun again, before it, or after it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from random import Random

from ledger.core.entry import Item
from ledger.core.errors import StoreError
from ledger.pipeline.core.items import PIPELINE_PREFIX, STATE_PREFIX
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.wrappers.faults import Call, Fault, FaultyStore, Late, Lost, NeverArrived, Raises
from ledger.store.wrappers.forwarding import READS, Answer, ForwardingStore
from ledger.store.writes import Action, Outcome, Write


class Crashed(Exception):
    """The worker crashed, as it was to."""


# Made anew each time: an error that is raised again and again keeps all that it went through.
_QUIET: Sequence[Callable[[], Fault]] = (Lost, NeverArrived, Late)
_LOUD: Sequence[Callable[[], Fault]] = (
    lambda: Late(Crashed("while its request was in flight")),
    lambda: Raises(Crashed("before its request")),
    lambda: Raises(Crashed("after its request"), applied=True),
)


class Fates:
    """What becomes of a stage's requests; `asked` and `spoiled` count them."""

    def __init__(self, share: float, draw: Random, *, crashes: bool) -> None:
        self.asked = 0
        self.spoiled = 0
        self._share = share
        self._draw = draw
        self._writes = cycle((*_LOUD, *_QUIET) if crashes else _QUIET)

    def __call__(self, call: Call) -> Fault | None:
        """Draw what becomes of a call."""
        self.asked += 1
        if self._draw.random() >= self._share:
            return None
        self.spoiled += 1
        return NeverArrived() if call.operation in READS else next(self._writes)()


class SpoiledStore(ForwardingStore):
    """A `Store` where the requests of state, map and reduce each meet their own fates."""

    def __init__(self, inner: Store, fates: Mapping[str, Fates]) -> None:
        super().__init__(inner)
        self._state, self._map, self._reduce = (
            FaultyStore(inner, fates[stage]) for stage in ("state", "map", "reduce")
        )

    async def write(self, write: Write) -> Outcome:
        """Do a write, or go wrong: of state, or of map where a batch changes nothing."""
        partition = write.key[0]
        if partition.startswith(STATE_PREFIX):
            return await _landing(self._state, self._state.write(write))
        if partition.startswith(PIPELINE_PREFIX):
            return await _landing(self._map, self._map.write(write))
        return await self._inner.write(write)

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, or go wrong: map's begins with the lane, reduce's with entries."""
        is_map = actions[0].key[0].startswith(PIPELINE_PREFIX)
        stage = self._map if is_map else self._reduce
        return await _landing(stage, stage.transact(actions, token=token))

    async def get(self, get: Get) -> Item | None:
        """Read an item, or go wrong, if it is a state."""
        store = self._state if get.key[0].startswith(STATE_PREFIX) else self._inner
        return await store.get(get)


async def _landing(stage: FaultyStore, call: Awaitable[Answer]) -> Answer:
    """Make a stage's call, then let land what was in flight before it."""
    waiting = len(stage.in_flight)
    answer = await call
    for _ in range(min(waiting, len(stage.in_flight))):
        with suppress(StoreError):  # nobody waits for its answer
            await stage.land()
    return answer
