"""Budgets of the client: outcomes and errors of the library, and no spend counts twice."""

import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

import httpx
import pytest
from support.ledgers import seeded
from support.lossy_http import Fault, LossyTransport, cut, first, never, refused
from support.serving import SERVICE, served

from ledger.budgets import budget as library
from ledger.budgets.spend_request import Granted, Refused
from ledger.core.errors import (
    BudgetMissing,
    InvalidAmount,
    InvalidInput,
    OutcomeUnknown,
    StateConflict,
)
from ledger.core.values import Entry
from ledger.http import client
from ledger.http.client import budgets
from ledger.http.client import sync as client_sync
from ledger.testing import ManualClock, MemoryGlobalTable

BY_THE_LIBRARY_ALONE = {
    *("raise_limit", "lower_limit", "go_on"),  # operators have `ledger budget`
}


@asynccontextmanager
async def lossy(
    before: Fault = never, after: Fault = never
) -> AsyncIterator[tuple[client.Ledger, MemoryGlobalTable]]:
    """Open a client whose waits take no time, over a transport with these faults."""
    rules: dict[str, Any] = {"key/*": {}, "team/*": {}, "stock/*": {"credits": "on"}}
    table = MemoryGlobalTable(clock=ManualClock(instant=True), budgets=rules)
    async with table.table() as direct:
        await direct.budget("key/42").create(10)
        await direct.budget("team/7").create(5)
        await direct.budget("stock/7").create(0)
    async with served(table) as service:
        transport = LossyTransport(service.app, before=before, after=after)
        made = client.Ledger(SERVICE, transport=transport, clock=table.clock, randomness=seeded(1))
        async with made as opened:
            yield opened, table


async def test_a_spend_is_granted_or_refused_as_by_the_library() -> None:
    """With the same values; a refusal is false."""
    async with lossy() as (remote, table):
        key, at = "call-17", table.clock.now()
        budget = remote.budget("key/42")
        granted = await budget.spend(Decimal("6.50"), note="call", key=key, at=at)
        again = await budget.spend(Decimal("6.50"), note="call", key=key, at=at)
        assert isinstance(granted, Granted)
        assert isinstance(again, Granted)
        assert granted.entry.spending is not None
        assert granted.entry == again.entry
        assert (granted.entry.repeated, again.entry.repeated) == (False, True)
        refused = await budget.spend(4)
        assert refused == Refused("key/42", Decimal(4), Decimal("3.5"), Decimal(0))
        assert not refused
        async with table.ledger() as direct:
            assert (await direct.total("key/42", max_age=0)).value == Decimal("-6.5")


@pytest.mark.parametrize("lost", ["nothing", "request", "answer"])
async def test_a_credit_is_made_once(lost: str) -> None:
    """Also where requests and answers are lost; with its key it is repeated as one."""
    before = first(1, refused) if lost == "request" else never
    after = first(1, cut) if lost == "answer" else never
    async with lossy(before, after) as (remote, table):
        budget, at = remote.budget("stock/7"), table.clock.now()
        credited = await budget.credit(5, note="delivery")
        assert [credited.entry.change, credited.entry.note] == [5, "delivery"]
        keyed = [await budget.credit(2, key="delivery-2", at=at, wait=1) for _ in range(2)]
        assert [one.entry.repeated for one in keyed] == [False, True]
        async with table.ledger() as direct:
            assert (await direct.total("stock/7", max_age=0)).value == 7
        assert (await budget.state()).waiting == 7  # of the service that the client asks
        table.replicate()
        await table.pass_time(5)
        assert (await budget.credit(2, key="delivery-2", at=at)).is_spendable


async def test_a_credit_without_an_answer_is_unknown() -> None:
    """Without a key the same call would be another."""
    async with lossy(after=lambda _: cut()) as (remote, table):
        for key, is_safe in ((None, False), ("delivery-1", True)):
            at = None if key is None else table.clock.now()
            with pytest.raises(OutcomeUnknown, match="credit of 'stock/7'") as found:
                await remote.budget("stock/7").credit(5, key=key, at=at)
            assert found.value.retryable is is_safe


async def test_several_budgets_are_spent_from_all_or_none() -> None:
    """The refusal names the one that had too little."""
    async with lossy() as (remote, _):
        both = remote.budgets(["key/42", "team/7"])
        assert await both.spend(4)
        refused = await both.spend(4)
        assert isinstance(refused, Refused)
        assert (refused.budget, int(refused.here)) == ("team/7", 1)


async def test_a_hold_is_settled_extended_and_voided() -> None:
    """By what `hold` returned, or by its entry in another process."""
    async with lossy() as (remote, table):
        budget = remote.budget("key/42")
        hold = await budget.hold(8, expires=timedelta(minutes=10))
        assert isinstance(hold, budgets.Hold)
        until = table.clock.now().replace(microsecond=0) + timedelta(hours=1)
        extended = await hold.extend(until)
        assert extended.entry.spending is not None
        assert extended.entry.spending.hold == int(until.timestamp())
        settled = await budget.held(hold.entry).settle(2)
        again = await hold.settle(2)
        assert isinstance(settled, Granted)
        assert isinstance(again, Granted)
        assert settled.entry.change == -2
        assert (settled.entry.repeated, again.entry.repeated) == (False, True)
        with pytest.raises(StateConflict, match="resolved before"):
            await hold.void()
        other = await budget.hold(8, expires=600)
        assert isinstance(other, budgets.Hold)
        assert not await other.settle(9)
        (voided,) = await budget.void_many([other])
        assert isinstance(voided, Granted)
        late = await budget.settle_many([(other, 1), (hold, 2)])
        assert [type(each) for each in late] == [StateConflict, Granted]


async def test_a_limit_is_made_and_shown() -> None:
    """The state is the library's, with every part."""
    async with lossy() as (remote, table):
        budget = remote.budget("key/43")
        with pytest.raises(BudgetMissing):
            await budget.spend(1)
        assert await budget.create(Decimal("2.5"))
        assert not await budget.create(Decimal("2.5"))
        first = remote.budget("key/first")
        assert await first.create(3, id="delivery-1")
        assert not await first.create(3, id="delivery-1")
        with pytest.raises(StateConflict, match="raise 'delivery-2' has not made"):
            await first.create(3, id="delivery-2")
        assert await budget.spend(1)
        async with table.table() as direct:
            assert await budget.state() == await direct.budget("key/43").state()
        assert "2.5" in await budget.explain()


async def test_what_is_lost_is_asked_for_again_under_the_same_key() -> None:
    """So an answer that is lost spends once, with a key of the caller or without."""
    async with lossy(after=first(3, cut)) as (remote, table):
        assert await remote.budget("key/42").spend(4)
        async with table.ledger() as direct:
            assert (await direct.total("key/42", max_age=0)).value == -4


async def test_without_any_answer_the_outcome_is_unknown() -> None:
    """The same call may be repeated if it has a key; else it would be another spend."""
    async with lossy(after=first(1_000, cut)) as (remote, table):
        keyed: list[dict[str, Any]] = [{}, {"key": "call-17", "at": table.clock.now()}]
        for named in keyed:
            with pytest.raises(OutcomeUnknown) as caught:
                await remote.budget("key/42").spend(1, **named)
            assert caught.value.retryable == bool(named)


async def test_a_refusal_after_a_lost_answer_proves_nothing() -> None:
    """The lost try may have taken what is missing now: its outcome is unknown."""
    async with lossy(before=first(1, cut)) as (remote, table):
        async with table.table() as direct:
            assert await direct.budget("key/42").spend(10)
        with pytest.raises(OutcomeUnknown):
            await remote.budget("key/42").spend(1)
        assert await remote.budget("key/42").spend(1) == Refused(
            "key/42", Decimal(1), Decimal(0), Decimal(0)
        )


async def test_what_was_not_sent_is_asked_again() -> None:
    """A connection that was refused leaves no doubt."""
    async with lossy(before=first(2, refused)) as (remote, _):
        assert await remote.budget("key/42").spend(1)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"amount": 0.5}, InvalidAmount),
        ({"amount": -1}, InvalidAmount),
        ({"amount": 1, "wait": -1}, InvalidInput),
        ({"amount": 1, "timeout": 0}, InvalidInput),
    ],
)
async def test_a_value_that_breaks_a_rule_is_refused(
    options: dict[str, Any], error: type[InvalidInput]
) -> None:
    """Here, or by the service."""
    async with lossy() as (remote, _):
        with pytest.raises(error):
            await remote.budget("key/42").spend(**options)
        with pytest.raises(error):
            await remote.budget("key/42").hold(**options, expires=9)


def test_names_entries_and_expiries_are_checked() -> None:
    """Before anything is sent."""
    remote = client.Ledger("http://ledger.test")
    for names in ("key", [], ["key", "key"]):
        with pytest.raises(InvalidInput, match="different counters"):
            remote.budgets(names)
    wrong: Any = "entry"
    with pytest.raises(InvalidInput, match="Entry"):
        remote.budget("key").held(wrong)
    with pytest.raises(InvalidInput, match=r"has the id of its entry, .*got 'x'"):
        remote.budget("key").held(Entry("key", "x", Decimal(0)))


@pytest.mark.parametrize("name", ["Budgets", "Budget", "Hold"])
def test_the_methods_are_the_librarys(name: str) -> None:
    """The same parameters, but `light`, which is of a process that spends by itself."""
    theirs, ours = getattr(library, name), getattr(budgets, name)
    sync = getattr(client_sync, name)
    public = {one for one in dir(theirs) if not one.startswith("_")} - BY_THE_LIBRARY_ALONE
    assert public == {one for one in dir(ours) if not one.startswith("_")}
    assert public <= set(dir(sync))
    for one in public - {"entry", "name", "names"}:
        parameters = dict(inspect.signature(getattr(theirs, one)).parameters)
        parameters.pop("light", None)
        for mine in (ours, sync):
            found = inspect.signature(getattr(mine, one)).parameters
            assert list(found) == list(parameters), one
            assert [parameter.default for parameter in found.values()] == [
                parameter.default for parameter in parameters.values()
            ], one


class WithService(client.Ledger):
    """A client that runs the service, too, in the loop in which it is opened."""

    async def __aenter__(self) -> Self:
        self._service = AsyncExitStack()
        table = MemoryGlobalTable(budgets={"key/*": {}, "team/*": {}})
        service = await self._service.enter_async_context(served(table))
        self._clock = table.clock
        self._transport = httpx.ASGITransport(service.app)
        return await super().__aenter__()

    async def close(self) -> None:
        """Close the client, then the service."""
        await super().close()
        await self._service.aclose()


def test_plain_calls_do_the_same() -> None:
    """For scripts: limits, spends, holds, and what becomes of them."""
    with client_sync.Ledger(WithService(SERVICE)) as remote:
        budget = remote.budget("key/42")
        assert budget.name == "key/42"
        assert budget.create(10)
        assert remote.budget("team/7").create(9)
        both = remote.budgets(["key/42", "team/7"])
        assert both.names == ("key/42", "team/7")
        assert both.spend(4)
        hold = budget.hold(2, expires=60)
        assert isinstance(hold, client_sync.Hold)
        assert not budget.hold(5, expires=60)
        assert hold.extend(600).entry == hold.entry
        assert budget.settle_many([(budget.held(hold.entry), 1)])[0]
        other = budget.hold(2, expires=60)
        assert isinstance(other, client_sync.Hold)
        assert budget.void_many([other])[0]
        assert int(budget.state().free) + int(budget.state().granted) == 10
