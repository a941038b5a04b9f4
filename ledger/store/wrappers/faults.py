"""A store that goes wrong on purpose, to show what a program does when DynamoDB does.

Shipped as public API for tests of programs that use the ledger. What goes wrong is a value:

- `Lost`: the write is applied, its answer is lost: `Unknown`;
- `NeverArrived`: the write is not applied: `Unknown` all the same;
- `Late`: `Unknown` now, applied when the test calls `land`, as a request still in flight;
- `Partial`: of a batch, some positions stay unprocessed, some are lost, some never arrive;
- `Raises`: an error instead of an answer: `Throttled`, `Unreachable`, or a crash, which alone may
  come after the request was applied;
- `Slow`: time passes before the request, after it, or both; then another fault may follow.

A read has no outcome but its answer: where a write would be unknown, it raises `Unreachable`.

Which calls go wrong is decided by any callable; `InOrder` and `Seeded` are two::

    store = FaultyStore(MemoryStore("eu-west-1"), InOrder(Lost(), None, Raises(Throttled("slow"))))
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, TypeVar

from ledger.core.entry import Item
from ledger.core.errors import Throttled, Unreachable
from ledger.runtime.clock import Clock, SystemClock
from ledger.store.port import Store
from ledger.store.reads import Get, Page, Query, Scan
from ledger.store.retry import RetryBudget
from ledger.store.writes import Action, BatchOutcome, BatchWrite, Outcome, Unknown, Write

Answer = TypeVar("Answer")
Operation = Literal["write", "write_batch", "transact", "get", "query", "scan"]
READS: frozenset[Operation] = frozenset({"get", "query", "scan"})


@dataclass(frozen=True, slots=True)
class Lost:
    """The write is applied, and its answer is lost."""


@dataclass(frozen=True, slots=True)
class NeverArrived:
    """The write is not applied, and the caller cannot know."""


@dataclass(frozen=True, slots=True)
class Late:
    """The caller hears nothing; the write waits in `FaultyStore.flying` until it lands.

    With a `crash`, that is raised: the caller died while its request was in flight.
    """

    crash: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """By position in a batch: left unprocessed, applied but unknown, not applied but unknown."""

    unprocessed: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    never_arrived: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Raises:
    """This error instead of an answer; `applied` is for crashes: no store error leaves a write."""

    error: BaseException
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Slow:
    """Seconds pass before the request, after it, or both; `then` is what else goes wrong."""

    before_seconds: float = 0.0
    after_seconds: float = 0.0
    then: "Fault | None" = None


Fault = Lost | NeverArrived | Late | Partial | Raises | Slow


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the store: the how-manyth (from 1), of what, with how many actions."""

    number: int
    operation: Operation
    size: int = 1


Decide = Callable[[Call], Fault | None]


class InOrder:
    """The first call meets the first fault, and so on; None and what comes after go well."""

    def __init__(self, *faults: Fault | None) -> None:
        self._left = deque(faults)

    def __call__(self, call: Call) -> Fault | None:
        """Return the next fault."""
        del call
        return self._left.popleft() if self._left else None


class Seeded:
    """Of all calls this share goes wrong, in ways that the seed alone decides."""

    def __init__(self, seed: int, *, share: float = 0.3) -> None:
        self._random = Random(seed)  # noqa: S311 (faults are no secret, and must be repeatable)
        self._share = share

    def __call__(self, call: Call) -> Fault | None:
        """Draw what becomes of a call."""
        draw = self._random
        if draw.random() >= self._share:
            return None
        raised = draw.choice((Raises(Throttled("slow down")), Raises(Unreachable("no connection"))))
        if call.operation in READS:
            return raised
        if call.operation == "write_batch" and draw.random() < 0.5:  # noqa: PLR2004 (a coin)
            return self._partial(call.size)
        return draw.choice((Lost(), NeverArrived(), Late(), raised))

    def _partial(self, size: int) -> Partial:
        fates = [self._random.randrange(4) for _ in range(size)]
        left, lost, never = (
            tuple(place for place, fate in enumerate(fates) if fate == kind) for kind in (1, 2, 3)
        )
        return Partial(left, lost, never)


class FaultyStore:
    """A `Store` that passes calls on, except for what `decide` makes of them.

    `flying` holds the writes that are still to land; `calls` counts every call.
    """

    def __init__(self, inner: Store, decide: Decide, *, clock: Clock | None = None) -> None:
        self.calls = 0
        self.decide = decide
        self.flying: deque[Callable[[], Awaitable[object]]] = deque()
        self._inner = inner
        self._clock = clock or SystemClock()

    @property
    def region(self) -> str:
        """The region of the store behind."""
        return self._inner.region

    @property
    def retry_budget(self) -> RetryBudget:
        """The budget of the store behind."""
        return self._inner.retry_budget

    async def land(self) -> object:
        """Apply the write that has been in flight longest; returns the answer nobody gets."""
        return await self.flying.popleft()()

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, or go wrong."""

        async def send() -> Outcome:
            return await self._inner.write(write)

        fault = self._decided("write", 1)
        return await self._face(fault, send, Unknown(_cause(fault)))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, or go wrong."""

        async def send() -> Outcome:
            return await self._inner.transact(actions, token=token)

        fault = self._decided("transact", len(actions))
        return await self._face(fault, send, Unknown(_cause(fault)))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch, or go wrong, as a whole or in part."""
        fault = self._decided("write_batch", len(writes))
        partial = fault.then if isinstance(fault, Slow) else fault

        async def send() -> BatchOutcome:
            if isinstance(partial, Partial):
                return await self._send_part(writes, partial)
            return await self._inner.write_batch(writes)

        lost = BatchOutcome(unknown=tuple(range(len(writes))), cause=_cause(fault))
        return await self._face(fault, send, lost)

    async def _send_part(self, writes: Sequence[BatchWrite], partial: Partial) -> BatchOutcome:
        """Send what arrives; what the store behind leaves undone keeps its place."""
        held = {*partial.unprocessed, *partial.never_arrived}
        sent = [place for place in range(len(writes)) if place not in held]
        answer = BatchOutcome()
        if sent:
            answer = await self._inner.write_batch([writes[place] for place in sent])
        left = {sent[place] for place in answer.unprocessed} | set(partial.unprocessed)
        unknown = {sent[place] for place in answer.unknown}
        unknown |= {*partial.lost, *partial.never_arrived}
        places = range(len(writes))
        return BatchOutcome(
            unprocessed=tuple(place for place in places if place in left),
            unknown=tuple(place for place in places if place in unknown - left),
            cause=answer.cause or _cause(partial),
        )

    async def get(self, get: Get) -> Item | None:
        """Read one item, or go wrong."""
        fault = self._decided("get", 1)
        return await self._face(fault, lambda: self._inner.get(get))

    async def query(self, query: Query) -> Page:
        """Read one page of a partition, or go wrong."""

        async def send() -> Page:
            return await self._inner.query(query)

        return await self._face(self._decided("query", 1), send)

    async def scan(self, scan: Scan) -> Page:
        """Read one page of one segment, or go wrong."""

        async def send() -> Page:
            return await self._inner.scan(scan)

        return await self._face(self._decided("scan", 1), send)

    async def close(self) -> None:
        """Close the store behind."""
        await self._inner.close()

    def _decided(self, operation: Operation, size: int) -> Fault | None:
        self.calls += 1
        return self.decide(Call(self.calls, operation, size))

    async def _face(
        self,
        fault: Fault | None,
        send: Callable[[], Awaitable[Answer]],
        lost: Answer | None = None,
    ) -> Answer:
        """Do a call under this fault; without a `lost` answer, as in a read, losing it raises."""
        match fault:
            case None | Partial():
                return await send()
            case Slow():
                await self._clock.sleep(fault.before_seconds)
                answer = await self._face(fault.then, send, lost)
                await self._clock.sleep(fault.after_seconds)
                return answer
            case Raises():
                if fault.applied:
                    await send()
                raise fault.error
            case Lost():
                await send()
            case Late() if lost is not None:
                self.flying.append(send)
                if fault.crash is not None:
                    raise fault.crash
        if lost is None:
            raise Unreachable(_cause(fault))
        return lost


def _cause(fault: Fault | None) -> str:
    return f"injected: {fault}"
