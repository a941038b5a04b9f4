"""Every rule of the plan, by tables: what is folded, deleted, dropped, and what it waits for."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import HOME, SOUTH, WEST

from compactor.merge_plan import (
    MergePlan,
    MergeRules,
    Observation,
    is_committed,
    is_worthwhile,
    older_than,
    plan_merge,
    unrecorded,
)
from ledger.core.contract import REMEMBERED_SECONDS
from ledger.core.entry import entry_id
from ledger.core.errors import AmountOverflow
from ledger.core.fold import Collection
from ledger.core.ids import EntryId
from ledger.core.periods import PeriodRule
from ledger.core.values import NetChange
from ledger.testing.clock import START

NOW = START + timedelta(hours=1)
RULES = MergeRules(home=HOME, settle=900, fold_max=10, fold_min=1, fold_age=86_400, prune_min=3)
OLD = tuple(entry_id(NOW - timedelta(seconds=1000 - place), place) for place in range(12))
A, B, C, D, E, F = OLD[:6]


def net(*merged: EntryId, change: int = 100, count: int = 7, version: str = "v1") -> NetChange:
    """Return a net that counts these and others."""
    until = str(max(merged)) if merged else str(A)
    return NetChange(Decimal(change), count + len(merged), merged, version, until, HOME)


def view(*entries: EntryId | str, shown: NetChange | None = None, change: int = 1) -> Collection:
    """Return what a region shows: entries of the same change each, and a net."""
    return Collection({str(entry): Decimal(change) for entry in entries}, shown)


def seen(
    home: Collection, west: Collection, south: Collection, *, first: NetChange | None = None
) -> Observation:
    """Return an observation; `first` is the net that was read before the views."""
    return Observation("counter", first, {HOME: home, WEST: west, SOUTH: south})


def everywhere(*entries: EntryId | str, shown: NetChange | None = None) -> Observation:
    """Return an observation in which every region shows the same."""
    return seen(*(view(*entries, shown=shown) for _ in range(3)), first=shown)


def plan_of(observation: Observation, rules: MergeRules = RULES) -> MergePlan:
    """Decide now."""
    return plan_merge(observation, rules, now=NOW, version="v2")


def fold_of(observation: Observation, rules: MergeRules = RULES) -> NetChange:
    """Decide now, on a fold."""
    fold = plan_of(observation, rules).fold
    assert fold is not None
    return fold


def test_first_net() -> None:
    """A first fold makes the net of what every region shows, under a version and a home."""
    assert plan_of(everywhere(B, A)) == MergePlan(
        fold=NetChange(Decimal(2), 2, (A, B), "v2", str(B), HOME, generation=1),
        folded=2,
        backlog=2,
    )


def test_what_a_call_makes_once_waits_for_its_record_everywhere() -> None:
    """Merged where a region does not show it, nothing would lead to the entry from there."""
    views = {region: view(A, B) for region in (HOME, WEST, SOUTH)}
    for each in views.values():
        each.records = {str(A): ("~reverse~counter", "id")}
    shown = {HOME: {str(A)}, WEST: {str(A)}}
    for recorded, merged in ({}, (B,)), (shown, (B,)), ({**shown, SOUTH: {str(A)}}, (A, B)):
        observation = Observation("counter", None, views, recorded=recorded)
        plan = plan_of(observation)
        assert plan.fold is not None
        assert plan.fold.merged == merged
        assert plan.unclosed == 0
        waiting = unrecorded(observation, RULES, now=NOW)
        assert waiting == ({str(A)} if merged == (B,) else set())
    assert not plan_of(Observation("counter", None, {**views}, recorded={})).is_last


def test_next_net() -> None:
    """A next fold adds to change and count, keeps ids still visible, and moves `until` on."""
    before = net(A)
    plan = plan_of(everywhere(A, B, C, shown=before))
    assert plan.deletes == (str(A),)
    assert plan.folded == 2
    assert plan.fold == NetChange(Decimal(102), 10, (A, B, C), "v2", str(C), HOME, generation=1)


def test_generation_is_kept() -> None:
    """A fold stays in the generation of the net that it replaces."""
    before = replace(net(), generation=3)
    assert fold_of(everywhere(A, shown=before)).generation == 3


@pytest.mark.parametrize(
    ("where", "folded"),
    [
        ((HOME, WEST, SOUTH), True),
        ((HOME, WEST), False),
        ((WEST, SOUTH), False),
        ((HOME,), False),
        ((SOUTH,), False),
    ],
)
def test_candidates_are_visible_everywhere(where: tuple[str, ...], *, folded: bool) -> None:
    """Only what every region shows is folded."""
    views = {region: view(A, *([B] if region in where else [])) for region in (HOME, WEST, SOUTH)}
    merged = fold_of(Observation("counter", None, views)).merged
    assert merged == ((A, B) if folded else (A,))


def test_candidates_are_the_same_everywhere() -> None:
    """An id that stands for another change in some region is left alone."""
    south = Collection({str(A): Decimal(1), str(B): Decimal(5)})
    assert fold_of(seen(view(A, B), view(A, B), south)).merged == (A,)


def test_candidates_are_new() -> None:
    """A merged entry that is still visible is not counted again."""
    plan = plan_of(everywhere(A, B, shown=net(A, B)))
    assert plan == MergePlan(deletes=(str(A), str(B)), waits="too few entries")


@pytest.mark.parametrize(
    ("age", "folded"), [(0, 0), (899, 0), (900, 0), (900.000001, 1), (9000, 1), (-60, 0)]
)
def test_candidates_are_settled(age: float, folded: int) -> None:
    """An entry is folded once it is older than `settle`: at that age it is not yet."""
    assert plan_of(everywhere(entry_id(NOW - timedelta(seconds=age), 1))).folded == folded


@pytest.mark.parametrize(
    "key", ["sk = a458fc3d", "2026-11-21T05:00:00Z#0000000000000001", "~other", "0"]
)
def test_foreign_entries_are_never_merged(key: str) -> None:
    """What another tool wrote under a key of its own stays as it is."""
    assert plan_of(everywhere(key)).fold is None
    assert fold_of(everywhere(key, A)).merged == (A,)


def test_oldest_first() -> None:
    """When not all fit, the oldest are folded."""
    rules = replace(RULES, fold_max=3)
    assert fold_of(everywhere(*reversed(OLD)), rules).merged == OLD[:3]


@pytest.mark.parametrize(
    ("fold_max", "visible", "folded"),
    [(3, 0, 3), (3, 1, 2), (3, 2, 1), (3, 3, 0), (1, 3, 0), (20, 3, 9)],
)
def test_room_for_ids(fold_max: int, visible: int, folded: int) -> None:
    """Ids kept and ids added stay within `fold_max`; ids that are gone make room."""
    merged = OLD[:3]
    shown = (*merged[:visible], *OLD[3:])
    plan = plan_of(everywhere(*shown, shown=net(*merged)), replace(RULES, fold_max=fold_max))
    assert plan.folded == folded
    if plan.fold is not None:
        assert len(plan.fold.merged) == visible + folded


@pytest.mark.parametrize(
    ("settled", "fold_min", "folded"), [(1, 2, 0), (2, 2, 2), (3, 2, 3), (1, 1, 1), (0, 1, 0)]
)
def test_fold_min(settled: int, fold_min: int, folded: int) -> None:
    """Fewer settled entries than `fold_min` wait."""
    rules = replace(RULES, fold_min=fold_min)
    assert plan_of(everywhere(*OLD[:settled]), rules).folded == folded


def test_fold_min_counts_what_can_be_folded() -> None:
    """Entries that some region has not got yet, or that have no room, make no fold worthwhile."""
    rules = replace(RULES, fold_min=3)
    assert plan_of(seen(view(A, B, C), view(A, B, C), view(A, B)), rules).fold is None
    tight = replace(rules, fold_max=4)
    assert plan_of(everywhere(*OLD, shown=net(A, B)), tight).fold is None


@pytest.mark.parametrize(("fold_age", "folded"), [(999, 1), (1000, 0), (2000, 0)])
def test_fold_age(fold_age: float, folded: int) -> None:
    """One entry that has waited longer than `fold_age` is worth a fold."""
    rules = replace(RULES, fold_min=5, fold_age=fold_age)
    assert plan_of(everywhere(A), rules).folded == folded


def test_gone_is_what_no_region_shows() -> None:
    """An id is dropped once no region shows the entry, and kept while one does."""
    shown = net(A, B, C, D)
    plan = plan_of(
        seen(view(A, shown=shown), view(B, shown=shown), view(C, E, shown=shown), first=shown),
        replace(RULES, prune_min=1),
    )
    assert plan.deletes == (str(A),)
    assert plan.fold is not None
    assert plan.fold.merged == (A, B, C)
    assert (plan.fold.change, plan.fold.count, plan.folded) == (shown.change, shown.count, 0)
    assert plan.fold.until == shown.until


@pytest.mark.parametrize(("gone", "cleans"), [(2, False), (3, True), (4, True)])
def test_clean_min(gone: int, *, cleans: bool) -> None:
    """Ids that are gone are dropped by a fold of their own from `prune_min` on."""
    merged = OLD[:6]
    plan = plan_of(everywhere(*merged[gone:], shown=net(*merged)))
    assert (plan.fold is not None) == cleans
    if plan.fold is not None:
        assert plan.fold.merged == merged[gone:]


def test_ids_go_along_with_a_fold() -> None:
    """A fold of entries drops the ids that are gone, however few."""
    assert fold_of(everywhere(B, C, shown=net(A, B))).merged == (B, C)


def test_deletes_are_what_home_shows() -> None:
    """Merged entries are deleted where the compactor writes; other regions' copies follow."""
    shown = net(A, B, C)
    observation = seen(
        view(A, shown=shown), view(A, B, shown=shown), view(C, shown=shown), first=shown
    )
    assert plan_of(observation).deletes == (str(A),)


@pytest.mark.parametrize(
    ("first", "home", "west", "south", "committed"),
    [
        (None, None, None, None, True),
        ("v1", "v1", "v1", "v1", True),
        ("v1", "v1", "v1", None, False),
        ("v1", "v1", "v0", "v1", False),
        ("v1", "v2", "v2", "v2", False),
        ("v1", "v2", "v1", "v1", False),
        (None, "v1", None, None, False),
        (None, "v1", "v1", "v1", False),
        (None, None, None, "v1", False),
        ("v1", None, None, None, False),
    ],
)
def test_committed(
    first: str | None, home: str | None, west: str | None, south: str | None, *, committed: bool
) -> None:
    """Nothing is done unless every region shows the net that was read first."""
    nets = {version: net(A, version=version) for version in ("v0", "v1", "v2")}
    nets_of = [None if one is None else nets[one] for one in (home, west, south)]
    views = [view(*OLD, shown=one) for one in nets_of]
    observation = seen(*views, first=nets[first] if first else None)
    assert is_committed(observation) == committed
    plan = plan_of(observation)
    if committed:
        assert plan.fold is not None
    else:
        assert plan == MergePlan(waits="not committed")


def test_committed_is_of_one_generation() -> None:
    """The same version in another generation is another net."""
    first = net(A)
    other = replace(first, generation=2)
    views = [view(shown=first), view(shown=first), view(shown=other)]
    assert not is_committed(seen(*views, first=first))


def test_a_committed_net_of_another_home_is_folded_on() -> None:
    """Whichever home wrote it: after a move the new one goes on from there."""
    shown = replace(net(A, B, C, D), home=WEST)
    assert fold_of(everywhere(*OLD, shown=shown)).home == HOME
    uncommitted = seen(view(*OLD, shown=shown), view(*OLD, shown=shown), view(*OLD), first=shown)
    assert plan_of(uncommitted) == MergePlan(waits="not committed")


def test_until_never_falls() -> None:
    """`until` is the newest id ever merged, also when an older entry is folded later."""
    shown = replace(net(), until=str(F))
    assert fold_of(everywhere(A, B, shown=shown)).until == str(F)
    assert fold_of(everywhere(A, OLD[9], shown=shown)).until == str(OLD[9])


def test_overflow() -> None:
    """A sum over 38 digits is an error, not a rounded net."""
    huge = replace(net(), change=Decimal("1E38"))
    with pytest.raises(AmountOverflow):
        plan_of(everywhere(A, shown=huge))


def test_what_does_not_fit_is_an_error_however_few_the_entries_are() -> None:
    """Otherwise nobody would hear of it before they are worth a fold; deletes come first."""
    huge, few = replace(net(), change=Decimal("1E38")), replace(RULES, fold_min=9)
    with pytest.raises(AmountOverflow):
        plan_of(everywhere(A, shown=huge), rules=few)
    merged = replace(net(A), change=Decimal("1E38"))
    assert plan_of(everywhere(A, B, shown=merged), rules=few).deletes == (str(A),)


def test_exact_sum() -> None:
    """Changes of any size and sign add up exactly."""
    entries = {str(A): Decimal("1e20"), str(B): Decimal("-0.000001"), str(C): Decimal("-1e20")}
    shown = Collection(entries)
    assert fold_of(seen(shown, shown, shown)).change == Decimal("-0.000001")


def test_worthwhile() -> None:
    """Without any entry nothing is worthwhile, whatever the numbers."""
    assert not is_worthwhile(settled=0, oldest=None, rules=RULES, now=NOW)
    assert is_worthwhile(settled=1, oldest=str(A), rules=RULES, now=NOW)


def test_older() -> None:
    """Age is counted from the time in the id; ids of the future have none."""
    assert str(A) < older_than(999, now=NOW)
    assert not str(A) < older_than(1000, now=NOW)
    assert not str(entry_id(NOW + timedelta(days=1), 0)) < older_than(0, now=NOW)
    assert older_than(1e10, now=NOW) == str(EntryId(0, 0))


def test_single_region() -> None:
    """A table of one region is merged by the same rules."""
    observation = Observation("counter", None, {HOME: view(A, B)})
    assert fold_of(observation).merged == (A, B)


AFTER_LOSS = replace(RULES, given_up=NOW - timedelta(minutes=15))


def test_what_a_lost_region_may_have_written_is_not_forgotten() -> None:
    """A repeat of the write may still arrive, with a stamp that beats the delete."""
    observed = everywhere(shown=net(A, B, C))
    assert fold_of(observed).merged == ()
    assert plan_of(observed, AFTER_LOSS).is_idle
    assert plan_of(observed, AFTER_LOSS).is_last  # no visit soon can do anything about it


def test_what_was_written_after_the_loss_is_forgotten_as_ever() -> None:
    """The lost region cannot have written it."""
    late = replace(RULES, given_up=A.at)
    assert fold_of(everywhere(shown=net(A, B, C, D)), late).merged == (A,)


@pytest.mark.parametrize(("seconds", "is_forgotten"), [(-1, False), (1, True)])
def test_a_day_after_the_loss_it_is_forgotten(seconds: int, *, is_forgotten: bool) -> None:
    """Nothing of a lost region arrives later than that; without a bound no net would shrink."""
    given_up = NOW - timedelta(seconds=REMEMBERED_SECONDS + seconds)
    ids = tuple(entry_id(given_up - timedelta(seconds=1000), place) for place in range(3))
    plan = plan_of(everywhere(shown=net(*ids)), replace(RULES, given_up=given_up))
    assert plan.is_idle is not is_forgotten


def test_remembered_ids_leave_room_for_folds() -> None:
    """They do not count against `fold_max`, or merging would wait for a day."""
    named = OLD[:10]
    late = tuple(entry_id(NOW - timedelta(seconds=901), place) for place in range(3))
    observed = everywhere(*late, shown=net(*named))
    rules = replace(RULES, given_up=NOW - timedelta(seconds=950))
    assert fold_of(observed, rules).merged == (*named, *late)


def test_a_net_names_no_more_ids_than_an_item_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then merging waits until the day is over: the entries are counted as they are."""
    monkeypatch.setattr("compactor.merge_plan.NAMED_MAX", 11)
    late = tuple(entry_id(NOW - timedelta(seconds=901), place) for place in range(3))
    observed = everywhere(*late, shown=net(*OLD[:10]))
    rules = replace(RULES, given_up=NOW - timedelta(seconds=950))
    assert fold_of(observed, rules).merged == (*OLD[:10], late[0])


def test_a_remembered_entry_that_comes_back_is_deleted() -> None:
    """It is named, so it counts once, and the next visit deletes it again."""
    plan = plan_of(seen(view(A, shown=net(A)), view(shown=net(A)), view(shown=net(A)),
                        first=net(A)), AFTER_LOSS)  # fmt: skip
    assert plan.deletes == (str(A),)
    assert not plan.is_last


@pytest.mark.parametrize("partition", ["audit/x", "~3~audit/x"])
def test_a_counter_left_out_of_merging_is_not_folded(partition: str) -> None:
    """What is settled stays, however much there is; it is no backlog, and nothing waits for it."""
    rules = replace(RULES, unmerged=("other", "audit/*"))
    found = replace(everywhere(A, B, C), partition=partition)
    plan = plan_of(found, rules)
    assert (plan.is_idle, plan.backlog, plan.is_last) == (True, 0, True)
    assert plan_of(replace(found, partition="audits"), rules).folded == 3


def test_what_a_fold_began_is_finished_after_its_counter_was_left_out() -> None:
    """Merged entries that still show are deleted, ids that no region shows are forgotten."""
    rules = replace(RULES, unmerged=("counter",))
    assert plan_of(everywhere(A, B, C, shown=net(A, B)), rules).deletes == (str(A), str(B))
    fold = plan_of(everywhere(F, shown=net(A, B, C)), rules).fold
    assert fold is not None
    assert not fold.merged
    assert fold.change == 100


METERED = replace(RULES, periods={"counter": PeriodRule(24, 20, 3, effective=True)})


def dated(view: Collection, dates: Mapping[str, str]) -> Collection:
    """Return what a region shows, with the dates from which entries are effective."""
    view.dates = dict(dates)
    return view


def test_ids_are_forgotten_and_the_sums_stay() -> None:
    """A fold of nothing carries them on."""
    first = fold_of(everywhere(A, B, C, D), METERED)
    assert first.periods is not None
    forgotten = fold_of(everywhere(shown=first), METERED)
    assert (forgotten.merged, forgotten.periods) == ((), first.periods)
    assert fold_of(everywhere(shown=first), RULES).periods is None


def test_what_regions_do_not_show_with_the_same_date_waits() -> None:
    """Its period is not the same in both, whichever of them has a date."""
    for at_home, elsewhere in (
        ("2026-01-01", ""),
        ("", "2026-01-01"),
        ("2026-01-01", "2026-02-01"),
    ):
        views = [
            dated(view(A, B), {str(A): date} if date else {})
            for date in (at_home, elsewhere, at_home)
        ]
        assert list(fold_of(seen(*views), METERED).merged) == [B]
    assert METERED.needs_dates("counter")
    assert not replace(RULES, periods={"counter": PeriodRule(1, 2, 3)}).needs_dates("counter")
    assert not METERED.needs_dates("other")


def test_a_net_with_sums_by_period_has_room_for_them() -> None:
    """It names fewer ids, so that both fit in an item."""
    named = tuple(entry_id(NOW - timedelta(seconds=5000), place) for place in range(24_500))
    before = replace(net(*named), periods=None)
    rules = replace(METERED, fold_max=25_000)
    shown = everywhere(*named, A, shown=before)
    assert plan_of(shown, replace(rules, periods={})).folded == 1
    assert plan_of(shown, rules).folded == 0
