"""What the SDK's own retries do to each method: one change, whose first answer is lost.

AWS's SDKs repeat by themselves what got no answer, with the same bytes: a transaction under the
token that the SDK made for the call, a write of one item with nothing that says that it is a
repeat. The library turns that off (`store/transports/sdk.py`); here it is on, in front of each
method, on the model.
"""

from collections.abc import Awaitable, Callable, Sequence

from lab.compare.figures import SdkRetried
from lab.compare.options import CompareOptions
from lab.compare.participants import Participants
from lab.compare.ways import WAYS
from lab.harness.model import Model
from ledger.primitives.counters import new_token
from ledger.runtime.services import Services
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost
from ledger.store.wrappers.forwarder import READS, ForwardingStore
from ledger.store.writes import Action, Outcome, Rejected, Unknown, Write

TRIES = 3
"""The SDKs' default (`max_attempts` of the mode `standard`, the first try included)."""


class _FirstAnswerLost:
    """Loses the answer of the first write; reads have theirs."""

    def __init__(self) -> None:
        self._is_lost = False

    def __call__(self, call: FaultCall) -> Fault | None:
        if call.operation in READS or self._is_lost:
            return None
        self._is_lost = True
        return Lost()


class SdkRetries(ForwardingStore):
    """A store whose SDK repeats unanswered writes by itself; `answers` are what it then returned.

    The SDK's tokens are made of `name` and a number.
    """

    def __init__(self, inner: Store, name: str) -> None:
        super().__init__(inner)
        self._name = name
        self.answers: list[Outcome] = []

    async def write(self, write: Write) -> Outcome:
        """Do one conditional write, as often as the SDK does."""
        return await self._repeat(lambda: self._inner.write(write))

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, each time under the caller's token or else the SDK's."""
        sent = token or f"{self._name}-{len(self.answers)}"
        return await self._repeat(lambda: self._inner.transact(actions, token=sent))

    async def _repeat(self, send: Callable[[], Awaitable[Outcome]]) -> Outcome:
        outcome = await send()
        for _ in range(TRIES - 1):
            if not isinstance(outcome, Unknown):
                break
            outcome = await send()
        self.answers.append(outcome)
        return outcome


async def retried_by_sdk(model: Model, method: str, options: CompareOptions) -> SdkRetried:
    """Make a change of +1 whose first answer is lost: with the SDK's retries, and without."""
    name = f"sdk-{method}"
    participants = Participants(model, method, "sdk", options.seed)
    home = model.stores[participants.home]
    lossy = SdkRetries(FaultyStore(home, _FirstAnswerLost(), clock=model.clock), name)
    with_retries = await _once(model, method, name, lossy, participants)
    without = FaultyStore(home, _FirstAnswerLost(), clock=model.clock)
    alone = await _once(model, method, f"{name}-off", without, participants)
    return SdkRetried(method, answer_of(lossy.answers[0]), *with_retries, *alone)


async def _once(
    model: Model, method: str, name: str, store: Store, participants: Participants
) -> tuple[str, int]:
    """Return what `add` reports of one change, and what is kept of it."""
    client = participants.client(name)
    make = WAYS[method].make
    reliable = make(
        model.stores[participants.home],
        name,
        services=Services.of(clock=model.clock, randomness=client.randomness),
    )
    await reliable.add(1, token=new_token(model.clock.now(), client.randomness))
    counter = make(
        store, name, services=Services.of(clock=model.clock, randomness=client.randomness)
    )
    outcome = await counter.add(1, token=new_token(model.clock.now(), client.randomness))
    return answer_of(outcome), int(await reliable.value()) - 1


def answer_of(outcome: Outcome) -> str:
    """Return an outcome in a word or two."""
    if isinstance(outcome, Rejected):
        return "condition failed" if outcome.reason == "condition" else outcome.reason
    return type(outcome).__name__.lower()
