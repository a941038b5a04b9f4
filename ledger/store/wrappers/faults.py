"""A store that injects faults, to show what a program does when DynamoDB fails.

Public API for tests of programs that use the ledger. A fault is a value:

- `Lost`: the write is applied, its answer is lost: `Unknown`;
- `NeverArrived`: the write is not applied: `Unknown` as well;
- `Late`: `Unknown` now, applied when the test calls `land`, like a request still in flight;
- `Partial`: of a batch, some positions stay unprocessed, some are lost, some never arrive (with
  `write_each`, unprocessed ones are `Throttled`);
- `Raises`: an error instead of an answer: `Throttled`, `Unreachable`, or a crash; only a crash may
  follow an applied request;
- `Slow`: time passes before the request, after it, or both; another fault may follow.

A read has no outcome except its answer: where a write would be unknown, it raises `Unreachable`.

Any callable can decide which calls fail; `InOrder` and `Seeded` are two::

    store = FaultyStore(MemoryStore("eu-west-1"), InOrder(Lost(), None, Raises(Throttled("slow"))))
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from ledger.core.errors import StoreError, Throttled, Unreachable
from ledger.runtime.clock import Clock, SystemClock
from ledger.store.port import Store
from ledger.store.wrappers.forwarder import READS, Answer, ForwardingStore, Operation
from ledger.store.writes import (
    Action,
    BatchOutcome,
    BatchWrite,
    EachOutcome,
    Outcome,
    Unknown,
    Write,
)


@dataclass(frozen=True, slots=True)
class Lost:
    """The write is applied, and its answer is lost."""


@dataclass(frozen=True, slots=True)
class NeverArrived:
    """The write is not applied, and the caller cannot know that."""


@dataclass(frozen=True, slots=True)
class Late:
    """The caller gets no answer; the write stays in `FaultyStore.in_flight` until it lands.

    A `crash` is raised: the caller died while its request was in flight.
    """

    crash: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Partial:
    """Positions of a batch: left unprocessed, applied but unknown, not applied but unknown."""

    unprocessed: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()
    never_arrived: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Raises:
    """An error instead of an answer; `applied` is for crashes: a `StoreError` leaves no write."""

    error: BaseException
    applied: bool = False


@dataclass(frozen=True, slots=True)
class Slow:
    """Seconds pass before the request, after it, or both; `then` is a further fault."""

    before_seconds: float = 0.0
    after_seconds: float = 0.0
    then: "Fault | None" = None


Fault = Lost | NeverArrived | Late | Partial | Raises | Slow


@dataclass(frozen=True, slots=True)
class FaultCall:
    """One call of the store: its number (from 1), its operation, and its number of actions."""

    number: int
    operation: Operation
    size: int = 1


Decide = Callable[[FaultCall], Fault | None]


class InOrder:
    """The first call gets the first fault, and so on; None, and calls after the last, succeed."""

    def __init__(self, *faults: Fault | None) -> None:
        self._left = deque(faults)

    def __call__(self, call: FaultCall) -> Fault | None:
        """Return the next fault."""
        del call
        return self._left.popleft() if self._left else None


class Seeded:
    """A share of all calls fails, in ways that the seed alone decides."""

    def __init__(self, seed: int, *, share: float = 0.3) -> None:
        self._random = Random(seed)  # noqa: S311 (faults must be repeatable)
        self._share = share

    def __call__(self, call: FaultCall) -> Fault | None:
        """Draw the fault of a call."""
        draw = self._random
        if draw.random() >= self._share:
            return None
        raised = draw.choice((Raises(Throttled("slow down")), Raises(Unreachable("no connection"))))
        if call.operation in READS:
            return raised
        if call.operation in {"write_batch", "write_each"} and draw.random() < 0.5:  # noqa: PLR2004 (a coin)
            return self._partial(call.size)
        return draw.choice((Lost(), NeverArrived(), Late(), raised))

    def _partial(self, size: int) -> Partial:
        fates = [self._random.randrange(4) for _ in range(size)]
        left, lost, never = (
            tuple(place for place, fate in enumerate(fates) if fate == kind) for kind in (1, 2, 3)
        )
        return Partial(left, lost, never)


class FaultyStore(ForwardingStore):
    """A `Store` that forwards calls, each under the fault that `decide` returns for it.

    `in_flight` holds the writes that have not landed yet; `calls` counts every call.
    """

    def __init__(self, inner: Store, decide: Decide, *, clock: Clock | None = None) -> None:
        super().__init__(inner)
        self.calls = 0
        self.decide = decide
        self.in_flight: deque[Callable[[], Awaitable[object]]] = deque()
        self._clock = clock or SystemClock()

    async def land(self) -> object:
        """Apply the write that has been in flight longest and return its undelivered answer."""
        return await self.in_flight.popleft()()

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, under its fault."""
        fault = self._decided("write", 1)
        return await self._face(fault, lambda: self._inner.write(write), Unknown(_cause(fault)))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, under its fault."""
        fault = self._decided("transact", len(actions))
        send = partial(self._inner.transact, actions, token=token)
        return await self._face(fault, send, Unknown(_cause(fault)))

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch, under a fault of the whole batch or of its parts."""
        fault = self._decided("write_batch", len(writes))
        parts = fault.then if isinstance(fault, Slow) else fault
        if isinstance(parts, Partial):
            send = partial(self._send_part, writes, parts)
        else:
            send = partial(self._inner.write_batch, writes)
        lost = BatchOutcome(unknown=tuple(range(len(writes))), cause=_cause(fault))
        return await self._face(fault, send, lost)

    async def write_each(self, writes: Sequence[Write]) -> EachOutcome:
        """Do several conditional writes, under a fault of all or of some."""
        fault = self._decided("write_each", len(writes))
        parts = fault.then if isinstance(fault, Slow) else fault
        if isinstance(parts, Partial):
            send = partial(self._send_some, writes, parts)
        else:
            send = partial(self._inner.write_each, writes)
        lost = EachOutcome((Unknown(_cause(fault)),) * len(writes))
        return await self._face(fault, send, lost)

    async def _carry(self, operation: Operation, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a read, under its fault."""
        return await self._face(self._decided(operation, 1), send)

    async def _send_part(self, writes: Sequence[BatchWrite], parts: Partial) -> BatchOutcome:
        """Send the writes that arrive; those left unprocessed keep their positions."""
        held = {*parts.unprocessed, *parts.never_arrived}
        sent = [place for place in range(len(writes)) if place not in held]
        answer = BatchOutcome()
        if sent:
            answer = await self._inner.write_batch([writes[place] for place in sent])
        left = {sent[place] for place in answer.unprocessed} | set(parts.unprocessed)
        unknown = {sent[place] for place in answer.unknown}
        unknown |= {*parts.lost, *parts.never_arrived}
        places = range(len(writes))
        return BatchOutcome(
            unprocessed=tuple(place for place in places if place in left),
            unknown=tuple(place for place in places if place in unknown - left),
            cause=answer.cause or _cause(parts),
        )

    async def _send_some(self, writes: Sequence[Write], parts: Partial) -> EachOutcome:
        """Send the writes that arrive, and return of each write what its fault leaves known."""
        held = {*parts.unprocessed, *parts.never_arrived}
        sent = [place for place in range(len(writes)) if place not in held]
        known: dict[int, Outcome | StoreError] = {}
        if sent:
            answer = await self._inner.write_each([writes[place] for place in sent])
            known = dict(zip(sent, answer.outcomes, strict=True))
        for place in (*parts.lost, *parts.never_arrived):
            known[place] = Unknown(_cause(parts))
        for place in parts.unprocessed:
            known[place] = Throttled(_cause(parts))
        return EachOutcome(tuple(known[place] for place in range(len(writes))))

    def _decided(self, operation: Operation, size: int) -> Fault | None:
        self.calls += 1
        return self.decide(FaultCall(self.calls, operation, size))

    async def _face(
        self,
        fault: Fault | None,
        send: Callable[[], Awaitable[Answer]],
        lost: Answer | None = None,
    ) -> Answer:
        """Send a call under a fault; if `lost` is None, as for a read, a lost answer raises."""
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
                self.in_flight.append(send)
                if fault.crash is not None:
                    raise fault.crash
        if lost is None:
            raise Unreachable(_cause(fault))
        return lost


def _cause(fault: Fault | None) -> str:
    return f"injected: {fault}"
