"""What every counter must do: the promises of `ledger.counters.Counter`, one test each.

A subclass names a method of the registry; where methods differ, it says what its own promises. It
gives a fixture `store`: a `Store` over an empty table.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any, ClassVar, Literal

import pytest
from support.ledgers import make_services, seeded, services_of

from ledger.core import amounts, keys
from ledger.core.entry import key_of
from ledger.core.errors import (
    AmountOverflow,
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    MethodConflict,
)
from ledger.core.reconciliation import Reconciled
from ledger.primitives.counters import METHODS, Counter, ItemCounter, new_token
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.runtime.clock import SystemClock
from ledger.runtime.tasks import run_all
from ledger.store.port import Store
from ledger.store.reads import Scan
from ledger.store.wrappers.faults import Fault, FaultCall, FaultyStore, Lost
from ledger.store.wrappers.forwarder import READS
from ledger.store.writes import Applied, Rejected, Unknown

LARGEST = Decimal(10**38 - 1)
WRITERS = 5
TRIES_MAX = 50
_numbers = count()


class CounterSuite:
    """Every promise of the protocol; see the module."""

    method: ClassVar[str]
    amounts: ClassVar[Sequence[int | Decimal]] = (
        5,
        Decimal("-2.25"),
        10**20,
        Decimal("1E-10"),
        -7,
        0,
    )
    repeats: ClassVar[Literal["count again", "count once"]] = "count once"
    counts_of_a_lost_one: ClassVar[int] = 1
    tries_once: ClassVar[bool] = False
    tells_conflicts: ClassVar[bool] = False
    overflows_at: ClassVar[Literal["add", "later", "never"]] = "add"
    needs_dated_tokens: ClassVar[bool] = False

    @pytest.fixture
    def make(self, store: Store) -> Callable[..., Counter]:
        """Return what makes the same counter each time, as each process does for itself."""
        name = f"counter-{next(_numbers)}"

        def make(other: str = "", over: Store | None = None, **limits: int | Decimal) -> Counter:
            method = METHODS[self.method]
            chance = seeded(next(_numbers))
            return method.make(
                over or store,
                name + other,
                services=services_of(SystemClock(), chance),
                **limits,
            )

        return make

    @pytest.fixture
    def counter(self, make: Callable[..., Counter]) -> Counter:
        """Return a counter without thresholds."""
        return make()

    def token(self) -> str:
        """Return a token that no other test has."""
        return new_token(SystemClock().now(), seeded(next(_numbers)))

    async def test_it_begins_at_zero(self, counter: Counter) -> None:
        """Before its first change a counter stands at 0."""
        assert await counter.value() == 0
        assert await counter.value(consistent=False) == 0

    async def test_changes_add_up_exactly(self, counter: Counter) -> None:
        """The value is the exact sum of the changes, read either way."""
        for amount in self.amounts:
            assert isinstance(await counter.add(amount), Applied)
        exact = amounts.total(map(Decimal, self.amounts))
        assert await counter.value() == exact
        assert await counter.value(consistent=False) == exact

    async def test_processes_share_it_by_its_name(self, make: Callable[..., Counter]) -> None:
        """What one process adds another sees; a counter of another name is another."""
        await make().add(1)
        await make().add(1)
        assert [await make().value(), await make("-other").value()] == [2, 0]

    async def test_the_value_after_is_told_or_none(self, make: Callable[..., Counter]) -> None:
        """If `Applied` has a value it is the counter's."""
        for _ in range(3):
            outcome = await make().add(1)
            assert isinstance(outcome, Applied)
            assert outcome.value in (None, await make().value())

    async def test_concurrent_changes_are_all_there(self, make: Callable[..., Counter]) -> None:
        """Changes made at once by several processes all count; what lost a race is told so."""
        await run_all([partial(_until_applied, make(), 1) for _ in range(WRITERS)], at_once=WRITERS)
        assert await make().value() == WRITERS

    async def test_a_lost_answer(self, make: Callable[..., Counter], store: Store) -> None:
        """A change whose first answer was lost is counted as often as the method promises."""
        await make().add(1)
        lost = iter([Lost()])

        def decide(call: FaultCall) -> Fault | None:
            return None if call.operation in READS else next(lost, None)

        outcome = await make(over=FaultyStore(store, decide)).add(1)
        assert isinstance(outcome, Unknown if self.tries_once else Applied)
        assert next(lost, None) is None
        assert await make().value() == 1 + self.counts_of_a_lost_one

    async def test_a_repeated_token(self, make: Callable[..., Counter]) -> None:
        """A token used again changes nothing, or counts again, as the method says."""
        token = self.token()
        assert isinstance(await make().add(1, token=token), Applied)
        again = await make().add(1, token=token)
        assert again == Rejected("applied before") or isinstance(again, Applied)
        assert await make().value() == (1 if self.repeats == "count once" else 2)

    async def test_tokens_are_each_counters_own(self, make: Callable[..., Counter]) -> None:
        """The same token at two counters names two changes."""
        token = self.token()
        await make().add(1, token=token)
        await make("-other").add(1, token=token)
        assert [await make().value(), await make("-other").value()] == [1, 1]

    async def test_a_token_for_another_change(self, make: Callable[..., Counter]) -> None:
        """Where a method keeps what a token stood for, another change under it is refused."""
        if not self.tells_conflicts:
            return
        token = self.token()
        await make().add(1, token=token)
        outcome = await make().add(2, token=token)
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "token conflict"
        assert await make().value() == 1

    async def test_a_maximum_holds(self, make: Callable[..., Counter]) -> None:
        """The maximum is reached and never passed, alone and under concurrency."""
        if not METHODS[self.method].has_thresholds:
            with pytest.raises(InvalidInput, match="minimum or maximum"):
                make(maximum=3)
            return
        adds = [partial(_until_known, make(maximum=3), 1) for _ in range(WRITERS)]
        applied = sum(await run_all(adds, at_once=WRITERS))
        assert await make().value() == applied <= 3
        for _ in range(3 - applied):
            assert await _until_known(make(maximum=3), 1)
        outcome = await make(maximum=3).add(1)
        assert isinstance(outcome, Rejected)
        assert outcome.reason == "threshold"
        assert await make().value() == 3

    async def test_a_minimum_holds(self, make: Callable[..., Counter]) -> None:
        """What is not there cannot be taken; all that is there can."""
        if not METHODS[self.method].has_thresholds or self.method == "slots":
            return
        counter = make(minimum=Decimal("-2.5"))
        assert await _until_known(counter, 10)
        assert not await _until_known(counter, -13)
        assert await _until_known(counter, Decimal("-12.5"))
        assert not await _until_known(counter, Decimal("-0.1"))
        assert await make().value() == Decimal("-2.5")

    async def test_a_sum_too_large_is_an_error(self, counter: Counter) -> None:
        """A value that 38 digits cannot hold is refused, or no value is given; never rounded."""
        if self.overflows_at == "never":
            return
        await counter.add(LARGEST)
        if self.overflows_at == "add":
            with pytest.raises(AmountOverflow):
                await counter.add(Decimal("0.1"))
            assert await counter.value() == LARGEST
        else:
            with pytest.raises(AmountOverflow):  # in a shard that gets two, or in their sum
                await _until_refused(counter, Decimal("0.1"))

    async def test_a_physical_count_corrects_once(self, make: Callable[..., Counter]) -> None:
        """The value becomes what was counted, and a repeat changes nothing that came since."""
        token = self.token()
        await make().add(10)
        if self.method == "slots":
            with pytest.raises(InvalidInput, match="token by token"):
                await make().reconcile(counted=7)
            return
        done = await make().reconcile(counted=Decimal("7.5"), reason="né broken", token=token)
        assert isinstance(done, Reconciled)
        assert (done.change, done.total) == (Decimal("-2.5"), Decimal(10))
        assert await make().value() == Decimal("7.5")
        await make().add(-1)
        again = await make().reconcile(counted=Decimal("7.50"), token=token)
        assert again == done
        assert isinstance(again, Reconciled)
        assert again.repeated
        fits = await make().reconcile(counted=Decimal("6.5"))
        assert isinstance(fits, Reconciled)
        assert fits.change == 0
        assert await make().value() == Decimal("6.5")

    async def test_it_is_sharded_and_evened_out(self, make: Callable[..., Counter]) -> None:
        """A counter in items gets other shards, and pieces moved, and stands where it stood."""
        counter = make()
        if not isinstance(counter, ItemCounter) or self.method == "slots":
            return
        await counter.add(20)
        await counter.convert(shards=3)
        assert await counter.add(Decimal("-2.5"), spread=True) == Applied()
        assert await counter.add(1, token=self.token()) == Applied()
        await counter.even_out()
        assert await counter.even_out()
        assert isinstance(await make().add(-5), Applied)
        assert await make().value() == await counter.value() == Decimal("13.5")
        await counter.convert(shards=1)
        assert isinstance(await make().add(1), Applied)
        assert await make().value(consistent=False) == Decimal("14.5")

    async def test_it_is_converted(self, make: Callable[..., Counter]) -> None:
        """Kept by a method of another kind, it shows the same value to that one alone."""
        counter = make()
        if not isinstance(counter, ItemCounter) or self.method == "slots":
            return
        await counter.add(7)
        other = "optimistic" if self.method != "optimistic" else "marker"
        chance = seeded(next(_numbers))
        counter_after = ITEM_METHODS[other](
            counter.store, counter.name, services=services_of(SystemClock(), chance)
        )
        await counter_after.convert(shards=2)
        with pytest.raises(MethodConflict, match=other):
            await counter.add(1)
        assert isinstance(await counter_after.add(1), Applied)
        assert await counter_after.value() == 8

    async def test_it_hides_from_the_ledger(self, counter: Any, store: Store) -> None:
        """No reader of the ledger takes a counter's items for entries, unless they are."""
        if self.method == "collection":
            return
        await counter.add(1, token=self.token())
        found = [key_of(item)[0] for item in (await store.scan(Scan())).items]
        ours = [partition for partition in found if partition.endswith(counter.name)]
        assert ours
        assert all(keys.counter_of(partition) is None for partition in ours)


class CounterInputSuite(CounterSuite):
    """What is refused before anything is sent, whatever the engine."""

    @pytest.mark.parametrize("amount", [1.5, True, "1", Decimal("NaN"), 10**38 + 1, None])
    async def test_a_bad_amount_is_refused(self, counter: Counter, amount: int) -> None:
        """What is no exact amount of up to 38 digits is refused, and nothing is written."""
        with pytest.raises(InvalidAmount if amount != 10**38 + 1 else AmountOverflow):
            await counter.add(amount)
        assert await counter.value() == 0

    @pytest.mark.parametrize("token", ["", "x" * 1025, "\ud800", 5])
    async def test_a_bad_token_is_refused(self, counter: Counter, token: str) -> None:
        """A token is 1 to 1,024 bytes of text."""
        with pytest.raises(InvalidEntry, match="token"):
            await counter.add(1, token=token)
        assert await counter.value() == 0

    async def test_any_text_is_a_token(self, make: Callable[..., Counter]) -> None:
        """Callers' own tokens will do, except where a token has to tell the time."""
        if self.needs_dated_tokens:
            with pytest.raises(InvalidEntry, match="new_token"):
                await make().add(1, token="order-17")
            return
        longest = "order 17 né #~".ljust(1020, "x")
        assert isinstance(await make().add(1, token=longest), Applied)
        await make().add(1, token=longest)
        assert await make().value() == (1 if self.repeats == "count once" else 2)

    async def test_bad_names_and_thresholds_are_refused(self, store: Store) -> None:
        """A name is a counter id, and 0, where it begins, lies between the thresholds."""
        make = partial(METHODS[self.method].make, store, services=make_services(SystemClock()))
        for name in ("", "~count", "x" * 1025):
            with pytest.raises(InvalidCounter):
                make(name)
        for limits in ({"minimum": 1}, {"maximum": -1}, {"maximum": 1.5}):
            with pytest.raises(InvalidInput):
                make("counter", **limits)


async def _until_known(counter: Counter, amount: int | Decimal) -> bool:
    """Add, again after lost races, and tell whether it was applied."""
    for _ in range(TRIES_MAX):
        outcome = await counter.add(amount)
        if isinstance(outcome, Rejected) and outcome.reason == "contention":
            continue
        assert outcome == Applied(value=getattr(outcome, "value", None)) or isinstance(
            outcome, Rejected
        )
        return isinstance(outcome, Applied)
    raise AssertionError("lost every race")


async def _until_applied(counter: Counter, amount: int) -> None:
    assert await _until_known(counter, amount)


async def _until_refused(counter: Counter, amount: Decimal) -> None:
    for _ in range(TRIES_MAX):
        await counter.add(amount)
        await counter.value()
