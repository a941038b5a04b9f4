"""What the client makes of requests and answers that are lost: no change counts twice."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import httpx
import pytest
from support.ledgers import seeded
from support.lossy_http import (
    Fault,
    LossyTransport,
    cut,
    first,
    gateway,
    never,
    not_sent,
    refused,
    slow,
    sometimes,
)
from support.serving import SERVICE, served
from support.tiers import few_fast

from ledger.core.errors import (
    AccessDenied,
    InvalidEntry,
    KeyConflict,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    RetryHorizonPassed,
    Unreachable,
)
from ledger.core.values import Entry
from ledger.http.client import Ledger
from ledger.runtime.tasks import run_all
from ledger.testing import ManualClock, MemoryGlobalTable
from ledger.writes.change_list import ChangeLike
from ledger.writes.entry_plan import Change

RECORDS = 150


@dataclass(slots=True)
class Lossy:
    """A client, the table behind its service, and the transport between."""

    ledger: Ledger
    table: MemoryGlobalTable
    transport: LossyTransport

    async def value(self) -> Decimal:
        """Return the total as the table has it."""
        async with self.table.ledger() as ledger:
            return (await ledger.total("stock", max_age=0)).value


@asynccontextmanager
async def lossy(
    before: Fault = never, after: Fault = never, *, seed: int = 1
) -> AsyncIterator[Lossy]:
    """Open a client whose waits take no time, over a transport with these faults."""
    table = MemoryGlobalTable(clock=ManualClock(instant=True))
    async with served(table) as service:
        transport = LossyTransport(service.app, before=before, after=after)
        ledger = Ledger(SERVICE, transport=transport, clock=table.clock, randomness=seeded(seed))
        async with ledger:
            yield Lossy(ledger, table, transport)


def faults(seed: int, share: float = 0.3) -> tuple[Fault, Fault]:
    """Return faults of a seed: before the service, and after it."""
    chance = Random(seed)  # noqa: S311 (repeatable)
    before = sometimes(chance, share, refused, cut, slow, gateway, not_sent)
    return before, sometimes(chance, share, cut, slow, gateway)


@pytest.mark.parametrize("seed", few_fast(range(8), fast=1))
async def test_each_acknowledged_change_counts_once(seed: int) -> None:
    """Half of the tries are lost, before the service or after: the total is exact all the same."""
    async with lossy(*faults(seed), seed=seed) as one:
        acknowledged, doubtful, failed = 0, list[Entry](), list[LedgerError]()
        for number in range(1, RECORDS + 1):
            try:
                acknowledged += int((await one.ledger.record("stock", number)).change)
            except OutcomeUnknown as error:
                doubtful += error.entries
            except LedgerError as error:
                failed.append(error)
        assert {error.outcome for error in failed} <= {"not_applied"}
        assert one.transport.lost > RECORDS // 2
        async with one.table.ledger() as library:
            settled = await library.retry(doubtful) if doubtful else []
        assert await one.value() == acknowledged + sum(entry.change for entry in settled)


@pytest.mark.parametrize("seed", range(3))
async def test_many_and_together_count_once(seed: int) -> None:
    """In whatever call they were made."""
    async with lossy(*faults(seed), seed=seed) as one:
        expected, failed = 0, list[LedgerError]()
        for number in range(1, 40):
            asked: list[ChangeLike] = [("stock", number), Change("stock", 1000, note="n")]
            call = one.ledger.record_many if number % 2 else one.ledger.record_together
            try:
                await call(asked)
            except OutcomeUnknown as error:
                async with one.table.ledger() as library:
                    await library.retry(error.entries, together=error.together)
            except LedgerError as error:
                failed.append(error)
                continue
            expected += number + 1000
        assert {error.outcome for error in failed} <= {"not_applied"}
        assert await one.value() == expected


async def test_concurrent_changes_count_once() -> None:
    """Those of many tasks of one client."""
    async with lossy(*faults(5, 0.1)) as one:
        jobs = [partial(one.ledger.record, "stock", 1) for _ in range(100)]
        await run_all(jobs, at_once=20)
        assert await one.value() == 100


async def test_a_client_without_keys_counts_twice() -> None:
    """The negative control: the same faults, and a client that repeats what has no name."""
    before, after = faults(1)
    async with lossy(before, after) as one:
        http = httpx.AsyncClient(transport=one.transport, base_url=SERVICE)
        acknowledged = 0
        for number in range(1, RECORDS + 1):
            while True:
                try:
                    answer = await http.post(
                        "/v1/counters/stock/entries", json={"change": str(number)}
                    )
                except httpx.TransportError:
                    continue
                if answer.status_code == 201:
                    acknowledged += number
                    break
        assert await one.value() > acknowledged


@pytest.mark.parametrize("fault", [cut, slow, gateway])
async def test_a_lost_answer_is_asked_for_again(fault: Callable[[], Any]) -> None:
    """The entry is there, so the repeat finds it; every request has the same key."""
    async with lossy(after=first(2, fault)) as one:
        entry = await one.ledger.record("stock", 5)
        assert entry.repeated
        assert len({request.content for request in one.transport.requests}) == 1
        assert len(one.transport.requests) == 3
        assert await one.value() == 5


async def test_without_any_answer_the_error_names_the_entry() -> None:
    """Its id was known before anything was sent, and is that under which the service wrote it."""
    async with lossy(after=first(1_000, cut)) as one:
        with pytest.raises(OutcomeUnknown) as caught:
            await one.ledger.record("stock", 5, note="n")
        assert (caught.value.outcome, caught.value.retryable) == ("unknown", False)
        async with one.table.ledger() as library:
            there = [entry async for entry in library.history("stock")]
            assert [entry.id for entry in there] == [entry.id for entry in caught.value.entries]
            assert [there[0].change, there[0].note] == [5, "n"]
            await library.retry(caught.value.entries)
        assert await one.value() == 5


async def test_with_a_key_of_the_callers_the_same_call_is_safe() -> None:
    """So the error says that it may be repeated."""
    async with lossy(after=first(1_000, cut)) as one:
        named = {"key": "order-17", "at": one.table.clock.now()}
        with pytest.raises(OutcomeUnknown) as caught:
            await one.ledger.record("stock", 5, **named)  # type: ignore[arg-type]
        assert caught.value.retryable


async def test_a_connection_never_made_wrote_nothing() -> None:
    """After eight tries the call ends with that, and may be made again."""
    async with lossy(first(1_000, refused)) as one:
        with pytest.raises(Unreachable) as caught:
            await one.ledger.record("stock", 5)
        assert (caught.value.outcome, caught.value.retryable) == ("not_applied", True)
        assert len(one.transport.requests) == 8
        with pytest.raises(Unreachable):
            await one.ledger.total("stock")


async def test_a_doubt_outlives_later_refusals() -> None:
    """That later tries never arrived says nothing of the first one."""
    async with lossy(lambda _: None, first(1, cut)) as one:
        requests = one.transport.requests
        one.transport._before = lambda _: refused() if len(requests) > 1 else None
        with pytest.raises(OutcomeUnknown):
            await one.ledger.record("stock", 5)
        assert await one.value() == 5


async def test_an_instance_that_shuts_down_is_asked_again() -> None:
    """After the seconds that it asks for; nothing was written by it."""
    async with lossy(first(2, not_sent)) as one:
        began = one.table.clock.monotonic()
        assert not (await one.ledger.record("stock", 5)).repeated
        assert one.table.clock.monotonic() - began >= 2
        one.transport._before = first(1_000, not_sent)
        with pytest.raises(NotSent):
            await one.ledger.record("stock", 5)


@pytest.mark.slow
async def test_past_the_retry_horizon_the_service_refuses() -> None:
    """However long a call may take: its repeat is never a second change."""
    async with lossy(after=first(1_000, cut)) as one:
        with pytest.raises((OutcomeUnknown, RetryHorizonPassed)) as caught:
            await one.ledger.record(
                "stock", 5, key="order-17", at=one.table.clock.now(), timeout=3_600
            )
        assert caught.value.outcome == "unknown"
        await one.table.merge()
        with pytest.raises((OutcomeUnknown, RetryHorizonPassed)):
            await one.ledger.retry(
                [
                    Entry(
                        "stock",
                        "2026-11-21T06:50:00.000000Z#05f5fcf0067d79e9",
                        Decimal(5),
                        key="order-17",
                    )
                ]
            )
        assert await one.value() == 5


async def test_reads_are_repeated_until_their_end() -> None:
    """Lost ones too, since they change nothing."""
    async with lossy(*faults(3)) as one:
        await one.ledger.total("stock")
        one.transport._before = first(1_000, slow)
        with pytest.raises((ReadTooSlow, Unreachable)):
            await one.ledger.total("stock", timeout=5)


async def test_other_writes_are_repeated_too() -> None:
    """A count has a token, a reversal its entry, a description itself: each is done once."""
    async with lossy(after=first(1, cut)) as one:
        entry = await one.ledger.record("stock", 5)
        one.table.replicate()
        one.transport._after = first(1, cut)
        assert (await one.ledger.reverse(entry)).repeated
        one.transport._after = first(1, cut)
        assert (await one.ledger.reconcile("stock", counted=3)).repeated
        one.transport._after = first(1, cut)
        assert await one.ledger.describe("stock", {"a": 1}) == {"a": 1}
        assert await one.value() == 3
        one.transport._after = first(1_000, cut)
        for call in (
            one.ledger.reverse(entry),
            one.ledger.reconcile("stock", counted=3),
            one.ledger.describe("stock", {"a": 1}),
            one.ledger.retry([entry]),
        ):
            with pytest.raises(OutcomeUnknown):
                await call
        assert await one.value() == 3


async def test_another_server_is_said_to_be_one() -> None:
    """A page instead of an answer, or a refusal by a proxy: what became of a write is not known."""
    for status, kind in ((404, LedgerError), (301, LedgerError), (403, AccessDenied)):
        answer = partial(httpx.Response, status, text="<html>")
        async with lossy(first(2, answer)) as one:
            with pytest.raises(OutcomeUnknown, match=f"{status}, not from the ledger's service"):
                await one.ledger.record("stock", 5)
            with pytest.raises(kind, match=str(status)):
                await one.ledger.total("stock")
            assert len(one.transport.requests) == 2


async def test_of_many_those_in_doubt_are_named() -> None:
    """The others are durable; a conflict of one is raised when nothing else is open."""
    async with lossy() as one:
        at = one.table.clock.now()
        await one.ledger.record("stock", 1, key="order-17", at=at)
        asked: list[ChangeLike] = [("stock", 2), Change("stock", 7, key="order-17", at=at)]
        with pytest.raises(KeyConflict):
            await one.ledger.record_many(asked)
        assert await one.value() == 3
        one.transport._after = first(1_000, cut)
        with pytest.raises(OutcomeUnknown) as caught:
            await one.ledger.record_many([("stock", 4), ("stock", 8)])
        assert [entry.change for entry in caught.value.entries] == [4, 8]
        one.transport._after = never
        assert len(await one.ledger.retry(caught.value.entries)) == 2
        assert await one.value() == 15


LISTED = [("stock", 1), ("other", 2), *[("stock", 3)] * 150]


@pytest.mark.parametrize("seed", few_fast(range(8), fast=1))
async def test_a_list_with_a_key_counts_once(seed: int) -> None:
    """By the same call, and by `retry`, however many tries are lost before or after the service."""
    async with lossy(*faults(seed), seed=seed) as one:
        for number in range(20):
            at, entries = one.table.clock.now(), list[Entry]()
            while not entries:
                record = partial(one.ledger.record_many, LISTED, key=f"list-{number}", at=at)
                entries, error = await _outcome_of(record)
                if isinstance(error, OutcomeUnknown):
                    assert _pairs(error.entries) == LISTED
                    if number % 2:
                        entries, _ = await _outcome_of(partial(one.ledger.retry, error.entries))
            assert _pairs(entries) == LISTED
        assert await one.value() == 20 * (1 + 3 * 150)


def _pairs(entries: Sequence[Entry]) -> list[tuple[str, int]]:
    return [(entry.counter, int(entry.change)) for entry in entries]


async def _outcome_of(
    call: Callable[[], Awaitable[list[Entry]]],
) -> tuple[list[Entry], LedgerError | None]:
    try:
        return await call(), None
    except LedgerError as error:
        return [], error


async def test_a_list_with_a_key_is_one_request() -> None:
    """Of as many changes as it may have, which are amounts alone."""
    async with lossy() as one:
        at = one.table.clock.now()
        with pytest.raises(InvalidEntry, match="1,001 changes with one key"):
            await one.ledger.record_many([("stock", 1)] * 1001, key="k", at=at)
        with pytest.raises(InvalidEntry, match="an amount alone"):
            await one.ledger.record_many([Change("stock", 1, note="n")], key="k", at=at)
        with pytest.raises(InvalidEntry, match="give both, or neither"):
            await one.ledger.record_many([("stock", 1)], at=at)
        assert await one.ledger.record_many([], key="k", at=at) == []
        first_ones = await one.ledger.record_many([("stock", 1)] * 1000, key="k\u00e9y", at=at)
        again = await one.ledger.record_many([("stock", 1)] * 1000, key="k\u00e9y", at=at)
        assert again == first_ones
        assert {entry.repeated for entry in again} == {True}
        with pytest.raises(KeyConflict):
            await one.ledger.record_many([("stock", 2)] * 1000, key="k\u00e9y", at=at)
        assert await one.value() == 1000
