"""Worlds that keep an index: it says what the nets say, and the auditor would see if it did not."""

from typing import Any

import pytest
from proof.simulator.index_audit import IndexAudit
from proof.simulator.losses import is_lossy
from proof.simulator.run import run_seed
from proof.simulator.scenario import draw, keeps_index
from proof.simulator.terms import is_contracted
from support.tiers import few_fast

from ledger.core.entry import Item

SEEDS = [seed for seed in range(400) if keeps_index(seed)]
KINDS = (lambda _seed: True, is_lossy, is_contracted)
SOME = sorted({seed for kind in KINDS for seed in [*filter(kind, SEEDS)][:1]})


@pytest.mark.parametrize("seed", few_fast(SOME, fast=1))
def test_a_world_with_an_index_keeps_it(seed: int) -> None:
    """Under crashes, lost answers, rivals, changes of terms and a lost region."""
    assert draw(seed).settings.index == ("counter-*",)
    assert run_seed(seed).violation is None


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", sorted({*SEEDS} - {*SOME}))
def test_many_worlds_with_an_index_keep_it(seed: int) -> None:
    """The same, of more of them."""
    assert run_seed(seed).violation is None


def net(count: int, change: int) -> Item:
    """Return what the auditor reads of a net."""
    return {
        "pk": {"S": "counter-0"},
        "sk": {"S": "~net#0001"},
        "merged": {"B": b""},
        "count": {"N": str(count)},
        "change": {"N": str(change)},
    }


def index(count: int, value: int, sort_key: str = "counter-0") -> Item:
    """Return an index item."""
    numbers = {"generation": int(count > 0), "count": count, "value": value}
    named: dict[str, Any] = {name: {"N": str(number)} for name, number in numbers.items()}
    return {"pk": {"S": "~index-1"}, "sk": {"S": sort_key}, **named}


def audit(*nets: Item, **options: bool) -> IndexAudit:
    """Return an auditor that has seen some nets."""
    made = IndexAudit(("counter-*",), **options)
    for item in nets:
        assert made.arrived("here", item) == ""
    return made


def test_a_state_that_no_net_had_is_wrong() -> None:
    """In value or in count, of this collection; to be listed at 0 never is."""
    seen = audit(net(2, 110))
    assert seen.arrived("here", index(2, 110)) == ""
    assert seen.arrived("here", index(0, 0)) == ""
    for wrong in (index(2, 111), index(3, 110), index(2, 110, "counter-0\x1f0001")):
        assert "as no net did" in seen.arrived("here", wrong)


def test_an_item_that_goes_back_is_wrong_where_there_is_one_home() -> None:
    """Two homes' conditions do not order their writes."""
    for has_one_home in (True, False):
        seen = audit(net(2, 11), net(4, 1111), has_one_home=has_one_home)
        assert seen.changed("here", "~index-1", {"a": index(4, 1111)}) == ""
        said = seen.changed("here", "~index-1", {"a": index(2, 11)})
        assert bool(said) is has_one_home


def test_at_rest_an_item_is_that_of_the_net() -> None:
    """Missing or older is wrong; where a home is lost, the highest generation counts."""

    def at_rest(*items: Item, has_net: bool = True, loses: bool = False) -> str:
        seen = audit(net(2, 11), loses=loses)
        collection = {"~net#0001": net(2, 11)} if has_net else {}
        partitions = {
            "counter-0": collection,
            "~index-1": {item["sk"]["S"]: item for item in items},
        }
        return seen.wrong_at_rest("here", "counter-0", "counter-0", partitions)

    former, now = index(0, 0), index(2, 11, "counter-0\x1f0000\x1f0002")
    assert at_rest(index(2, 11)) == ""
    assert at_rest(index(0, 0), has_net=False) == ""
    assert at_rest(former, now, loses=True) == ""
    for loses in (True, False):
        for wrong in (
            (),
            (former,),
            (index(2, 12),),
            (now, index(2, 12, "counter-0\x1f0000\x1f0003")),
        ):
            assert at_rest(*wrong, loses=loses).startswith("the index in here says")
    assert at_rest(former, now).startswith("the index in here says")
    assert at_rest(has_net=False).startswith("the index in here says")
