"""Totals corrected by physical counts: once for each count, whatever comes in between."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ledgers import AWAY, HOME, LOCAL, make_settings, seeded

from compactor import Compactor
from ledger import sync
from ledger.core.contract import NO_HOME
from ledger.core.entry import net_item
from ledger.core.errors import (
    AmountOverflow,
    DamagedItem,
    HomeMoving,
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    LedgerError,
    OutcomeUnknown,
    StateConflict,
)
from ledger.core.reconciliation import Reconciled
from ledger.core.values import NetChange
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.ledger import Ledger
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Late, Lost, NeverArrived
from ledger.store.wrappers.forwarder import READS, Answer, ForwardingStore, Operation
from ledger.store.writes import Action, Outcome, Put
from ledger.testing.clock import START, ManualClock


def make_book(store: Store, clock: ManualClock, *, seed: int = 7, **overrides: Any) -> Ledger:
    """Return a ledger of the home region over a store and a clock."""
    return Ledger(
        make_settings(**overrides),
        region=HOME,
        given=GivenConnections(store=store, others={AWAY: MemoryStore(AWAY)}),
        services=Services.of(clock=clock, randomness=seeded(seed)),
    )


async def value(book: Ledger) -> Decimal:
    """Return the total of now."""
    return (await book.total("stock", max_age=0)).value


class Between(MemoryStore):
    """A store in which others act once, before a transaction."""

    def __init__(self, act: Callable[[MemoryStore], Awaitable[object]]) -> None:
        super().__init__(HOME)
        self._act: Callable[[MemoryStore], Awaitable[object]] | None = act

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, after the others."""
        if self._act is not None:
            act, self._act = self._act, None
            await act(MemoryStore(HOME, self.table))
        return await super().transact(actions, token=token)


class BetweenReads(ForwardingStore):
    """A store in which others act once, after the answer of so many reads of a call."""

    def __init__(self, act: Callable[[Store], Awaitable[object]], *, after: int) -> None:
        super().__init__(MemoryStore(HOME))
        self._act, self._left = act, after
        self.is_watched = False

    async def _carry(self, operation: Operation, call: Callable[[], Awaitable[Answer]]) -> Answer:
        answer = await super()._carry(operation, call)
        if operation in READS and self.is_watched:
            self._left -= 1
            if self._left == 0:
                await self._act(self._inner)
        return answer


@pytest.mark.parametrize("after", range(1, 6))
async def test_a_repeat_beside_the_call_returns_its_correction(after: int) -> None:
    """Whenever the other one ends, between two reads of this one."""
    clock = ManualClock(instant=True)
    counted_at = clock.now()
    made = list[Reconciled]()

    async def other(store: Store) -> None:
        async with make_book(store, clock, seed=8) as book:
            made.append(await book.reconcile("stock", counted=97, at=counted_at, token="t"))

    store = BetweenReads(other, after=after)
    async with make_book(store, clock) as book:
        await book.record("stock", 100)
        clock.pass_by(1)
        store.is_watched = True
        done = await book.reconcile("stock", counted=97, at=counted_at, token="t")
        assert (done.entry, done.repeated) == (made[0].entry, True)
        assert await value(book) == 97


async def test_a_count_corrects_the_total() -> None:
    """What differs is an entry like any other, with its reason; what fits leaves one of 0."""
    clock = ManualClock(instant=True)
    async with make_book(MemoryStore(HOME), clock) as book:
        await book.record("stock", 100)
        clock.pass_by(1)
        done = await book.reconcile("stock", counted=97, reason="inventory, shelf 4")
        assert [done.change, done.counted, done.total] == [-3, 97, 100]
        assert (done.at, done.region, done.repeated) == (clock.now(), HOME, False)
        entries = {entry.id: entry async for entry in book.history("stock")}
        made = entries[done.entry or ""]
        assert made.change == -3
        assert made.note == "inventory, shelf 4"
        clock.pass_by(1)
        fitting = await book.reconcile("stock", counted=97)
        assert fitting.change == 0
        assert fitting.entry is not None
        assert await value(book) == 97
        assert [entry.change async for entry in book.history("stock")] == [100, -3, 0]


async def test_a_count_of_the_past_leaves_what_came_later() -> None:
    """The total as of the count is compared: sales since then are not taken for missing pieces."""
    clock = ManualClock(instant=True)
    async with make_book(MemoryStore(HOME), clock, shards={"stock": 3}) as book:
        for _ in range(20):
            await book.record("stock", 5)
        clock.pass_by(1)
        counted_at = clock.now()
        clock.pass_by(1)
        await book.record_many([("stock", -1)] * 7)
        clock.pass_by(600)
        done = await book.reconcile("stock", counted=98, at=counted_at)
        assert [done.total, done.change] == [100, -2]
        assert await value(book) == 91


async def test_the_same_count_again_changes_nothing() -> None:
    """A day later, after other changes, by its moment or by its token: the first result returns."""
    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    async with make_book(store, clock) as book:
        await book.record("stock", 100)
        at = clock.now()
        clock.pass_by(60)
        first = await book.reconcile("stock", counted=90, at=at)
        await book.record("stock", -5)
        clock.pass_by(1)
        named = await book.reconcile("stock", counted=80, token="count-8", reason="x")
        clock.pass_by(86_400)
        await book.record("stock", 7)
        for again in (
            await book.reconcile("stock", counted=90, at=at),
            await book.reconcile("stock", counted=Decimal("90.0"), at=at, reason="other words"),
        ):
            assert again == first
            assert again.repeated
        assert await book.reconcile("stock", counted=80, token="count-8") == named
        assert await value(book) == 87
        with pytest.raises(InvalidInput, match="stands for a count of 90, not 91"):
            await book.reconcile("stock", counted=91, at=at)


async def test_an_earlier_correction_is_part_of_the_total_of_then() -> None:
    """One whose count was before, taken into account after: what it found is not found twice."""
    clock = ManualClock(instant=True)
    async with make_book(MemoryStore(HOME), clock) as book:
        await book.record("stock", 100)
        times: list[datetime] = []
        for _ in range(3):
            clock.pass_by(60)
            times.append(clock.now())
        first = await book.reconcile("stock", counted=97, at=times[0])
        second = await book.reconcile("stock", counted=97, at=times[1])
        third = await book.reconcile("stock", counted=95, at=times[2])
        assert [reconciled.change for reconciled in (first, second, third)] == [-3, 0, -2]
        assert await value(book) == 95
        with pytest.raises(InvalidInput, match="is not later"):
            await book.reconcile("stock", counted=97, at=times[1] - timedelta(seconds=1))


@pytest.mark.parametrize("until", ["a later one", "an earlier one"])
async def test_a_moment_that_single_entries_do_not_show_is_refused(until: str) -> None:
    """Once anything later than the count was merged, the total of then is not known any more."""
    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    async with make_book(store, clock) as book:
        clock.pass_by(10)
        at = clock.now()
        merged = at + timedelta(seconds=1 if until == "a later one" else 0)
        net = NetChange(Decimal(40), 4, (), "v1", f"{merged:%Y-%m-%dT%H:%M:%S.%fZ}#{5:016x}", HOME)
        await store.write(Put(net_item(net, "stock")))
        clock.pass_by(60)
        await book.record("stock", 1)
        if until == "an earlier one":
            assert (await book.reconcile("stock", counted=50, at=at)).total == 40
            return
        with pytest.raises(InvalidInput, match="is merged up to"):
            await book.reconcile("stock", counted=50, at=at)
        assert (await book.reconcile("stock", counted=50)).total == 41


async def test_merging_takes_no_correction_back() -> None:
    """The compactor merges entry and correction; the count is recognized all the same."""
    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    merging = make_settings(regions={HOME: LOCAL}, compactor={"fold_min": 1, "fold_age": 0})
    async with make_book(store, clock) as book:
        await book.record("stock", 100)
        clock.pass_by(1)
        first = await book.reconcile("stock", counted=97, token="t")
        clock.pass_by(merging.settle + 60)
        compactor = Compactor(
            merging,
            stores={HOME: store},
            services=Services.of(clock=clock, randomness=seeded(9)),
        )
        for _ in range(3):
            await compactor.run_once()
            clock.pass_by(60)
        assert [entry async for entry in book.history("stock")] == []
        assert await book.reconcile("stock", counted=97, token="t") == first
        assert await value(book) == 97


async def test_a_count_loses_to_others_until_its_deadline() -> None:
    """Then the same call is worth a repeat, which the error says."""
    clock = ManualClock(instant=True)
    times = count()

    class Always(MemoryStore):
        async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
            clock.pass_by(1)
            async with make_book(MemoryStore(HOME, self.table), clock, seed=next(times)) as other:
                await other.reconcile("stock", counted=96)
            return await super().transact(actions, token=token)

    async with make_book(Always(HOME), clock) as book:
        await book.record("stock", 100)
        clock.pass_by(1)
        with pytest.raises(StateConflict, match="was corrected by other calls") as caught:
            await book.reconcile("stock", counted=97, token="t")
        assert (caught.value.retryable, caught.value.outcome) == (True, "not_applied")
        assert next(times) > 5
        assert await value(book) == 96


async def test_others_come_between_look_and_write() -> None:
    """A change that comes in between stays; another count's correction is looked at again."""
    clock = ManualClock(instant=True)

    async def sell(store: MemoryStore) -> None:
        async with make_book(store, clock, seed=8) as other:
            await other.record("stock", -1)

    async def correct(store: MemoryStore) -> None:
        async with make_book(store, clock, seed=8) as other:
            await other.reconcile("stock", counted=97, at=clock.now() - timedelta(seconds=30))

    async def same(store: MemoryStore) -> None:
        async with make_book(store, clock, seed=8) as other:
            await other.reconcile("stock", counted=97, token="t")

    async def later(store: MemoryStore) -> None:
        clock.pass_by(1)
        async with make_book(store, clock, seed=8) as other:
            await other.reconcile("stock", counted=97)

    for act, change, left in ((sell, -3, 96), (correct, 0, 97), (same, -3, 97)):
        store = Between(act)
        async with make_book(MemoryStore(HOME, store.table), clock) as book:
            await book.record("stock", 100)
        clock.pass_by(60)
        async with make_book(store, clock) as book:
            assert (await book.reconcile("stock", counted=97, token="t")).change == change
            assert await value(book) == left
        clock.pass_by(60)
    at = clock.now()
    store = Between(later)
    async with make_book(store, clock) as book:
        with pytest.raises(InvalidInput, match="is not later"):
            await book.reconcile("stock", counted=97, at=at)


async def test_clocks_of_two_processes_differ() -> None:
    """A count of now is later than any before, also if a clock that was ahead dated that."""
    store, ahead, behind = MemoryStore(HOME), ManualClock(instant=True), ManualClock(instant=True)
    ahead.pass_by(30)
    async with make_book(store, ahead) as book:
        first = await book.reconcile("stock", counted=97)
    async with make_book(store, behind, seed=8) as book:
        second = await book.reconcile("stock", counted=96)
        assert [second.change, second.at - first.at] == [-1, timedelta(microseconds=1)]
        with pytest.raises(InvalidInput, match="is not later"):
            await book.reconcile("stock", counted=96, at=behind.now())


async def test_a_damaged_latest_count_is_named() -> None:
    """What was edited by hand says nothing of the order of counts."""
    store = MemoryStore(HOME)
    key = {"pk": {"S": "~reconcile-latest~stock"}, "sk": {"S": "latest"}}
    await store.write(Put({**key, "at": {"S": "yesterday"}, "token": {"S": "t"}}))
    async with make_book(store, ManualClock(instant=True)) as book:
        with pytest.raises(DamagedItem, match="the latest count must have at and token"):
            await book.reconcile("stock", counted=5)


async def test_a_lost_answer_is_asked_again() -> None:
    """The transaction is repeated under its record, and corrects once."""
    inner, clock = MemoryStore(HOME), ManualClock(instant=True)
    lost = iter([Lost()])
    store = FaultyStore(
        inner, lambda call: None if call.operation in READS else next(lost, None), clock=clock
    )
    async with make_book(store, clock) as book:
        done = await book.reconcile("stock", counted=5, token="t")
        assert done.change == 5
        assert await value(book) == 5


@pytest.mark.parametrize("fault", [NeverArrived(), Late(), Lost()])
async def test_an_unknown_outcome_is_settled_by_the_same_call(fault: Any) -> None:
    """The error names the token; the same call corrects once, also if the first lands late."""
    inner, clock = MemoryStore(HOME), ManualClock(instant=True)
    store = FaultyStore(inner, lambda call: None if call.operation in READS else fault, clock=clock)
    async with make_book(store, clock) as book:
        with pytest.raises(OutcomeUnknown, match="repeat the call with token '2026-") as caught:
            await book.reconcile("stock", counted=5)
        assert caught.value.entries == ()
        token = str(caught.value).split("token '")[1].split("'")[0]
    async with make_book(inner, clock, seed=8) as book:
        await book.record("stock", 1)
        done = await book.reconcile("stock", counted=5, token=token)
        assert await value(book) == (6 if isinstance(fault, Lost) else 5)
        while store.in_flight:
            await store.land()
        assert await value(book) == (6 if isinstance(fault, Lost) else 5)
        assert done.repeated == isinstance(fault, Lost)


async def test_entries_of_other_tools_have_no_time() -> None:
    """They are counted as before any moment, wherever their keys sort."""
    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    for key, change in (("0b", "2"), ("a458fc3d", "3")):
        await store.write(Put({"pk": {"S": "stock"}, "sk": {"S": key}, "change": {"N": change}}))
    clock.pass_by(60)
    async with make_book(store, clock) as book:
        await book.record("stock", 100)
        done = await book.reconcile("stock", counted=4, at=START + timedelta(seconds=1))
        assert [done.total, await value(book)] == [5, 104]


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ({"counted": 1.5}, InvalidAmount, "int or a Decimal"),
        ({"at": START + timedelta(days=1)}, InvalidEntry, "must not be in the future"),
        ({"at": START.replace(tzinfo=None)}, InvalidEntry, "without a zone"),
        ({"at": "2026-11-21"}, InvalidEntry, "at must be an aware datetime"),
        ({"token": ""}, InvalidEntry, "token must be"),
        ({"reason": 5}, InvalidEntry, "note must be a string"),
        ({"counter": "~x"}, InvalidCounter, "must not begin"),
        ({"counted": -(10**38) + 1}, AmountOverflow, "at most 38 digits"),
        ({"counted": 10**38}, AmountOverflow, "at most 38 digits before the point"),
    ],
)
async def test_what_breaks_a_rule_is_refused(
    given_: dict[str, Any], error: type[LedgerError], message: str
) -> None:
    """The message names value and rule, and nothing is written."""
    store = MemoryStore(HOME)
    asked = {"counter": "stock", "counted": 5, **given_}
    async with make_book(store, ManualClock(instant=True)) as book:
        await book.record("stock", Decimal("0.5"))
        with pytest.raises(error, match=message):
            await book.reconcile(asked.pop("counter"), **asked)
        assert await value(book) == Decimal("0.5")


async def test_only_home_corrects() -> None:
    """A record's conditions hold in one region: any other, or a home that moves, is refused."""
    clock = ManualClock(instant=True)
    away = Ledger(
        make_settings(),
        region=AWAY,
        given=GivenConnections(store=MemoryStore(AWAY)),
        services=Services.of(clock=clock),
    )
    async with away as book:
        with pytest.raises(InvalidInput, match=f"home region {HOME}, not {AWAY}"):
            await book.reconcile("stock", counted=1)
    moving = make_settings()
    moving = moving.under(replace(moving.terms, home=NO_HOME), home=HOME)
    async with Ledger(
        moving,
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
        services=Services.of(clock=clock),
    ) as book:
        with pytest.raises(HomeMoving, match="is being moved"):
            await book.reconcile("stock", counted=1)


async def test_a_record_without_its_entry_is_not_believed() -> None:
    """What somebody else put in its place is no earlier result: the count corrects the total."""
    store = MemoryStore(HOME)
    first = MemoryStore(HOME)
    async with make_book(first, ManualClock(instant=True)) as book:
        await book.reconcile("stock", counted=5, token="t")
    record = first.table.get(("~reconcile~stock", "t"))
    for forged in (record, {"pk": {"S": "~reconcile~stock"}, "sk": {"S": "t"}}):
        store.table.set(("~reconcile~stock", "t"), forged)
        async with make_book(store, ManualClock(instant=True), seed=9) as book:
            await book.record("stock", 1)
            done = await book.reconcile("stock", counted=5, token="t")
            assert not done.repeated
            assert await value(book) == 5
            assert (await book.reconcile("stock", counted=5, token="t")).repeated
        store.table.partitions.clear()


def test_without_async_it_is_the_same() -> None:
    """The twin corrects and returns what the other does."""
    with sync.Ledger(make_book(MemoryStore(HOME), ManualClock(instant=True))) as book:
        book.record("stock", 10)
        done = book.reconcile("stock", counted=9, token="t")
        assert isinstance(done, Reconciled)
        assert book.reconcile("stock", counted=9, token="t").repeated
        assert book.total("stock", max_age=0).value == 9


async def until_known(book: Ledger, store: FaultyStore, counted: int, at: datetime) -> None:
    """Reconcile, again after every unknown outcome, while late requests land."""
    for _ in range(20):
        try:
            await book.reconcile("stock", counted=counted, at=at)
        except OutcomeUnknown:
            if store.in_flight:
                await store.land()
        else:
            return
    raise AssertionError("no answer in 20 tries")


@given(
    seed=st.integers(0, 10**6),
    steps=st.lists(st.tuples(st.integers(-5, 5), st.integers(-3, 3) | st.none()), max_size=8),
)
def test_a_total_is_the_count_and_what_came_later(
    seed: int, steps: list[tuple[int, int | None]]
) -> None:
    """Lost and late requests, repeats and changes in any order: each count corrects once."""

    async def run() -> None:
        chance, inner, clock = seeded(seed), MemoryStore(HOME), ManualClock(instant=True)
        faults: list[Fault] = [Lost(), NeverArrived(), Late()]

        def decide(call: FaultCall) -> Fault | None:
            is_faulty = call.operation == "transact" and chance.random() < 0.6
            return chance.choice(faults) if is_faulty else None

        store, there = FaultyStore(inner, decide, clock=clock), 0
        async with make_book(inner, clock) as plain, make_book(store, clock, seed=8) as book:
            for change, off in steps:
                clock.pass_by(1)
                await plain.record("stock", change)
                there += change
                if off is not None:
                    there += off
                    clock.pass_by(1)
                    at = clock.now()
                    clock.pass_by(1)
                    await plain.record("stock", 1)
                    await until_known(book, store, there, at)
                    there += 1
            while store.in_flight:
                await store.land()
            assert await value(plain) == there

    anyio.run(run)
