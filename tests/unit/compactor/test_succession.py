"""After a region was lost: which net is taken over, what is deleted where, what is put again."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import HOME, SOUTH, WEST

from compactor.merge_plan import MergeRules, Observation, plan_merge
from compactor.succession import PutAgain, Succession, newest_net, succeed
from ledger.core.entry import entry_id, net_item
from ledger.core.fold import Collection, collect
from ledger.core.ids import EntryId
from ledger.core.sums import COPY, Sum, SumPlace, copy_item
from ledger.core.values import NetChange
from ledger.testing.clock import START

NOW = START + timedelta(hours=1)
LOST = "sa-east-1"
RULES = MergeRules(
    home=HOME, settle=900, fold_max=10, fold_min=1, fold_age=86_400, prune_min=3, generation=2
)
NEVER = replace(RULES, fold_min=1_000, fold_age=1e9, prune_min=1_000)
"""Rules by which nothing is folded."""
A, B, C, D = (entry_id(NOW - timedelta(seconds=1000 - place), place) for place in range(4))
YOUNG = entry_id(NOW - timedelta(seconds=60), 9)
OLD = NetChange(Decimal(7), 3, (A,), "v1", str(A), LOST)
NEWER = NetChange(Decimal(9), 5, (A, B), "v2", str(B), LOST)
OURS = NetChange(Decimal(9), 5, (A, B), "w1", str(B), HOME, generation=2)


def view(*entries: EntryId | str, net: NetChange | None = None, change: int = 1) -> Collection:
    """Return what a region shows: entries of the same change each, and a net."""
    return Collection({str(entry): Decimal(change) for entry in entries}, net)


def seen(views: Mapping[str, Collection], first: NetChange | None = None) -> Observation:
    """Return an observation; `first` is home's net, by default as home's view shows it."""
    return Observation("counter", first or views[HOME].net, views)


def steps(
    observation: Observation, rules: MergeRules = NEVER, *, upto: str | None = None
) -> Succession:
    """Decide now."""
    return succeed(observation, rules, now=NOW, version="new", upto=upto)


def beside(ours: NetChange, *outdated: NetChange) -> Collection:
    """Return a region's view in which nets of older generations lie beside."""
    return collect([net_item(net, "counter") for net in (ours, *outdated)])


@pytest.mark.parametrize(
    ("home", "west"),
    [(OLD, NEWER), (NEWER, OLD), (None, NEWER), (NEWER, None)],
    ids=["newer elsewhere", "newer at home", "only elsewhere", "only at home"],
)
def test_the_newest_version_seen_is_taken_over(
    home: NetChange | None, west: NetChange | None
) -> None:
    """A net of an older generation anywhere is followed by one of the table's, with its content."""
    found = steps(seen({HOME: view(A, B, net=home), WEST: view(A, net=west)}))
    assert found.take_over == replace(NEWER, generation=2, home=HOME, version="new")


def test_a_take_over_stands_alone() -> None:
    """Before there is a net of this generation nothing is folded, deleted or put again."""
    found = steps(seen({HOME: view(A, B, C, net=OLD), WEST: view(A, net=OLD)}), RULES)
    assert found == Succession(take_over=found.take_over)
    assert not found.is_idle


def test_of_nets_that_count_the_same_the_one_that_names_fewer_is_newer() -> None:
    """Forgetting ids changes neither count nor the newest id."""
    forgot = replace(NEWER, merged=(B,), version="v3")
    observation = seen({HOME: view(net=NEWER), WEST: view(net=forgot)})
    assert newest_net(observation) == forgot


def test_a_net_that_was_read_first_counts_as_seen() -> None:
    """The net read before the views may be the only sight of it."""
    assert newest_net(seen({HOME: view()}, first=OLD)) == OLD
    assert newest_net(seen({HOME: view()})) is None


def test_a_newer_generation_than_the_contracts_stops_everything() -> None:
    """Then this process's view of the contract is an old one."""
    late = replace(OURS, generation=3)
    found = steps(seen({HOME: view(C, net=OURS), WEST: view(C, net=late)}), RULES)
    assert found == Succession(waits="the contract has a newer generation")
    assert found.is_idle


def test_first_nets_have_the_tables_generation() -> None:
    """Where no region shows a net, the usual fold makes one of the contract's generation."""
    fold = steps(seen({HOME: view(C), WEST: view(C)}), RULES).plan.fold
    assert fold is not None
    assert (fold.generation, fold.merged, fold.home) == (2, (C,), HOME)


def test_the_usual_plan_goes_on() -> None:
    """Once the net of this generation is everywhere, entries are folded as ever."""
    observation = seen({HOME: view(C, net=OURS), WEST: view(C, net=OURS)})
    assert steps(observation, RULES).plan == plan_merge(observation, RULES, now=NOW, version="new")


def test_nothing_happens_before_the_net_is_everywhere() -> None:
    """Not committed: a region still shows the net before; it waits."""
    west = beside(replace(OURS, version="w0"), OLD)
    found = steps(seen({HOME: view(A, C, net=OURS), WEST: west}), RULES)
    assert found.is_idle
    assert found.waits == "not committed"


def test_a_committed_net_of_another_home_is_merged_on() -> None:
    """Which region writes is the contract's to say; the net only names the last that did."""
    other = replace(OURS, home=WEST)
    found = steps(seen({HOME: view(A, C, net=other), WEST: view(A, C, net=other)}), RULES)
    assert found.plan.fold is not None
    assert found.plan.fold.home == HOME
    assert found.deletes == {HOME: (str(A),)}


def test_outdated_nets_are_deleted_where_they_are_shown() -> None:
    """Once the net of this generation is everywhere, the older ones stand for nothing."""
    third = replace(OURS, generation=3)
    views = {HOME: beside(third, OLD, OURS), WEST: beside(third), SOUTH: beside(third, OLD)}
    found = steps(seen(views), replace(NEVER, generation=3))
    assert found.deletes == {HOME: ("~net#0001", "~net#0002"), SOUTH: ("~net#0001",)}


def test_named_entries_are_deleted_through_home_where_home_shows_them() -> None:
    """One delete, which replicates, is enough."""
    views = {HOME: view(A, net=OURS), WEST: view(A, net=OURS)}
    assert steps(seen(views)).deletes == {HOME: (str(A),)}


def test_named_entries_that_home_does_not_show_are_deleted_through_each_that_does() -> None:
    """A delete at home would be no write there, and nothing would replicate."""
    views = {HOME: view(net=OURS), WEST: view(A, B, net=OURS), SOUTH: view(B, net=OURS)}
    assert steps(seen(views)).deletes == {WEST: (str(A), str(B)), SOUTH: (str(B),)}


def test_an_entry_that_not_all_regions_show_is_put_again_through_one_that_does() -> None:
    """The put is newer than what is there; its condition is the net as observed."""
    views = {HOME: view(net=OURS), WEST: view(net=OURS), SOUTH: view(C, net=OURS)}
    expected = PutAgain(SOUTH, str(C), "~net#0002", (2, "w1"))
    assert steps(seen(views)).again == (expected,)


def test_an_entry_that_home_shows_is_put_again_through_home() -> None:
    """Of several regions that show it home is preferred; without a net its absence is checked."""
    views = {WEST: view(C), HOME: view(C), SOUTH: view()}
    assert steps(seen(views)).again == (PutAgain(HOME, str(C), "~net#0002", None),)


def test_an_entry_that_regions_show_differently_is_put_again() -> None:
    """The last write of a lost region may have reached one region and not the other."""
    views = {HOME: view(C, change=5), WEST: view(C, change=7)}
    assert [one.region for one in steps(seen(views)).again] == [HOME]


@pytest.mark.parametrize(
    "entry",
    [A, YOUNG, "a458fc3d"],
    ids=["named by the net", "not settled", "under a foreign key"],
)
def test_what_is_not_put_again(entry: EntryId | str) -> None:
    """A named entry is on its way out, a young one on its way in, a foreign one is not ours."""
    views = {HOME: view(net=OURS), WEST: view(entry, net=OURS)}
    assert steps(seen(views)).again == ()


def test_what_all_regions_show_is_not_put_again() -> None:
    """Nothing is missing anywhere."""
    found = steps(seen({HOME: view(C), WEST: view(C)}))
    assert found.is_idle


def test_what_lies_beyond_the_views_is_left_to_a_later_visit() -> None:
    """A region that was not read that far does not lack the entry."""
    views = {HOME: view(C, D), WEST: view()}
    assert [one.key for one in steps(seen(views), upto=str(C)).again] == [str(C)]


def test_a_visit_is_the_last_only_if_nothing_else_is_left() -> None:
    """What is deleted elsewhere, or put again, is looked after once more."""
    named = replace(OURS, merged=(A,))
    views = {HOME: view(net=named), WEST: view(net=named)}
    assert steps(seen(views)).is_last
    assert not steps(seen({**views, WEST: view(A, net=named)})).is_last
    assert not steps(seen({**views, WEST: view(C, net=named)})).is_last
    assert not steps(seen({HOME: view(net=OLD), WEST: view()})).is_last


EPOCHS = replace(NEVER, epochs={HOME: 1, WEST: 3})
GONE, FORMER, NOW_WRITTEN = SumPlace(LOST, 1), SumPlace(WEST, 2), SumPlace(WEST, 3)


def with_sums(
    sums: Mapping[SumPlace, int], copies: Mapping[SumPlace, int] | None = None
) -> Collection:
    """Return a view of sums and copies at these versions; each addition was of ten."""
    items = [
        {**copy_item("counter", place, Sum(Decimal(10 * version), version)), "sk": {"S": key}}
        for placed, ending in ((sums, ""), (copies or {}, COPY))
        for place, version in placed.items()
        for key in [f"{place.sort_key}{ending}"]
    ]
    return collect(items)


@pytest.mark.parametrize(
    ("home", "west", "copied"),
    [
        pytest.param(with_sums({GONE: 2}), with_sums({GONE: 2}), {GONE: 2}, id="alike"),
        pytest.param(with_sums({GONE: 1}), with_sums({GONE: 2}), {GONE: 2}, id="newer elsewhere"),
        pytest.param(with_sums({}), with_sums({GONE: 2}), {GONE: 2}, id="only elsewhere"),
        pytest.param(with_sums({GONE: 1}, {GONE: 2}), with_sums({GONE: 2}), {}, id="copied"),
        pytest.param(
            with_sums({GONE: 1}, {GONE: 2}), with_sums({GONE: 3}), {GONE: 3}, id="newer since"
        ),
        pytest.param(
            with_sums({}), with_sums({}, {GONE: 2}), {GONE: 2}, id="a copy of a former home"
        ),
        pytest.param(
            with_sums({FORMER: 1, NOW_WRITTEN: 1}),
            with_sums({FORMER: 2, NOW_WRITTEN: 5}),
            {FORMER: 2},
            id="of a region that was added again",
        ),
    ],
)
def test_the_newest_version_of_a_sum_that_is_over_is_copied(
    home: Collection, west: Collection, copied: dict[SumPlace, int]
) -> None:
    """Each time that a region shows a higher one; what is still written is left alone."""
    found = steps(seen({HOME: home, WEST: west}), EPOCHS)
    assert {place: each.version for place, each in found.copies.items()} == copied
    assert {place: each.value for place, each in found.copies.items()} == {
        place: 10 * version for place, version in copied.items()
    }
    assert (found.is_idle, found.is_last) == (not copied, not copied)


def test_sums_are_copied_whatever_becomes_of_the_net() -> None:
    """Also beside a take-over, and while the net is not committed."""
    shown = with_sums({GONE: 2})
    for net in (OLD, OURS):
        home, west = with_sums({GONE: 2}), view(net=None)
        home.net = net
        found = steps(seen({HOME: home, WEST: west}), EPOCHS)
        assert set(found.copies) == {GONE}
    assert steps(seen({HOME: shown, WEST: shown}), NEVER).copies == {}
