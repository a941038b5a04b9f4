"""Counters of items corrected by physical counts: once for each, whatever comes in between."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.counting import SINGLE_ITEM, fate_of, make_counter
from support.ledgers import AWAY, HOME, make_services, make_settings, sample, seeded

from ledger import Table, sync
from ledger.core.errors import AmountOverflow, InvalidAmount, InvalidEntry, InvalidInput
from ledger.core.reconciliation import Reconciled
from ledger.primitives.counters import METHODS, AtomicCounter, OptimisticCounter
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.memory import MemoryStore
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Late, Lost, NeverArrived
from ledger.store.wrappers.meter import MeteredStore
from ledger.store.writes import Action, Outcome, Rejected, Unknown, Write
from ledger.testing.clock import START, ManualClock

Act = Callable[[MemoryStore], Awaitable[object]]


class Between(MemoryStore):
    """A store in which others act once, before a transaction with a record."""

    def __init__(self, act: Act) -> None:
        super().__init__(HOME)
        self._act: Act | None = act

    async def transact(self, actions: Sequence[Action], *, token: str | None = None) -> Outcome:
        """Do a transaction, after the others."""
        if self._act is not None and actions[0].key[0].startswith("~count-recount~"):
            act, self._act = self._act, None
            await act(MemoryStore(HOME, self.table))
        return await super().transact(actions, token=token)


def without_transactions(fault: Fault) -> Callable[[FaultCall], Fault | None]:
    """Return what lets every transaction have this fault."""
    return lambda call: fault if call.operation == "transact" else None


@pytest.mark.parametrize("method", SINGLE_ITEM)
async def test_changes_of_others_in_between_stay(method: str) -> None:
    """What is sold between look and write is counted beside the correction."""

    async def sell(store: MemoryStore) -> None:
        await make_counter(method, store).add(-1)

    store = Between(sell)
    counter = make_counter(method, store, minimum=0)
    await make_counter(method, MemoryStore(HOME, store.table), minimum=0).add(100)
    done = await counter.reconcile(counted=97, token="t")
    assert isinstance(done, Reconciled)
    # An optimistic method looks again: its count then is of that moment.
    assert await counter.value() == (97 if done.total == 99 else 96)
    await make_counter(method, MemoryStore(HOME, store.table)).add(-5)
    value = await counter.value()
    assert await counter.reconcile(counted=97, token="t") == done
    assert await counter.value() == value


async def test_a_correction_is_seen_by_optimistic_writers() -> None:
    """It has a tag of its own: a writer that has read before it does not write over it."""

    async def correct(store: MemoryStore) -> None:
        await make_counter("optimistic", store).reconcile(counted=50, token="t")

    class Reading(MemoryStore):
        async def write(self, write: Write) -> Outcome:
            if acts and write.key[1] == "optimistic":
                await acts.pop()(MemoryStore(HOME, self.table))
            return await super().write(write)

    acts: list[Act] = []
    store = Reading(HOME)
    await make_counter("optimistic", store).add(100)
    acts.append(correct)
    await make_counter("optimistic", store).add(-1)
    assert await make_counter("optimistic", store).value() == 49


@pytest.mark.parametrize("kind", [AtomicCounter, OptimisticCounter])
async def test_shards_are_corrected_together(kind: Any) -> None:
    """A correction without room in one shard is divided over several, all or none."""
    make = partial(kind, minimum=0, shards=4)
    counter = make(MemoryStore(HOME), "counter", services=make_services())
    await counter.add(100)
    done = await counter.reconcile(counted=10, token="t")
    assert done.change == -90
    assert await counter.value() == 10
    outcome = await counter.reconcile(counted=-1, token="u")
    assert outcome == Rejected("threshold", "minimum 0")
    assert (await counter.reconcile(counted=0, token="u")).change == -10


async def test_a_count_of_the_past_comes_with_the_value_then() -> None:
    """No past is kept: the caller gives what the counter showed, and what came since stays."""
    clock, store = ManualClock(instant=True), MemoryStore(HOME)
    counter = make_counter("atomic", store, clock=clock)
    await counter.add(100)
    at, then = clock.now(), await counter.value()
    await counter.add(-7)
    clock.pass_by(60)
    with pytest.raises(InvalidInput, match="has no history"):
        await counter.reconcile(counted=98, at=at)
    done = await counter.reconcile(counted=98, at=at, value=then)
    assert [done.change, done.total, await counter.value()] == [-2, 100, 91]
    assert (done.at, done.token) == (at, at.isoformat())
    assert (await counter.reconcile(counted=98, at=at, value=50)).repeated
    conflict = await counter.reconcile(counted=99, at=at, value=then)
    assert conflict.reason == "token conflict"
    assert conflict.detail == "the token stands for a count of 98, not 99"


async def test_a_moment_is_one_count_in_every_time_zone() -> None:
    """Repeated with the same moment, written in another zone, it changes nothing more."""
    clock = ManualClock(instant=True)
    counter = make_counter("atomic", MemoryStore(HOME), clock=clock)
    at = clock.now()
    await counter.add(100)
    elsewhere = at.astimezone(timezone(timedelta(hours=-5)))
    first = await counter.reconcile(counted=98, at=elsewhere, value=100)
    assert (first.at.tzinfo, first.token) == (UTC, at.isoformat())
    assert (await counter.reconcile(counted=98, at=at, value=100)).repeated
    assert await counter.value() == 98


@pytest.mark.parametrize("method", SINGLE_ITEM)
@pytest.mark.parametrize("fault", [NeverArrived(), Late(), Lost()])
async def test_an_unknown_outcome_is_settled_by_the_same_call(method: str, fault: Fault) -> None:
    """Whatever became of the first call, also if it lands late, the count corrects once."""
    inner, clock = MemoryStore(HOME), ManualClock(instant=True)
    await make_counter(method, inner).add(9)
    store = FaultyStore(inner, without_transactions(fault), clock=clock)
    outcome = await make_counter(method, store, clock=clock).reconcile(counted=5)
    assert isinstance(outcome, Unknown)
    assert outcome.token is not None
    done = await make_counter(method, inner).reconcile(counted=5, token=outcome.token)
    assert done.change == -4
    assert done.repeated == isinstance(fault, Lost)
    while store.in_flight:
        await store.land()
    assert await make_counter(method, inner).value() == 5


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"counted": 1.5}, InvalidAmount, "int or a Decimal"),
        ({"value": "5"}, InvalidAmount, "int or a Decimal"),
        ({"at": START + timedelta(days=9), "value": 1}, InvalidEntry, "must not be in the future"),
        ({"at": START.replace(tzinfo=None), "value": 1}, InvalidEntry, "aware datetime"),
        (
            {"at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "value": 1},
            InvalidEntry,
            "years 1970 to 9999",
        ),
        ({"token": "x" * 1025}, InvalidEntry, "token"),
        ({"token": ""}, InvalidEntry, "token must be"),
        ({"reason": ""}, InvalidEntry, "reason must be"),
    ],
)
async def test_what_breaks_a_rule_is_refused(
    asked: dict[str, Any], error: type[InvalidInput], message: str
) -> None:
    """The message names value and rule, and nothing is written."""
    counter = make_counter("atomic", MemoryStore(HOME))
    with pytest.raises(error, match=message):
        await counter.reconcile(**{"counted": 5, **asked})
    assert await counter.value() == 0


async def test_a_correction_too_small_beside_a_threshold_names_the_threshold() -> None:
    """DynamoDB cannot compare the value with what 38 digits cannot hold; `add` says the same."""
    counter = make_counter("atomic", MemoryStore(HOME), maximum=10**37)
    with pytest.raises(AmountOverflow, match=r"maximum 10{37} less a change of 0.0{19}1,"):
        await counter.reconcile(counted=Decimal("1E-20"))
    with pytest.raises(AmountOverflow, match=r"maximum 10{37} less a change of 0.0{19}1,"):
        await counter.add(Decimal("1E-20"))
    assert await counter.value() == 0


async def test_the_collection_takes_no_value() -> None:
    """It reads what its total was then."""
    counter = make_counter("collection", MemoryStore(HOME))
    with pytest.raises(InvalidInput, match="value must be None, got 5"):
        await counter.reconcile(counted=5, value=5)


async def test_the_collection_has_its_unknown_as_others_do() -> None:
    """With the token to go on with."""
    inner, clock = MemoryStore(HOME), ManualClock(instant=True)
    store = FaultyStore(inner, without_transactions(NeverArrived()), clock=clock)
    outcome = await make_counter("collection", store, clock=clock).reconcile(counted=5)
    assert isinstance(outcome, Unknown)
    again = make_counter("collection", inner, clock=clock)
    assert (await again.reconcile(counted=5, token=outcome.token)).change == 5


async def test_what_a_correction_costs() -> None:
    """Record and change in a transaction, a look at the record and at the value."""
    metrics, clock = Metrics(None), ManualClock(instant=True)
    store = MeteredStore(MemoryStore(HOME), metrics=metrics, clock=clock)
    counter = make_counter("atomic", store, clock=clock)
    await counter.add(1)

    def units(kind: str) -> float:
        return sample(metrics, "ledger_consumed_units_total", kind=kind)

    before = units("write"), units("read")
    await counter.reconcile(counted=5)
    assert (units("write") - before[0], units("read") - before[1]) == (4, 2)


def test_without_async_it_is_the_same() -> None:
    """The twins correct, by every method that can."""
    table = Table(
        make_settings(),
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME), others={AWAY: MemoryStore(AWAY)}),
        services=Services.of(randomness=seeded()),
    )
    with sync.Table(table) as plain:
        for method in METHODS:
            if method == "slots":
                continue
            counter: Any = plain.counter(f"stock-{method}", method=method)  # type: ignore[call-overload]
            counter.add(9)
            assert counter.reconcile(counted=5, token="t").change == -4
            assert counter.reconcile(counted=5, token="t").repeated
            assert counter.value() == 5


@pytest.mark.parametrize("method", ["atomic-once", "optimistic", "history", "marker-sharded"])
@given(
    seed=st.integers(0, 10**6),
    steps=st.lists(st.tuples(st.integers(-5, 5), st.integers(-3, 3) | st.none()), max_size=6),
)
def test_a_value_is_the_count_and_what_came_later(
    method: str, seed: int, steps: list[tuple[int, int | None]]
) -> None:
    """Lost and late requests and repeats in any order: each count corrects once."""

    async def run() -> None:
        chance, inner, clock = seeded(seed), MemoryStore(HOME), ManualClock(instant=True)
        faults: list[Fault] = [Lost(), NeverArrived(), Late()]

        def decide(call: FaultCall) -> Fault | None:
            is_faulty = call.operation == "transact" and chance.random() < 0.6
            return chance.choice(faults) if is_faulty else None

        store = FaultyStore(inner, decide, clock=clock)
        plain = make_counter(method, inner, clock=clock)
        counter = make_counter(method, store, clock=clock, randomness=seeded(seed + 1))
        await plain.add(0)
        there = 0
        for place, (change, off) in enumerate(steps):
            await plain.add(change)
            there += change
            if off is not None:
                there += off
                while not isinstance(
                    await fate_of(counter.reconcile(counted=there, token=f"t{place}")), Reconciled
                ):
                    while store.in_flight and chance.random() < 0.5:
                        await store.land()
        while store.in_flight:
            await store.land()
        assert await plain.value() == Decimal(there)

    anyio.run(run)
