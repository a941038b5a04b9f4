from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from support.ledgers import HOME
from support.pipelines import pipeline_settings

from ledger.core import ids
from ledger.core.contract import Validity
from ledger.core.entry import Item, entry_of
from ledger.core.errors import InvalidInput
from ledger.pipeline.core.category_sums import Changes
from ledger.pipeline.core.items import MapItem, map_item, map_item_of
from ledger.pipeline.core.lane_state import LaneState, lane_item, still
from ledger.pipeline.core.plans import ReducePlan, grouped, plan_map, plan_reduce
from ledger.settings import Settings
from ledger.store.conditions import Absent, Has
from ledger.store.memory import MemoryStore
from ledger.store.writes import Applied, Delete, Put, Rejected, Update, signed_by
from ledger.testing.clock import START

LANE = "us-east-1/lane"
AT = LaneState(rev=2, position="03", is_open=True)
SETTINGS = pipeline_settings()
ENTRIES = pipeline_settings(totals="entries")


def made(name: str, *categories: str, change: int = 1, audit: int = 0) -> MapItem:
    """Return a map item of these categories."""
    changes = dict.fromkeys(categories, Decimal(change))
    return map_item_of(map_item(LANE, name, 0, changes, audit=audit))


def reduced(
    *items: MapItem,
    seconds: float = 0.0,
    settings: Settings = SETTINGS,
) -> ReducePlan:
    """Plan to reduce some map items."""
    now = START + timedelta(seconds=seconds)
    return plan_reduce(items, region=HOME, settings=settings, now=now)


def test_a_commit_moves_the_lane_from_where_the_batch_begins() -> None:
    """Map items are put where none is, and the lane goes on only from the batch's beginning."""
    plan = plan_map(LANE, AT, "07", {"a": Decimal(5)})
    assert plan is not None
    moved, put = plan.actions
    then = replace(AT, rev=3, position="07")
    assert moved == Put(lane_item(LANE, then), still(AT))
    assert plan.state == then
    assert put.condition == Absent()
    assert [item.key for item in plan.items] == [put.key]
    first = plan_map(LANE, LaneState(), "07", {"a": Decimal(5)})
    assert first is not None
    assert first.actions[0].condition == Absent()


def test_the_same_batch_is_the_same_commit() -> None:
    """Repeating a batch gives the same keys and token; another cut gives others."""
    changes: Changes = {"a": Decimal(5)}
    assert plan_map(LANE, AT, "07", changes) == plan_map(LANE, AT, "07", changes)
    one, other = plan_map(LANE, AT, "07", changes), plan_map(LANE, AT, "08", changes)
    assert one is not None
    assert other is not None
    assert one.token != other.token
    assert one.items[0].key != other.items[0].key
    audited = plan_map(LANE, replace(AT, audit=4), "07", changes)
    assert audited is not None
    assert audited.token != one.token
    assert [item.key for item in audited.items] == [item.key for item in one.items]
    assert [item.audit for item in audited.items] == [4]


def test_a_batch_without_changes_only_moves_the_lane() -> None:
    """No map item is made of nothing."""
    plan = plan_map(LANE, AT, "07", {})
    assert plan is not None
    assert (len(plan.actions), plan.items) == (1, ())


def test_what_is_too_much_for_a_transaction_is_told() -> None:
    """Too many categories, or too many bytes of them, make no plan."""
    assert plan_map(LANE, AT, "07", {f"c{n}": Decimal(1) for n in range(5000)}) is None
    long = {f"{n:04d}{'x' * 1000}": Decimal(1) for n in range(2100)}
    assert plan_map(LANE, AT, "07", long) is None


def test_reduce_writes_ordinary_entries() -> None:
    """One entry per category with the sum of its changes, of this moment, signed no later."""
    plan = reduced(made("m1", "a", "b"), made("m2", "b", "c", change=2), settings=ENTRIES)
    puts = [action for action in plan.actions if isinstance(action, Put)]
    assert {(entry.counter, entry.change) for entry in plan.entries} == {
        ("a", Decimal(1)),
        ("b", Decimal(3)),
        ("c", Decimal(2)),
    }
    assert [entry_of(put.item) for put in puts] == list(plan.entries)
    for entry, put in zip(plan.entries, puts, strict=True):
        assert (entry.region, entry.at) == (HOME, START)
        assert ids.parse(entry.id) is not None
        assert put.condition == Absent()
        assert put.not_after == START + timedelta(seconds=SETTINGS.retry_horizon)


def test_reduce_adds_to_the_sum_of_its_own_region() -> None:
    """One addition per category, none signed later than the contract was looked at for."""
    plan = reduced(made("m1", "a", "b"), made("m2", "b", "c", change=2))
    adds = [action for action in plan.actions if isinstance(action, Update)]
    assert plan.categories == ("a", "b", "c")
    assert plan.entries == ()
    assert [add.key for add in adds] == [(each, f"~sum#{HOME}.1#0") for each in "abc"]
    assert [add.add["value"] for add in adds] == [{"N": "1"}, {"N": "3"}, {"N": "2"}]
    assert {str(add.add["version"]) for add in adds} == {"{'N': '1'}"}
    items = [made("m1", "a")]
    until = Validity(START, 0.0)
    bound = plan_reduce(items, region=HOME, settings=SETTINGS, now=START, validity=until)
    assert signed_by(bound.actions) == START


def test_a_region_that_was_added_again_adds_to_other_sums() -> None:
    """Its former ones may be copied already."""
    terms = replace(SETTINGS.terms, lost=(HOME, HOME))
    settings = SETTINGS.under(terms, home=HOME)
    [add, _] = reduced(made("m1", "a"), settings=settings).actions
    assert add.key == ("a", f"~sum#{HOME}.3#0")


@pytest.mark.parametrize("settings", [SETTINGS, ENTRIES], ids=["sums", "entries"])
def test_a_category_that_became_a_book_is_not_added_to(settings: Settings) -> None:
    """Its records were taken before the contract said so; nothing of them is lost."""
    with_books = settings.replace(books=["b*"])
    with pytest.raises(InvalidInput, match="'book' is a book, by a pattern of `books`"):
        reduced(made("m1", "a", "book"), settings=with_books)
    assert reduced(made("m1", "a"), settings=with_books).actions


def test_slots_spread_lanes() -> None:
    """A lane keeps to one slot, so lanes of different ones never meet in a transaction."""
    settings = pipeline_settings(slots=8)
    lanes = [map_item_of(map_item(f"{HOME}/{n}", "m", 0, {"a": Decimal(1)})) for n in range(50)]
    keys = [reduced(item, settings=settings).actions[0].key for item in lanes]
    assert {key[1] for key in keys} == {f"~sum#{HOME}.1#{slot}" for slot in range(8)}
    assert keys == [reduced(item, settings=settings).actions[0].key for item in lanes]


@pytest.mark.parametrize(
    ("before", "change", "fits"),
    [
        ("99999999999999999999997.999999999999999", "1", True),
        ("99999999999999999999999", "1", False),
        ("-99999999999999999999999", "1", True),
        ("-99999999999999999999999", "-1", False),
        ("9999999999999999999", "1E-18", True),
        ("100000000000000000000", "1E-18", False),
    ],
)
async def test_no_sum_gets_more_than_38_digits(before: str, change: str, *, fits: bool) -> None:
    """The addition is refused, with its category, whatever an engine would make of it."""
    store = MemoryStore(HOME)
    item = map_item(LANE, "m1", 0, {"a": Decimal(change)})
    plan = reduced(map_item_of(item))
    old = {"value": {"N": before}, "version": {"N": "1"}}
    await store.write(Put(item))
    await store.write(Put({"pk": {"S": "a"}, "sk": {"S": f"~sum#{HOME}.1#0"}, **old}))
    outcome = await store.transact(plan.actions)
    assert isinstance(outcome, Applied) == fits
    if isinstance(outcome, Rejected):
        assert plan.full(outcome.found) == ["a"]


@pytest.mark.parametrize("pipeline", ["", "trades"])
def test_what_is_added_beyond_a_cut_is_added_to_since_too(pipeline: str) -> None:
    """Of map items that are tagged with an audit, and in the same transaction as the addition."""
    items = (
        made("m1", "a", "b"),
        made("m2", "b", "c", change=2, audit=7),
        made("m3", "c", change=-2, audit=7),
    )
    named = pipeline_settings(name=pipeline)
    plan = reduced(*items, settings=named)
    adds = [action for action in plan.actions if isinstance(action, Update)]
    since = f"since.{pipeline}.7" if pipeline else "since.7"
    assert {add.key[0]: dict(add.add) for add in adds} == {
        "a": {"value": {"N": "1"}, "version": {"N": "1"}},
        "b": {"value": {"N": "3"}, "version": {"N": "1"}, since: {"N": "2"}},
    }
    both = [made("m1", "a", audit=8), made("m2", "a", change=-1, audit=7)]
    [cancelled, _, _] = reduced(*both, settings=named).actions
    assert isinstance(cancelled, Update)
    assert cancelled.add["value"] == {"N": "0"}
    assert {name[-1]: number for name, number in cancelled.add.items() if "since" in name} == {
        "7": {"N": "-1"},
        "8": {"N": "1"},
    }
    beside = pipeline_settings(name=pipeline, totals="entries")
    plan = reduced(*items, settings=beside)
    [put] = [one for one in plan.actions if isinstance(one, Put) and "sums" in one.item]
    assert (put.item["sums"], put.condition) == ({"M": {"b": {"N": "2"}}}, Absent())
    assert put.key[0] == (f"~pipeline.{pipeline}" if pipeline else "~pipeline")
    assert put.key[1].startswith(f"since#7#{HOME}#")


def test_map_items_are_deleted_on_condition_that_they_are_there() -> None:
    """Each delete stands only if its map item does."""
    items = made("m1", "a"), made("m2", "b")
    plan = reduced(*items)
    deletes = [action for action in plan.actions if isinstance(action, Delete)]
    assert [delete.key for delete in deletes] == [item.key for item in items]
    assert {delete.condition for delete in deletes} == {Has("sums")}


def test_sums_that_cancel_only_delete() -> None:
    """A correction that takes everything back leaves no entries of nothing."""
    plan = reduced(made("m1", "a"), made("m2", "a", change=-1))
    assert plan.entries == ()
    assert len(plan.actions) == 2


def test_ids_follow_from_the_map_items_and_the_moment() -> None:
    """The same again is the same request under the same token; a later one is another."""
    one, again, later = (reduced(made("m1", "a"), seconds=at, settings=ENTRIES) for at in (0, 0, 1))
    assert one == again
    assert later.token != one.token
    assert later.entries[0].id[-16:] == one.entries[0].id[-16:]
    assert reduced(made("m2", "a"), settings=ENTRIES).entries[0].id != one.entries[0].id


@pytest.mark.parametrize("settings", [SETTINGS, ENTRIES])
def test_what_another_was_faster_with_is_left_out(settings: Settings) -> None:
    """The positions of failed conditions tell which map items are gone."""
    items = made("m1", "a"), made("m2", "b"), made("m3", "c")
    plan = reduced(*items, settings=settings)
    gone: dict[int, Item | None] = {3 + 1: None}
    assert plan.left(gone) == [items[0], items[2]]
    assert plan.left({0: None}) == list(items)


def test_groups_fit_in_a_transaction() -> None:
    """Entries and deletes of a group are at most 100, and all map items are in one."""
    items = [made(f"m{n}", *(f"c{n}-{place}" for place in range(30))) for n in range(7)]
    groups = grouped(items)
    assert all(len(reduced(*group).actions) <= 100 for group in groups)
    assert sorted(item.key for group in groups for item in group) == [one.key for one in items]
    assert len(groups) == 3


def test_map_items_with_the_same_categories_come_together() -> None:
    """Thirty batches over the same categories are two transactions per part, not thirty."""
    first = [made(f"a{n:02d}", *(f"x{place}" for place in range(60))) for n in range(30)]
    other = [made(f"b{n:02d}", *(f"y{place}" for place in range(60))) for n in range(30)]
    mixed = [item for pair in zip(first, other, strict=True) for item in pair]
    assert len(grouped(mixed)) == 2
