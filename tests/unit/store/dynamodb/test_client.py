"""How a request is tried over each transport: what is repeated, and what every answer means."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from support.ledgers import HOME, make_settings, sample
from support.scripted import (
    Step,
    ask_to_wait,
    close_connection,
    done,
    drip,
    fault,
    hang,
    reset_connection,
    with_checksum,
)
from support.strangers import refused
from support.wire import (
    EMPTY_PAGE,
    ITEM,
    NO_ANSWER,
    PUTS,
    READS,
    REFUSED,
    SINGLE,
    SLOW_DOWN,
    THROTTLED_TRIES_MAX,
    TRIES_MAX,
    WRITES,
    Call,
    Wire,
    calls,
    open_wire,
    steps,
)

from ledger.core.entry import Item
from ledger.core.errors import RequestRefused, StoreError, Throttled, Unreachable
from ledger.runtime.metrics import Metrics
from ledger.store.conditions import Absent, Equals
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Query
from ledger.store.retry import BUDGET_TOKENS
from ledger.store.writes import Applied, BatchOutcome, Check, Put, Rejected, Unknown
from ledger.testing.clock import ManualClock


@dataclass(frozen=True)
class Unheard:
    """A store whose endpoint refuses every connection."""

    store: Store
    metrics: Metrics
    clock: ManualClock

    def retries(self) -> float:
        """Return how often something was tried again."""
        return sample(self.metrics, "ledger_retries_total", cause="unreachable")


# No answer


@steps(NO_ANSWER)
@calls(WRITES, fast={"put", "batch"})
async def test_unanswered_write_is_unknown_and_not_repeated(
    wire: Wire, call: Call, step: Step
) -> None:
    """A write without an answer that can be trusted is unknown after a single request."""
    wire.server.play(step)

    outcome = await call(wire.store)

    if isinstance(outcome, BatchOutcome):
        assert outcome.unknown == tuple(range(len(PUTS)))
        assert outcome.unprocessed == ()
        assert outcome.cause
    else:
        assert isinstance(outcome, Unknown)
        assert "us-east-1, table ledger" in outcome.cause
        assert "\n" not in outcome.cause
    assert len(wire.server.requests) == 1
    assert wire.retries() == 0


@calls(WRITES)
async def test_unanswered_write_gives_no_tokens_back(wire: Wire, call: Call) -> None:
    """Only an answer fills the budget: while none comes, it runs dry."""
    budget = wire.store.retry_budget
    budget.take()
    left = budget.tokens
    wire.server.play(close_connection())

    await call(wire.store)

    assert budget.tokens == left


@pytest.fixture(scope="module")
async def impatient(transport: str) -> AsyncIterator[Wire]:
    """Open a store that waits 0.2 s for an answer."""
    async with open_wire(transport, request_timeout=0.2) as wire:
        # Connected before: on a busy machine that could take longer than the answer may.
        wire.server.play(done())
        while await SINGLE["put"](wire.store) != Applied():
            wire.server.play(done())
        yield wire


@calls(WRITES)
async def test_hanging_write_is_unknown_after_its_time(impatient: Wire, call: Call) -> None:
    """A write that is never answered is unknown once `request_timeout` is over, asked once."""
    impatient.server.play(hang())
    outcome = await call(impatient.store)

    assert isinstance(outcome, Unknown) or outcome.unknown == tuple(range(6))  # type: ignore[attr-defined]
    assert len(impatient.server.requests) <= 1  # 0: a machine so busy that none came in time


@calls(WRITES)
async def test_dripping_write_is_unknown_after_its_time(impatient: Wire, call: Call) -> None:
    """An answer that comes a byte at a time, each within its time, ends all the same."""
    impatient.server.play(drip())
    with anyio.fail_after(60):
        outcome = await call(impatient.store)

    assert isinstance(outcome, Unknown) or outcome.unknown == tuple(range(6))  # type: ignore[attr-defined]
    assert len(impatient.server.requests) == 1


@calls(READS)
async def test_hanging_read_is_repeated_after_its_time(impatient: Wire, call: Call) -> None:
    """A read that is never answered is asked again once `request_timeout` is over."""
    impatient.server.play(hang(), otherwise=EMPTY_PAGE)
    await call(impatient.store)

    assert len(impatient.server.requests) >= 2


@pytest.mark.parametrize("step", [close_connection(), reset_connection()], ids=["closed", "reset"])
async def test_kept_connection_that_breaks_is_not_tried_anew(wire: Wire, step: Step) -> None:
    """A connection used before, lost while a write waits on it, is not replaced in silence."""
    wire.server.play(done(), step)
    assert await SINGLE["put"](wire.store) == Applied()

    assert isinstance(await SINGLE["put"](wire.store), Unknown)

    assert len(wire.server.requests) == 2
    assert len(wire.server.connections) == 1


@steps(NO_ANSWER)
@calls(READS, fast={"get", "query"})
async def test_unanswered_read_is_repeated(wire: Wire, call: Call, step: Step) -> None:
    """A read without an answer is asked again, by us, and counted."""
    wire.server.play(step, otherwise=EMPTY_PAGE)

    await call(wire.store)

    assert len(wire.server.requests) == 2
    assert wire.retries() == 1


@pytest.mark.parametrize("case", ["500", "closed", "200 of a proxy"])
@calls(READS)
async def test_read_gives_up_within_its_bound(wire: Wire, call: Call, case: str) -> None:
    """A read that is never answered ends as unreachable after so many requests."""
    wire.server.play(otherwise=NO_ANSWER[case])

    with pytest.raises(Unreachable, match="us-east-1, table ledger"):
        await call(wire.store)

    assert len(wire.server.requests) == TRIES_MAX
    assert wire.retries() == TRIES_MAX - 1


@pytest.fixture(scope="module")
async def unheard(transport: str) -> AsyncIterator[Unheard]:
    """Open a store at an endpoint where no one listens."""
    metrics, clock = Metrics(), ManualClock(instant=True)
    with refused() as endpoint:
        settings = make_settings(regions={HOME: {"endpoint": endpoint}}, transport=transport)
        async with open_store(settings, HOME, metrics=metrics, clock=clock) as store:
            yield Unheard(store, metrics, clock)


@calls({**WRITES, **READS})
async def test_connection_never_made_is_retried_then_unreachable(
    unheard: Unheard, call: Call
) -> None:
    """Where no one listens nothing can have been written: tried again, then an error, no doubt."""
    unheard.store.retry_budget.give(BUDGET_TOKENS)
    before, started = unheard.retries(), unheard.clock.elapsed
    with pytest.raises(Unreachable, match="check network and endpoint"):
        await call(unheard.store)

    assert unheard.retries() - before == TRIES_MAX - 1
    assert unheard.clock.elapsed > started


# Throttled, refused, rejected


@steps(SLOW_DOWN)
@calls({**WRITES, **READS}, fast={"put", "query"})
async def test_what_did_nothing_is_tried_again(wire: Wire, call: Call, step: Step) -> None:
    """Throttling and conflicts are tried again, by us: nothing was written."""
    wire.server.play(step, step, otherwise=EMPTY_PAGE)

    outcome = await call(wire.store)

    assert not isinstance(outcome, Unknown | Rejected)
    assert not isinstance(outcome, BatchOutcome) or outcome == BatchOutcome()
    assert len(wire.server.requests) == 3
    assert wire.retries() == 2


@calls({**WRITES, **READS})
async def test_throttling_without_end_is_an_error(wire: Wire, call: Call) -> None:
    """Still throttled after every try, a call ends in an error, and nothing was written."""
    wire.server.play(otherwise=SLOW_DOWN["throughput"])

    with pytest.raises(Throttled, match="slower rate"):
        await call(wire.store)

    assert len(wire.server.requests) == THROTTLED_TRIES_MAX


@pytest.mark.parametrize(
    ("header", "least", "most"), [("4900", 4.8, 6), ("60000", 4.99, 6), ("soon", 0, 1)]
)
@calls({"put": WRITES["put"], "query": READS["query"], "transaction": WRITES["transaction"]})
async def test_the_wait_that_the_answer_asks_for_is_granted(
    wire: Wire, call: Call, header: str, least: float, most: float
) -> None:
    """The header is in milliseconds, and adds up to 5 s to the wait of up to 1 s."""
    wire.server.play(ask_to_wait(header), otherwise=EMPTY_PAGE)
    began = wire.clock.elapsed

    await call(wire.store)

    assert least <= wire.clock.elapsed - began <= most
    assert len(wire.server.requests) == 2


@calls(WRITES)
async def test_throttled_then_unanswered_is_unknown(wire: Wire, call: Call) -> None:
    """The last try decides: a write that passed the throttle and lost its answer is unknown."""
    wire.server.play(SLOW_DOWN["throughput"], close_connection())

    outcome = await call(wire.store)

    assert isinstance(outcome, Unknown) or outcome.unknown == tuple(range(6))  # type: ignore[attr-defined]
    assert len(wire.server.requests) == 2


@calls(SINGLE)
async def test_unknown_says_how_many_requests_it_took(wire: Wire, call: Call) -> None:
    """The throttled ones count as well as the one that was not answered."""
    wire.server.play(*[SLOW_DOWN["throughput"]] * 3, close_connection())

    outcome = await call(wire.store)

    assert isinstance(outcome, Unknown)
    assert outcome.requests == len(wire.server.requests) == 4


@calls(SINGLE)
async def test_throttling_with_a_status_of_the_server_is_tried_again(
    wire: Wire, call: Call
) -> None:
    """The code says that nothing was written, and counts more than the status."""
    wire.server.play(fault("ThrottlingException", status=503), done())

    assert isinstance(await call(wire.store), Applied)
    assert len(wire.server.requests) == 2


@steps(REFUSED)
@calls({**WRITES, **READS}, fast={"put", "query"})
async def test_refusal_is_raised_at_once(
    wire: Wire, call: Call, step: tuple[Step, type[StoreError]]
) -> None:
    """What DynamoDB refuses is an error of its kind after one request."""
    answer, error = step
    wire.server.play(answer)

    with pytest.raises(StoreError) as caught:
        await call(wire.store)

    assert type(caught.value) is error
    assert "\n" not in str(caught.value)
    assert len(wire.server.requests) == 1


@pytest.mark.parametrize("found", [ITEM, None], ids=["item", "nothing"])
async def test_failed_condition_is_rejected_with_what_was_there(
    wire: Wire, found: Item | None
) -> None:
    """A false condition is a value, not an error; it holds the item that was there."""
    more: dict[str, Any] = {"Item": found} if found else {}
    wire.server.play(fault("ConditionalCheckFailedException", **more))

    outcome = await wire.store.write(Put(ITEM, Equals("version", {"S": "v1"})))

    assert outcome == Rejected(found={0: found})
    assert len(wire.server.requests) == 1


def cancelled(*reasons: Mapping[str, Any]) -> Step:
    """Answer that a transaction was cancelled for these reasons."""
    return fault("TransactionCanceledException", CancellationReasons=list(reasons))


NONE = {"Code": "None"}
FAILED = {"Code": "ConditionalCheckFailed", "Message": "The conditional request failed"}
CONFLICT = {"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
THROTTLED = {"Code": "ThrottlingError", "Message": "Throughput exceeds the current capacity"}


@pytest.mark.parametrize(
    ("reasons", "found"),
    [
        ([NONE, {**FAILED, "Item": ITEM}, FAILED], {1: ITEM, 2: None}),
        ([{**FAILED, "Item": ITEM}, CONFLICT, THROTTLED], {0: ITEM}),
    ],
)
async def test_cancelled_transaction_names_what_failed(
    wire: Wire, reasons: list[Mapping[str, Any]], found: dict[int, Item | None]
) -> None:
    """A transaction whose conditions were false says which, with the items that were there."""
    wire.server.play(cancelled(*reasons))
    check = Check(("c", "lease"), Equals("epoch", {"N": "1"}))

    assert await wire.store.transact([*PUTS[:2], check]) == Rejected(found=found)
    assert len(wire.server.requests) == 1


@pytest.mark.parametrize("reasons", [[NONE, CONFLICT], [THROTTLED, NONE], [CONFLICT, THROTTLED]])
async def test_transaction_in_anothers_way_is_tried_again(
    wire: Wire, reasons: list[Mapping[str, Any]]
) -> None:
    """A transaction cancelled only for conflicts or throttling did nothing and is tried again."""
    wire.server.play(cancelled(*reasons), done())

    assert await wire.store.transact(PUTS[:2]) == Applied()
    assert wire.server.operations == ["TransactWriteItems"] * 2
    assert wire.retries() == 1


async def test_transaction_that_is_wrong_itself_is_refused(wire: Wire) -> None:
    """A transaction cancelled because an action is invalid is not tried again."""
    wire.server.play(cancelled(NONE, {"Code": "ValidationError"}, CONFLICT))

    with pytest.raises(RequestRefused):
        await wire.store.transact(PUTS[:3])
    assert len(wire.server.requests) == 1


async def test_answer_with_its_checksum_is_taken(wire: Wire) -> None:
    """An answer whose checksum is right counts, as does an error."""
    failed = {"__type": "ConditionalCheckFailedException", "Item": ITEM}
    units = {"TableName": "ledger", "CapacityUnits": 0.5}
    page = {"Items": [ITEM], "Count": 1, "ConsumedCapacity": units}
    wire.server.play(with_checksum(page), with_checksum(failed, status=400))

    assert (await wire.store.query(Query("c"))).items == [ITEM]
    assert await wire.store.write(Put(ITEM, Absent())) == Rejected(found={0: ITEM})
