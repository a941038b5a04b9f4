"""Every way to count keeps the protocol's promises, in memory and on dynoxide."""

from collections.abc import AsyncIterator, Callable
from decimal import Decimal

import pytest
from conformance.counter_suite import CounterInputSuite, CounterSuite
from support.engines import bare_table

from ledger.primitives.counters import METHODS, Counter, Details
from ledger.store.connections import open_store
from ledger.store.memory import MemoryStore
from ledger.store.port import Store
from ledger.store.writes import Applied, Rejected


@pytest.fixture(scope="module")
async def dynoxide() -> AsyncIterator[Store]:
    """Yield a store over one table for all tests, each of which has counters of its own."""
    async with bare_table() as settings, open_store(settings, settings.home) as store:
        yield store


class InMemory(CounterInputSuite):
    """A table in memory for each test."""

    @pytest.fixture
    def store(self) -> Store:
        """Return a store over an empty table."""
        return MemoryStore("us-east-1")


@pytest.mark.engines("dynoxide")
class OnDynoxide:
    """A table that the tests share."""

    @pytest.fixture
    def store(self, dynoxide: Store) -> Store:
        """Return a store over the table."""
        return dynoxide


class AtomicSuite(CounterSuite):
    """Nothing about a change is kept."""

    method = "atomic"
    repeats = "count again"
    counts_of_a_lost_one = 2


class AtomicOnceSuite(AtomicSuite):
    """The other policy differs only where answers are lost."""

    method = "atomic-once"
    counts_of_a_lost_one = 1
    tries_once = True


class OptimisticSuite(CounterSuite):
    """The newest writer is known."""

    method = "optimistic"


class HistorySuite(CounterSuite):
    """The latest writers are known."""

    method = "history"


class ClientTokenSuite(CounterSuite):
    """DynamoDB knows the request."""

    method = "client-token"
    tells_conflicts = True


class MarkerSuite(CounterSuite):
    """The table knows the change."""

    method = "marker"
    tells_conflicts = True

    async def test_a_repeat_returns_what_was_first_made(self, make: Callable[..., Counter]) -> None:
        """The details of the first call come back with a repeat's rejection, and by a look."""
        details: Details = {"order": "né 17", "pieces": 3, "gift": False}
        token = self.token()
        assert isinstance(await make().add(-3, token=token, details=details), Applied)
        again = await make().add(-3, token=token)
        assert again == Rejected("applied before")
        assert again.first is not None
        assert (again.first.change, again.first.details) == (Decimal(-3), details)
        assert await make().lookup(token) == again.first
        other = await make().add(-3, token=token, details={**details, "pieces": 4})
        assert isinstance(other, Rejected)
        assert other.reason == "token conflict"
        assert await make().lookup("another") is None


class CollectionSuite(CounterSuite):
    """The change is the item."""

    method = "collection"
    tells_conflicts = True
    overflows_at = "later"
    needs_dated_tokens = True


class SlotsSuite(CounterSuite):
    """Whole numbers of slots, each under a token of its own."""

    method = "slots"
    amounts = (1, 1, 3, 1, 10**20)
    tells_conflicts = True

    async def test_several_are_given_back_as_they_were_taken(
        self, make: Callable[..., Counter]
    ) -> None:
        """Of any number of slots, in a set that began with ones."""
        one, three = self.token(), self.token()
        counter = make(maximum=5)
        await counter.add(1, token=one)
        assert await counter.add(3, token=three) == Applied(value=Decimal(4))
        assert await make(maximum=5).add(3, token=three) == Rejected("applied before")
        assert await make(maximum=5).add(2) == Rejected("threshold", "maximum 5")
        conflict = Rejected("token conflict", "the token holds 3 slots, not 1")
        assert await make().add(-1, token=three) == conflict
        assert await make().add(-3, token=three) == Applied(value=Decimal(1))
        assert await make().add(-1, token=one) == Applied(value=Decimal(0))
        assert await make().value() == 0

    overflows_at = "never"


class AtomicShardedSuite(AtomicSuite):
    """Each shard may overflow by itself, or their sum."""

    method = "atomic-sharded"
    overflows_at = "later"


class MarkerShardedSuite(MarkerSuite):
    """A marker is known in whichever shard its change went to."""

    method = "marker-sharded"
    overflows_at = "later"


class TestAtomic(AtomicSuite, InMemory):
    """`ADD`, repeated."""


class TestAtomicOnce(AtomicOnceSuite, InMemory):
    """`ADD`, once."""


class TestOptimistic(OptimisticSuite, InMemory):
    """Optimistic."""


class TestHistory(HistorySuite, InMemory):
    """Optimistic, with history."""


class TestClientToken(ClientTokenSuite, InMemory):
    """A transaction with a client request token."""


class TestMarker(MarkerSuite, InMemory):
    """A transaction with a marker item."""


class TestCollection(CollectionSuite, InMemory):
    """The ledger."""


class TestSlots(SlotsSuite, InMemory):
    """A set of slots."""


class TestAtomicSharded(AtomicShardedSuite, InMemory):
    """`ADD` over shards."""


class TestMarkerSharded(MarkerShardedSuite, InMemory):
    """Markers over shards."""


class TestAtomicOnDynoxide(AtomicSuite, OnDynoxide):
    """`ADD`, repeated."""


class TestAtomicOnceOnDynoxide(AtomicOnceSuite, OnDynoxide):
    """`ADD`, once."""


class TestOptimisticOnDynoxide(OptimisticSuite, OnDynoxide):
    """Optimistic."""


class TestHistoryOnDynoxide(HistorySuite, OnDynoxide):
    """Optimistic, with history."""


class TestClientTokenOnDynoxide(ClientTokenSuite, OnDynoxide):
    """A transaction with a client request token."""


class TestMarkerOnDynoxide(MarkerSuite, OnDynoxide):
    """A transaction with a marker item."""


class TestCollectionOnDynoxide(CollectionSuite, OnDynoxide):
    """The ledger."""


class TestSlotsOnDynoxide(SlotsSuite, OnDynoxide):
    """A set of slots."""


class TestAtomicShardedOnDynoxide(AtomicShardedSuite, OnDynoxide):
    """`ADD` over shards."""


class TestMarkerShardedOnDynoxide(MarkerShardedSuite, OnDynoxide):
    """Markers over shards."""


@pytest.mark.parametrize("engine", [InMemory, OnDynoxide])
def test_every_method_has_a_suite(engine: type) -> None:
    """On each engine."""
    tests = (one for name, one in globals().items() if name.startswith("Test"))
    assert {one.method for one in tests if issubclass(one, engine)} == set(METHODS)
