"""What the page shows of totals: sums below a path, bounded curves, names by a pattern."""

from typing import Any
from unittest.mock import patch

import pytest
from support.ledgers import HOME

from ledger.commands.pipeline import watching
from ledger.commands.pipeline.rows import (
    CURVES_MAX,
    POINTS_MAX,
    POINTS_OF_MANY,
    Curves,
    matches,
    sums_below,
)
from ledger.commands.pipeline.watching import Watched, names_in
from ledger.core.errors import InvalidInput
from ledger.store.memory import MemoryStore


def row(name: str, **regions: str) -> dict[str, Any]:
    """Return the row of a category."""
    return {"category": name, "regions": regions}


def test_sums_stand_for_all_that_lies_below_a_path() -> None:
    """Exact beyond 28 digits, of regions that show every member; a path of one has none."""
    long = "12345678901234567890123456789012345678"
    rows = [
        row("desk/EMEA/A", us=long, eu="1"),
        row("desk/EMEA/B", us="0.5", eu="2"),
        row("desk/APAC", us="-0.25"),
        row("desk", us="9", eu="9"),
        row("risk/Delta", us="1", eu="1"),
    ]
    found = {one["category"]: (one["below"], one["regions"]) for one in sums_below(rows)}
    assert found == {
        "desk/": (3, {"us": f"{long}.25"}),
        "desk/EMEA/": (2, {"us": f"{long}.5", "eu": "3"}),
    }


def test_curves_keep_the_ends_and_a_bound() -> None:
    """The newest point and the first stay; the older half is thinned, and so are many curves."""
    curves = Curves()
    for second in range(10 * POINTS_MAX):
        curves.add(second, [row("a", us=str(second)), row("b", us="0")])
    (alone,) = curves.of(["a"]).values()
    last = 10 * POINTS_MAX - 1
    assert len(alone) <= POINTS_MAX
    assert [alone[0], alone[-1]] == [(0, {"us": "0"}), (last, {"us": str(last)})]
    assert [second for second, _ in alone] == sorted(second for second, _ in alone)
    several = curves.of(["a", "b", "none"])
    assert [len(points) for points in several.values()] == [POINTS_OF_MANY, POINTS_OF_MANY, 0]
    assert several["a"][-1] == alone[-1]
    assert len(curves.of([str(number) for number in range(2 * CURVES_MAX)])) == CURVES_MAX


def test_a_pattern_has_one_star_at_its_end() -> None:
    """Others are refused by name; ids of counters are checked."""
    watched = Watched.of(["a", "kind/*", "a"])
    assert (watched.named, watched.prefixes) == (["a"], ["kind/*"])
    assert matches("kind/x", watched.prefixes)
    assert not matches("kin", watched.prefixes)
    for bad in ("*/a*", "a**"):
        with pytest.raises(InvalidInput, match="one \\*, at its end"):
            Watched.of([bad])
    with pytest.raises(InvalidInput):
        Watched.of(["~contract"])


async def test_names_are_those_of_counters_alone() -> None:
    """Page by page, shards once; what the ledger keeps of its own is no counter; and bounded."""
    store = MemoryStore(HOME, page_items_max=2)
    for partition in ("kind/b", "kind/a", "~3~kind/a", "~state~kind/x", "other", "kin"):
        store.table.set((partition, "01"), {"pk": {"S": partition}, "sk": {"S": "01"}})
    assert await names_in(store, ["kind/*"]) == ["kind/a", "kind/b"]
    with (
        patch.object(watching, "COUNTERS_MAX", 1),
        pytest.raises(InvalidInput, match="over 1 counters begin as kind/\\*: name fewer"),
    ):
        await names_in(store, ["kind/*"])
