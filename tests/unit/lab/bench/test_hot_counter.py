"""Changes of one counter on the model, and what becomes of a run that lost or repeated some."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import pytest
from lab.bench import hot_counter
from lab.bench.hot_counter import COUNTER, Acknowledged, check_history, check_totals, recording
from lab.bench.rounds import Round, Task
from lab.harness.model import Service

from ledger.core.errors import LedgerError
from ledger.session.ledger import Ledger
from ledger.testing import MemoryGlobalTable

AN_ITEM_EACH: Mapping[str, Any] = {"compactor": {"fold_min": 1}}
COMBINED: Mapping[str, Any] = {**AN_ITEM_EACH, "combine": [COUNTER]}


def round_of(**options: Any) -> Round:
    """Return a round of a fifth of a second, of processes in two regions."""
    given = {"rate": 5_000, "size": 1, "regions": 2, "processes": 2, "settings": COMBINED}
    return Round(Task("", 0.2, {**given, **options}))


async def test_a_rate_beyond_a_partition_is_kept_change_by_change() -> None:
    """Each process has 50 calls a turn, which share an item: ten items of each in the time.

    Latencies are of the virtual time: trips of some milliseconds, and the turn.
    """
    found = await hot_counter.on_model(round_of())
    assert 990 < found.work == found.calls <= 1_000
    assert found.units == found.extra["units in the busiest second"] <= 24
    assert found.extra["changes of a unit"] == found.work / found.units
    assert 0.002 < found.p50_seconds < found.p99_seconds < 0.1
    assert found.units < found.extra["units of a change's life"] * found.work < 3 * found.units + 60


async def test_lists_share_items_too() -> None:
    """A call of a hundred changes is one item."""
    found = await hot_counter.on_model(round_of(size=100))
    assert 900 <= found.work == 100 * found.calls == 100 * found.units


async def test_without_sharing_the_model_throttles() -> None:
    """An item a change: of 3,000 a second the partition takes no more than a thousand."""
    found = await hot_counter.on_model(round_of(rate=3_000, processes=1, settings=AN_ITEM_EACH))
    assert 590 < found.work == found.units <= 600
    assert found.extra["changes a second"] < 1_100


async def test_more_units_than_a_partition_takes_are_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are counted in the table: also where nothing throttled them."""
    monkeypatch.setattr(Service, "admit", lambda *_: "")
    with pytest.raises(LedgerError, match=r"write units of 'hot' at .*: a partition takes 1,000"):
        await hot_counter.on_model(round_of(rate=12_000, settings=AN_ITEM_EACH))


@pytest.fixture
async def written() -> AsyncIterator[tuple[Ledger, Acknowledged]]:
    """Write three changes that share an item, and return a ledger of another region."""
    world, acknowledged = MemoryGlobalTable(**COMBINED), Acknowledged()
    async with world.ledger("us-east-1") as home, world.ledger("eu-west-1") as europe:
        assert await recording([home], COUNTER, 3, acknowledged)(5) == (3, 16 + 17 + 18)
        world.replicate()
        yield europe, acknowledged


Written = tuple[Ledger, Acknowledged]


async def test_a_whole_history_has_each_change_once(written: Written) -> None:
    """The units of its items are returned by second: three changes cost one."""
    reader, acknowledged = written
    assert [change for _, change in acknowledged] == [16, 17, 18]
    units = await check_history([reader], acknowledged)
    assert [*units.values()] == [1]


@pytest.mark.parametrize(
    "told",
    [
        lambda known: [*known, (f"{known[0][0]}0", 16)],
        lambda known: known[1:],
        lambda known: [(known[0][0], 17), *known[1:]],
        lambda known: [*known, known[0]],
    ],
    ids=["lost", "nobody was told", "another amount", "one id for two calls"],
)
async def test_a_history_that_differs_is_no_result(
    written: Written, told: Callable[[Acknowledged], Acknowledged]
) -> None:
    """All that calls were told is there, and nothing else."""
    reader, acknowledged = written
    with pytest.raises(LedgerError, match="has 3 changes, of which 3 differ"):
        await check_history([reader], told(acknowledged))


async def test_a_change_twice_in_a_history_is_no_result(written: Written) -> None:
    """Two lines of one change differ in nothing, and count twice."""
    reader, acknowledged = written
    with pytest.raises(LedgerError, match="has 6 changes, of which 3 differ; 3 were acknowledged"):
        await check_history([cast("Ledger", Repeating(reader))], acknowledged)


class Repeating:
    """A ledger whose history has each entry twice."""

    def __init__(self, inner: Ledger) -> None:
        self._inner = inner
        self.region = inner.region

    async def history(self, counter: str) -> AsyncIterator[Any]:
        """Yield each entry two times."""
        async for entry in self._inner.history(counter):
            yield entry
            yield entry


async def test_totals_are_right_and_merged(written: Written) -> None:
    """Entries that are left, or a sum that differs, are no result."""
    reader, _ = written
    with pytest.raises(LedgerError, match="'hot' is 51 with 1 entries in eu-west-1 instead of 51"):
        await check_totals([reader], 51)
    world = MemoryGlobalTable(**COMBINED)
    async with world.ledger() as home:
        await home.record_many([(COUNTER, 1)] * 40)
        assert await world.merge() == 1
        await check_totals([home], 40)
        with pytest.raises(LedgerError, match="'hot' is 40 with 0 entries"):
            await check_totals([home], 39)
