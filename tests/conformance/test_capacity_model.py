"""Our model of DynamoDB's billing units agrees with those that engines report.

Compared is what `MeteredStore` counts for each call with the consumed capacity in the engine's
answers, over any item; it sees these answers without it, or it would count what it was told.
Rejected writes cannot be compared: their errors carry no capacity. Where an engine reports
otherwise than AWS documents, `known_gaps.py` says so.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pytest
from conformance.known_gaps import DYNAMODB_LOCAL, DYNOXIDE, expect_gap
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.engines import REGIONS, bare_dynoxide, empty_table
from support.strategies import any_amounts

from ledger.core import amounts
from ledger.core.capacity import item_size
from ledger.core.entry import AttributeValue, Item, Key, key_of
from ledger.runtime.metrics import Metrics
from ledger.settings import Settings
from ledger.store.conditions import Absent
from ledger.store.connections import open_store
from ledger.store.port import Store
from ledger.store.reads import Get, Page, Query, Scan
from ledger.store.wrappers.forwarder import ForwardingStore
from ledger.store.writes import (
    Action,
    Applied,
    BatchOutcome,
    BatchWrite,
    Check,
    Delete,
    Put,
    Update,
)

REGION = REGIONS[0]
PAGES_MAX = 20
KB = 1024
_numbers = count()
examples = settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass
class Meters:
    """A store, what the engine reported for its calls since the last look, and what we counted."""

    store: Store
    metrics: Metrics
    reported: float = 0.0
    _counted_before: float = 0.0

    def check(self) -> None:
        """Compare both counts of the calls since the last check."""
        samples = [
            sample for family in self.metrics.consumed_units.collect() for sample in family.samples
        ]
        counted = sum(sample.value for sample in samples if sample.name.endswith("_total"))
        ours, theirs = counted - self._counted_before, self.reported
        self._counted_before, self.reported = counted, 0.0
        assert ours == theirs
        assert ours > 0


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(DYNOXIDE, marks=pytest.mark.engines("dynoxide")),
        pytest.param(DYNAMODB_LOCAL, marks=pytest.mark.engines("dynamodb_local")),
    ],
)
def engine(request: pytest.FixtureRequest) -> str:
    """Return the engine that the test runs on."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _expect_known_gaps(request: pytest.FixtureRequest, engine: str) -> None:
    expect_gap(request, engine)


@pytest.fixture(scope="module")
async def bare_engine(engine: str, request: pytest.FixtureRequest) -> AsyncIterator[Settings]:
    """Run the engine with none of our code before it."""
    if engine == DYNAMODB_LOCAL:
        yield request.getfixturevalue("dynamodb_local_settings")
    else:
        async with bare_dynoxide() as local:
            yield local


@pytest.fixture(scope="module")
async def meters(bare_engine: Settings) -> AsyncIterator[Meters]:
    """Yield a store over an engine that is asked for the capacity consumed by every call."""
    metrics = Metrics(None)
    async with open_store(bare_engine, REGION) as opened:
        store = await empty_table(opened, "capacity", metrics)
        yield metered(store, metrics)


class Uncounted(ForwardingStore):
    """A store that keeps DynamoDB's counts to itself, but of a projection: no model can tell it."""

    async def write_batch(self, writes: Sequence[BatchWrite]) -> BatchOutcome:
        """Do a batch."""
        return replace(await self._inner.write_batch(writes), write_units=None)

    async def query(self, query: Query) -> Page:
        """Read a page of a partition."""
        page = await self._inner.query(query)
        return page if query.attributes else page._replace(read_units=None)

    async def scan(self, scan: Scan) -> Page:
        """Read a page of the table."""
        page = await self._inner.scan(scan)
        return page if scan.attributes else page._replace(read_units=None)


def metered(store: Store, metrics: Metrics) -> Meters:
    """Note the capacity consumed by each call, and keep it from what counts."""
    client = store._inner._client.transport._client  # type: ignore[attr-defined]
    store._inner = Uncounted(store._inner)  # type: ignore[attr-defined]
    both = Meters(store, metrics)

    def note(parsed: dict[str, Any], **_: Any) -> None:
        answer = parsed.get("ConsumedCapacity", [])
        for one in answer if isinstance(answer, list) else [answer]:
            both.reported += one["CapacityUnits"]

    client.meta.events.register("after-call.dynamodb", note)
    return both


def new_key() -> Key:
    """Return the key of an item that is not there yet."""
    return f"partition {next(_numbers):06}", "entry"


def item(attributes: dict[str, AttributeValue], key: Key | None = None) -> Item:
    """Return an item under a new key."""
    key = key or new_key()
    return {"pk": {"S": key[0]}, "sk": {"S": key[1]}, **attributes}


def padded(whole: Item, size: int) -> Item:
    """Return the item with one more attribute that brings it to this many bytes."""
    padding = {**whole, "p": {"S": ""}}
    return {**padding, "p": {"S": "x" * (size - item_size(padding))}}


def around_a_border(whole: Item, *, below: int) -> tuple[int, int]:
    """Return two sizes, this far below and one byte above the next border of a write unit."""
    border = -(-(item_size(whole) + 2) // KB) * KB
    return border - below, border + 1


def numbers() -> st.SearchStrategy[str]:
    """Any number as the ledger writes it."""
    return any_amounts().map(amounts.to_text)


def texts(most: int = 40) -> st.SearchStrategy[str]:
    """Any text."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=most)


def values() -> st.SearchStrategy[AttributeValue]:
    """Any attribute value but numbers, small or of some KB, nested ones too."""
    large = st.integers(0, 6 * KB)
    plain = st.one_of(
        texts().map(lambda text: {"S": text}),
        large.map(lambda size: {"S": "é" * (size // 2)}),
        large.map(lambda size: {"B": b"\xff" * size}),
        st.booleans().map(lambda truth: {"BOOL": truth}),
        st.just({"NULL": True}),
        st.sets(texts().filter(bool), min_size=1, max_size=4).map(lambda of: {"SS": sorted(of)}),
    )
    return st.recursive(
        plain,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda parts: {"L": parts}),
            st.dictionaries(texts(8).filter(bool), inner, max_size=3).map(
                lambda parts: {"M": parts}
            ),
        ),
        max_leaves=5,
    )


def attributes() -> st.SearchStrategy[dict[str, AttributeValue]]:
    """Attributes of any item."""
    names = st.sampled_from(["change", "region", "note", "merged", "é", "a long name " * 5])
    return st.dictionaries(names, values(), max_size=4)


@given(attributes=attributes(), consistent=st.booleans())
@examples
async def test_one_item(
    meters: Meters, attributes: dict[str, AttributeValue], *, consistent: bool
) -> None:
    """Putting, getting and deleting any one item costs what the engine says."""
    whole = item(attributes)
    assert await meters.store.write(Put(whole, Absent())) == Applied()
    meters.check()
    assert await meters.store.get(Get(key_of(whole), consistent=consistent)) is not None
    meters.check()
    await meters.store.write(Delete(key_of(whole), size_bytes=item_size(whole)))
    meters.check()


@given(attributes=attributes())
@examples
async def test_sizes_to_the_byte(meters: Meters, attributes: dict[str, AttributeValue]) -> None:
    """Padded to a whole KB by our count of its size, any item is there by the engine's too."""
    whole = item(attributes)
    for size in around_a_border(whole, below=0):
        assert await meters.store.write(Put(padded(whole, size))) == Applied()
        meters.check()


@given(number=numbers())
@example(number="1.5")
@examples
async def test_sizes_of_numbers(meters: Meters, number: str) -> None:
    """A number's size, which the documentation gives as "approximately", is at most a byte off.

    dynoxide pairs digits from the decimal point, we from the first digit: 1.5 is 01 50 or 15.
    """
    whole = item({"number": {"N": number}})
    for size in around_a_border(whole, below=1):
        assert await meters.store.write(Put(padded(whole, size))) == Applied()
        meters.check()


@pytest.mark.parametrize("size", [100, KB - 1, KB, KB + 1, 4 * KB, 4 * KB + 1, 8 * KB, 300 * KB])
async def test_borders_of_units(meters: Meters, size: int) -> None:
    """At each border of a write and a read unit both counts change with the same byte."""
    whole = padded(item({}), size)
    assert item_size(whole) == size
    await meters.store.write(Put(whole))
    meters.check()
    for consistent in (True, False):
        await meters.store.get(Get(key_of(whole), consistent=consistent))
        meters.check()
    await meters.store.transact([Delete(key_of(whole), size_bytes=size)])
    meters.check()


async def test_what_is_not_there(meters: Meters) -> None:
    """Getting or deleting nothing costs the least unit."""
    for consistent in (True, False):
        assert await meters.store.get(Get(new_key(), consistent=consistent)) is None
        meters.check()
    await meters.store.write(Delete(new_key()))
    meters.check()


@pytest.mark.parametrize("consistent", [True, False])
async def test_pages_of_nothing(meters: Meters, *, consistent: bool) -> None:
    """A query of nothing costs the least unit."""
    assert (await meters.store.query(Query(new_key()[0], consistent=consistent))).items == []
    meters.check()


async def test_transactions_that_delete_nothing(meters: Meters) -> None:
    """To delete nothing costs the least unit doubled."""
    await meters.store.transact([Delete(new_key())])
    meters.check()


@given(before=attributes(), number=st.sampled_from(["7", "-25", "1993"]), text=texts(3000))
@example(before={"note": {"S": "x" * 3000}}, number="7", text="")
@examples
async def test_updates(
    meters: Meters, before: dict[str, AttributeValue], number: str, text: str
) -> None:
    """An update that does not shrink the item costs the new item's size."""
    before.pop("change", None)
    whole = item(before)
    await meters.store.write(Put(whole))
    meters.check()
    update = Update(key_of(whole), add={"change": {"N": number}}, set={"added": {"S": text}})
    assert isinstance(await meters.store.write(update), Applied)
    meters.check()


@pytest.mark.parametrize(("old", "new"), [(5 * KB, KB), (KB, 5 * KB), (5 * KB, 5 * KB)])
async def test_a_put_in_place_of_an_item(meters: Meters, old: int, new: int) -> None:
    """A replacement costs the larger of both items, also in a transaction, where it is known."""
    bare = item({})
    await meters.store.write(Put(padded(bare, old)))
    meters.check()
    await meters.store.write(Put(padded(bare, new), replaces_bytes=old))
    meters.check()
    put = Put(padded(bare, old), replaces_bytes=new)
    assert await meters.store.transact([put, Check(new_key(), Absent())]) == Applied()
    meters.check()


@given(many=st.lists(attributes(), min_size=1, max_size=12))
@examples
async def test_batches(meters: Meters, many: list[dict[str, AttributeValue]]) -> None:
    """A batch costs the sum of its writes, of deletes as of puts."""
    items = [item(one) for one in many]
    puts: list[BatchWrite] = [Put(one) for one in items]
    assert await meters.store.write_batch(puts) == BatchOutcome()
    meters.check()
    deletes: list[BatchWrite] = [Delete(key_of(one), size_bytes=item_size(one)) for one in items]
    assert await meters.store.write_batch(deletes) == BatchOutcome()
    meters.check()


@given(many=st.lists(attributes(), min_size=1, max_size=12), gone=st.integers(0, 5))
@example(many=[{}, {}], gone=1)
@examples
async def test_transactions(
    meters: Meters, many: list[dict[str, AttributeValue]], gone: int
) -> None:
    """A transaction costs double, and a check of absence as the least write."""
    items = [item(one) for one in many]
    actions: list[Action] = [Put(one, Absent()) for one in items]
    actions += [Check(new_key(), Absent()) for _ in range(gone)]
    assert await meters.store.transact(actions) == Applied()
    meters.check()


@given(many=st.lists(attributes(), min_size=1, max_size=12), consistent=st.booleans())
@examples
async def test_queries(
    meters: Meters, many: list[dict[str, AttributeValue]], *, consistent: bool
) -> None:
    """A page costs the sum of its items' sizes, rounded once, whatever of them comes back."""
    partition = new_key()[0]
    await fill(meters.store, [item(one, (partition, f"{n}")) for n, one in enumerate(many)])
    meters.check()
    for attributes in ((), ("sk",)):
        page = await meters.store.query(
            Query(partition, consistent=consistent, attributes=attributes)
        )
        assert (len(page.items), page.after) == (len(many), None)
        meters.check()


async def test_queries_of_several_pages(meters: Meters) -> None:
    """Of a collection of 2 MB each page costs its own items."""
    partition, note = new_key()[0], {"S": "x" * 100_000}
    await fill(meters.store, [item({"note": note}, (partition, f"{n:02}")) for n in range(20)])
    meters.check()
    query, pages = Query(partition), 0
    while pages < PAGES_MAX:
        page = await meters.store.query(query)
        meters.check()
        pages += 1
        if page.after is None:
            break
        query = query.next(page)
    assert (page.after, pages > 1) == (None, True)


async def test_scans(meters: Meters) -> None:
    """A scan costs what was read, whether all of it comes back or a projection."""
    await fill(meters.store, [padded(item({}), 3 * KB) for _ in range(5)])
    meters.check()
    for attributes in ((), ("pk",)):
        page = await meters.store.scan(Scan(attributes=attributes, limit=5))
        assert len(page.items) == 5
        meters.check()


async def fill(store: Store, items: list[Item]) -> None:
    """Put these items one by one."""
    for one in items:
        assert await store.write(Put(one)) == Applied()
