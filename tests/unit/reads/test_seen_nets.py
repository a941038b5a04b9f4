"""What was seen merged never vanishes in silence: gone, or set back, it is an error."""

from collections.abc import Sequence
from decimal import Decimal

import pytest
from prometheus_client import CollectorRegistry
from support.ledgers import HOME, make_settings, net, seeded

from ledger.core.entry import Item
from ledger.core.errors import DamagedItem, NetVanished
from ledger.core.values import NetChange
from ledger.reads.reader import Reader
from ledger.reads.seen_nets import SeenNets
from ledger.runtime.metrics import Metrics
from ledger.runtime.services import Services
from ledger.store.memory import MemoryStore
from ledger.store.reads import Page, Query
from ledger.testing.clock import ManualClock

KEY = ("c", "~net#0001")


def make_reader(store: MemoryStore, **overrides: object) -> Reader:
    """Return a reader over a store."""
    settings = make_settings(**overrides)
    clock, metrics = ManualClock(instant=True), Metrics.of(CollectorRegistry())
    return Reader(store, settings=settings, services=Services(clock, seeded(), metrics))


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize(
    ("after", "said"), [(None, "is gone"), (net("c", 9, [], count=2), "counts 2")]
)
async def test_a_net_that_is_gone_or_counts_less_is_an_error(
    after: Item | None,
    said: str,
    consistent: bool,  # noqa: FBT001
) -> None:
    """Once read, 21 never becomes 0, or 9, without a word; put back it is read again."""
    store = MemoryStore(HOME)
    reader = make_reader(store, consistent_reads=consistent)
    store.table.set(KEY, net("c", 21, [], count=3))
    assert (await reader.total("c")).value == 21

    store.table.set(KEY, after)
    with pytest.raises(NetVanished, match=f"'c' in {HOME}: the net .* counted 3 .*now {said}"):
        await reader.total("c")

    store.table.set(KEY, net("c", 25, [], version="v2", count=4))
    assert (await reader.total("c")).value == 25


class BehindStore(MemoryStore):
    """A store whose eventually consistent reads come from a replica that is behind."""

    behind: Sequence[Item] = ()

    async def query(self, query: Query) -> Page:
        """Read a page."""
        return await super().query(query) if query.consistent else Page(self.behind)


async def test_a_replica_that_is_behind_is_no_damage() -> None:
    """An eventually consistent read that shows less is compared by a consistent one."""
    store = BehindStore(HOME)
    reader = make_reader(store, consistent_reads=False)
    store.behind = [net("c", 21, [], count=3)]
    store.table.set(KEY, store.behind[0])
    assert (await reader.total("c")).value == 21
    store.behind = [net("c", 5, [], count=1)]
    assert (await reader.total("c")).value == 5


def counted(count: int, *, generation: int = 1) -> NetChange:
    """Return a net that counts so many entries."""
    return NetChange(Decimal(1), count, (), "v", "", HOME, generation)


def test_a_read_that_began_before_is_not_compared() -> None:
    """Reads overlap: one that began first, and shows less than another has shown, is right."""
    seen = SeenNets()
    before = seen.of(HOME, "c")
    seen.look(HOME, "c", counted(5), None)
    seen.look(HOME, "c", counted(3), before)
    with pytest.raises(NetVanished):
        seen.look(HOME, "c", counted(4), seen.of(HOME, "c"))


def test_a_new_generation_may_begin_with_less() -> None:
    """After a home was lost a net of the next generation counts from a version before."""
    seen = SeenNets()
    seen.look(HOME, "c", counted(5), None)
    seen.look(HOME, "c", counted(4, generation=2), seen.of(HOME, "c"))
    with pytest.raises(NetVanished, match="counted 4"):
        seen.look(HOME, "c", counted(9), seen.of(HOME, "c"))


def test_what_is_remembered_is_bounded() -> None:
    """The net seen longest ago is forgotten first; regions are told apart; empty nets are none."""
    seen = SeenNets(2)
    for partition in ("a", "b", "a", "c"):
        seen.look(HOME, partition, counted(5), None)
    assert [name for name in "abc" if seen.of(HOME, name)] == ["a", "c"]
    assert seen.of("eu-west-1", "a") is None
    seen.look(HOME, "d", counted(0), None)
    assert seen.of(HOME, "d") is None


async def test_a_net_without_a_digest_is_damaged() -> None:
    """No net is taken at its word: the error names the item."""
    store = MemoryStore(HOME)
    item = dict(net("c", 21, [], count=3))
    del item["digest"]
    store.table.set(KEY, item)
    with pytest.raises(DamagedItem, match=r"'~net#0001' of counter 'c' .* must have digest"):
        await make_reader(store).total("c")
