"""Where markers lie: each in a partition of its own."""

from hypothesis import given
from hypothesis import strategies as st
from support.counting import known_counter, make_counter
from support.ledgers import HOME

from ledger.primitives.counters.layout import SHARDS_MAX
from ledger.primitives.counters.marker_items import marker_key
from ledger.store.memory import MemoryStore
from ledger.store.reads import Scan
from ledger.store.writes import Applied

NAMES = st.text("ab~", min_size=1, max_size=6).filter(lambda name: name[0] != "~")
TOKENS = st.text("ab~", min_size=1, max_size=6)


async def test_each_marker_has_a_partition_of_its_own() -> None:
    """One partition takes 1,000 write units a second: markers of one counter share none."""
    store = MemoryStore(HOME)
    counter = known_counter("marker", store)
    for number in range(20):
        await counter.add(1, token=f"t{number}")
    found = (await store.scan(Scan())).items
    assert len({item["pk"]["S"] for item in found if "marker" in item["pk"]["S"]}) == 20


@given(one=st.tuples(NAMES, TOKENS), other=st.tuples(NAMES, TOKENS))
def test_no_two_markers_share_a_key(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Counter and token are both in the key, whatever they are made of."""
    assert (marker_key(*one) == marker_key(*other)) == (one == other)


def test_the_longest_names_fit() -> None:
    """DynamoDB takes 2,048 bytes of partition key and 1,024 of sort key."""
    partition, sort_key = marker_key("é" * 512, "ü" * 512)
    assert len(partition.encode()) <= 2048
    assert len(sort_key.encode()) <= 1024


async def test_a_change_over_the_most_shards_fits_in_a_transaction_with_its_marker() -> None:
    """The marker and the parts of a change together are no more than 100 actions."""
    counter = make_counter("marker", MemoryStore(HOME), minimum=0, shards=SHARDS_MAX)
    await counter.add(SHARDS_MAX)
    assert isinstance(await counter.add(-SHARDS_MAX), Applied)
    assert isinstance(await counter.add(SHARDS_MAX), Applied)
    assert await counter.value() == SHARDS_MAX
