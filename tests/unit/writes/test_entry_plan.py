"""What a change must be to be written, and what is said about one that is not."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.ledgers import AWAY, HOME, make_settings

from ledger.core import ids
from ledger.core.contract import ShardRule, stricter
from ledger.core.entry import NOTE_BYTES_MAX, entry_id, entry_of
from ledger.core.errors import (
    AmountOverflow,
    ContractChangeRefused,
    InvalidAmount,
    InvalidCounter,
    InvalidEntry,
    InvalidInput,
    KeyConflict,
    RetryHorizonPassed,
)
from ledger.core.values import Entry
from ledger.testing.clock import START
from ledger.writes.entry_plan import (
    Change,
    PlannedEntry,
    batch_puts,
    confirm_entry,
    distinct,
    latest_repeat,
    plan_entry,
    plan_group,
    replan,
)

SETTINGS = make_settings()


def planned(change: Change, *, region: str = HOME, now: datetime = START) -> PlannedEntry:
    """Plan with a fixed time and chance."""
    return plan_entry(change, region=region, settings=SETTINGS, now=now, suffix=0xABC)


@pytest.mark.parametrize(
    ("counter", "change", "error", "named", "rule"),
    [
        ("c", 1.5, InvalidAmount, "1.5", "int or a Decimal"),
        ("c", float("nan"), InvalidAmount, "nan", "int or a Decimal"),
        ("c", True, InvalidAmount, "True", "int or a Decimal"),
        ("c", "12", InvalidAmount, "'12'", "int or a Decimal"),
        ("c", None, InvalidAmount, "None", "int or a Decimal"),
        ("c", Decimal("NaN"), InvalidAmount, "NaN", "finite"),
        ("c", Decimal("-Infinity"), InvalidAmount, "-Infinity", "finite"),
        ("c", int("1" * 39), AmountOverflow, "1" * 39, "at most 38"),
        ("c", Decimal("0." + "3" * 39), AmountOverflow, "0.333", "at most 38"),
        ("c", Decimal("1E+126"), AmountOverflow, "1E+126", "9.99E+125"),
        ("c", Decimal("1E-131"), AmountOverflow, "1E-131", "1E-130"),
        ("", 1, InvalidCounter, "''", "1 to 1,024 bytes"),
        ("~lease", 1, InvalidCounter, "~lease", "reserved"),
        ("~2~c", 1, InvalidCounter, "~2~c", "reserved"),
        ("a\nb", 1, InvalidCounter, r"a\nb", "control character"),
        ("a\x00", 1, InvalidCounter, r"a\x00", "control character"),
        ("a\x85", 1, InvalidCounter, r"a\x85", "control character"),
        ("é" * 513, 1, InvalidCounter, "1,026 bytes", "1 to 1,024 bytes"),
        ("\ud800", 1, InvalidCounter, r"\ud800", "UTF-8"),
        (7, 1, InvalidCounter, "7", "must be a string"),
    ],
)
def test_bad_value_is_named_with_its_rule(
    counter: Any, change: Any, error: type[InvalidInput], named: str, rule: str
) -> None:
    """A counter or an amount that breaks a rule is refused by an error that names both."""
    with pytest.raises(error) as caught:
        planned(Change(counter, change))

    assert named in str(caught.value)
    assert rule in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("fields", "named", "rule"),
    [
        ({"note": 5}, "5", "must be a string"),
        ({"note": "\udfff"}, r"\udfff", "UTF-8"),
        ({"note": "n" * 407_553}, "nnn", "at most 407,552 bytes, got 407,553 bytes"),
        ({"effective": datetime(2026, 1, 1, tzinfo=UTC)}, "2026-01-01", "must be a date without"),
        ({"effective": "2026-01-01"}, "'2026-01-01'", "must be a date"),
        ({"key": "", "at": START}, "''", "non-empty string of up to 1024 bytes"),
        ({"key": 5, "at": START}, "5", "non-empty string of up to 1024 bytes"),
        ({"key": "k" * 1025, "at": START}, "kkk", "over 1024 bytes"),
        ({"key": "order-17"}, "'order-17'", "a UUIDv7 or a ULID as key carries its own"),
        ({"key": "0" * 10 + "-0000-4000-8000-" + "0" * 12}, "'0000", "needs at"),
        ({"at": START}, "'c'", "at belongs to a key"),
        ({"key": "k", "at": datetime(2026, 11, 21)}, "2026-11-21", "aware"),  # noqa: DTZ001
        ({"key": "k", "at": date(2026, 11, 21)}, "2026", "aware datetime"),
        ({"key": "k", "at": "2026-11-21T06:50:00Z"}, "'2026-11-21T06:50:00Z'", "aware datetime"),
        ({"key": "k", "at": 1.0}, "1.0", "aware datetime"),
        ({"key": "k", "at": datetime(1969, 1, 1, tzinfo=UTC)}, "1969", "1970 to 9999"),
        ({"key": "k", "at": START + timedelta(seconds=60.1)}, "60.1 s ahead", "60 s"),
        ({"key": "k", "at": datetime.max.replace(tzinfo=UTC)}, "9999", "clock_skew"),
    ],
)
def test_bad_field_is_named_with_its_rule(fields: dict[str, Any], named: str, rule: str) -> None:
    """A note, date, key or time that breaks a rule is refused by an error that names both."""
    with pytest.raises(InvalidEntry) as caught:
        planned(Change("c", 1, **fields))

    assert named in str(caught.value)
    assert rule in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [0, -1, int("9" * 38), Decimal("2.50"), Decimal("9.99E+125"), Decimal("-1E-130")],
)
def test_every_exact_amount_comes_back(change: int | Decimal) -> None:
    """An amount within the rules is in the item exactly as it was given."""
    found = entry_of(planned(Change("c", change)).item)

    assert found.change == change


def test_longest_names_fit() -> None:
    """A counter and a key of 1,024 bytes, and the longest note, fill one item together."""
    longest = planned(Change("é" * 512, 1, key="k" * 1024, at=START, note="n" * NOTE_BYTES_MAX))

    assert longest.entry.note == "n" * NOTE_BYTES_MAX


def test_key_and_time_alone_make_the_id() -> None:
    """The same counter, key and time give the same item in any region, at any moment."""
    change = Change("c", 1, key="order-17", at=START)
    here = planned(change)
    there = planned(change, region=AWAY, now=START + timedelta(seconds=200))

    assert here.entry.id == there.entry.id
    assert here.put.key == there.put.key
    assert planned(Change("d", 1, key="order-17", at=START)).entry.id != here.entry.id


@pytest.mark.parametrize("micros", [0, 1, 999, 123_456, 999_999])
def test_an_id_keeps_its_time_to_the_microsecond(micros: int) -> None:
    """A key with another time is another change, however little later: both are counted."""
    at = START + timedelta(microseconds=micros)
    later = at + timedelta(microseconds=1)
    one, other = (planned(Change("c", 1, key="k", at=moment)).entry for moment in (at, later))

    assert one.id.startswith(at.strftime("%Y-%m-%dT%H:%M:%S.%fZ#"))
    assert one.id < other.id


def test_time_zone_of_at_does_not_matter() -> None:
    """One moment told in two zones is one id."""
    from_zone = datetime.fromisoformat("2026-11-21T07:50:00+01:00")

    assert (
        planned(Change("c", 1, key="k", at=from_zone)).entry.id
        == planned(Change("c", 1, key="k", at=START)).entry.id
    )


@pytest.mark.parametrize("seconds", [0, 299.9, 300])
def test_within_the_horizon_a_repeat_is_planned(seconds: float) -> None:
    """Up to the retry horizon, its end included, a change may be repeated."""
    change = Change("c", 1, key="k", at=START)

    assert planned(change, now=START + timedelta(seconds=seconds)).entry.at == START


def test_past_the_horizon_a_repeat_is_refused() -> None:
    """A microsecond past the retry horizon both ways to repeat are refused, with the reason."""
    late = START + timedelta(seconds=300, microseconds=1)
    entry = planned(Change("c", 1)).entry

    with pytest.raises(
        RetryHorizonPassed, match=r"5 min old.*horizon of 5 min.*twice; the clock shows"
    ):
        planned(Change("c", 1, key="k", at=START), now=late)
    with pytest.raises(RetryHorizonPassed, match="horizon"):
        replan(entry, region=HOME, settings=SETTINGS, now=late)


def test_foreign_id_is_never_written_again() -> None:
    """An entry whose id is not of our form cannot be retried: it would not be the same item."""
    foreign = Entry("c", "a458fc3d", Decimal(1))

    with pytest.raises(InvalidEntry, match="a458fc3d"):
        replan(foreign, region=HOME, settings=SETTINGS, now=START)


def test_a_retry_elsewhere_keeps_the_first_region() -> None:
    """An entry written again from another region still says where it was written first."""
    entry = planned(Change("c", 1)).entry
    again = replan(entry, region=AWAY, settings=SETTINGS, now=START)

    assert again.item["region"] == {"S": HOME}


def test_the_shard_is_that_of_the_entrys_own_time() -> None:
    """A retry lands in the shard of the first try, though more shards are configured since."""
    since = START + timedelta(seconds=10)
    settings = make_settings(
        shards={"c": [{"count": 1}, {"count": 50, "since": since.isoformat()}]}
    )
    changes = [Change("c", 1, key=f"k{n}", at=START) for n in range(20)]
    late = [
        plan_entry(
            change, region=HOME, settings=settings, now=START + timedelta(seconds=60), suffix=0
        )
        for change in changes
    ]
    new = plan_entry(Change("c", 1), region=HOME, settings=settings, now=since, suffix=49)

    assert {one.put.key[0] for one in late} == {"c"}
    assert new.put.key[0] == "~49~c"


def test_duplicates_are_written_once() -> None:
    """The same keyed change twice in one call is one entry; another counter's is its own."""
    once = planned(Change("c", 1, key="k", at=START))
    other = planned(Change("d", 1, key="k", at=START))

    assert distinct([once, other, once]) == [once, other]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"change": 2}, "change 2"),
        ({"note": "other"}, "note 'other'"),
        ({"effective": date(2026, 1, 2)}, "effective 2026-01-02"),
    ],
)
def test_one_key_for_two_changes_is_a_conflict(fields: dict[str, Any], said: str) -> None:
    """The same key with another amount, note or date is refused; the error holds both."""
    ours = planned(Change("c", **{"change": 1, "key": "k", "at": START, **fields}))
    theirs = planned(Change("c", 1, key="k", at=START))

    with pytest.raises(KeyConflict, match="already stands for change 1") as caught:
        confirm_entry(ours.entry, theirs.item)
    assert caught.value.ours == ours.entry
    assert caught.value.theirs == theirs.entry
    assert said in str(caught.value)
    with pytest.raises(KeyConflict):
        distinct([theirs, ours])


def test_same_change_from_another_region_is_no_conflict() -> None:
    """Where a change was written first does not make it another one; nor do trailing zeros."""
    ours = planned(Change("c", Decimal("2.50"), key="k", at=START))
    theirs = planned(Change("c", Decimal("2.5"), key="k", at=START), region=AWAY)

    assert confirm_entry(ours.entry, theirs.item).region == AWAY


def test_the_oldest_entry_sets_the_horizon() -> None:
    """Several changes may be repeated only until the first of them is too old."""
    old = planned(Change("c", 1, key="k", at=START - timedelta(seconds=250)))
    new = planned(Change("c", 1))

    assert latest_repeat([new, old]) == START + timedelta(seconds=50)


def test_two_changes_differ_in_their_suffix_only() -> None:
    """Changes without a key take their id from time and chance, so none overwrites another."""
    one = plan_entry(Change("c", 1), region=HOME, settings=SETTINGS, now=START, suffix=1)
    two = plan_entry(Change("c", 1), region=HOME, settings=SETTINGS, now=START, suffix=2)

    assert ids.parse(one.entry.id) == entry_id(START, 1)
    assert one.put.key != two.put.key


@pytest.mark.parametrize("ahead", [0.0, 1.0])
def test_an_id_is_as_far_ahead_as_clocks_may_be(ahead: float) -> None:
    """Up to `clock_skew` a key of the future is of a clock that is ahead; beyond it is refused."""
    at = START + timedelta(seconds=SETTINGS.clock_skew + ahead)
    change = Change("c", 1, key="k", at=at)
    if ahead == 0:
        assert planned(change).entry.at == at
    else:
        with pytest.raises(InvalidEntry, match="ahead of the clock") as caught:
            planned(change)
        assert str(caught.value).endswith(f"; the clock shows {START.isoformat()}")


@pytest.mark.parametrize("seconds", [1.0, 10_000.0])
def test_nothing_is_signed_past_the_view_of_the_contract(seconds: float) -> None:
    """Of the retry horizon and the view's end the earlier bounds each request, in all forms."""
    until = START + timedelta(seconds=seconds)
    horizon = START + timedelta(seconds=SETTINGS.retry_horizon)
    expected = min(until, horizon)
    one = plan_entry(
        Change("c", 1), region=HOME, settings=SETTINGS, now=START, suffix=1, until=until
    )
    again = replan(one.entry, region=HOME, settings=SETTINGS, now=START, until=until)
    (grouped,) = plan_group(
        [("c", Decimal(1), 1, "")],
        region=HOME,
        settings=SETTINGS,
        now=START,
        bits=7,
        until=until,
    )
    for each in (one, again, grouped):
        assert each.latest == expected
        (batched,) = batch_puts([each])
        assert (each.put.not_after, batched.not_after) == (expected, expected)


def test_an_entry_is_written_again_into_the_shard_that_it_has() -> None:
    """Whatever settings say now: in another shard it would count a second time."""
    entry = planned(Change("c", 1)).entry
    assert entry.shard == 0
    more = make_settings(shards={"c": 50})
    again = replan(replace(entry, shard=3), region=HOME, settings=more, now=START)
    assert again.put.key[0] == "~3~c"


def test_a_keyed_change_waits_for_a_change_of_its_shards() -> None:
    """While it is pending two processes could put one id into two shards."""
    since = START - timedelta(seconds=10)
    old = SETTINGS.terms
    new = replace(old, shards={"c": (ShardRule(1), ShardRule(50, since))})
    settings = SETTINGS.under(stricter(old, new), home=HOME)
    with pytest.raises(ContractChangeRefused, match="its number of shards at"):
        plan_entry(
            Change("c", 1, key="k", at=START), region=HOME, settings=settings, now=START, suffix=0
        )
    unknown = replace(planned(Change("c", 1)).entry, shard=None)
    with pytest.raises(ContractChangeRefused, match="its number of shards at"):
        replan(unknown, region=HOME, settings=settings, now=START)
    assert plan_entry(
        Change("c", 1), region=HOME, settings=settings, now=START, suffix=1
    ).put.key == (
        "c",
        str(entry_id(START, 1)),
    )


@pytest.mark.parametrize("other", ["1 5", "5 1 0", "2 4"])
def test_items_of_different_parts_are_different(other: str) -> None:
    """Also where their sum is the same: each change has its place."""
    one, two = (
        plan_group(
            [("c", Decimal(6), len(parts.split(" ")), parts)],
            region=HOME,
            settings=SETTINGS,
            now=START,
            bits=7,
        )[0]
        for parts in ("5 1", other)
    )
    with pytest.raises(KeyConflict):
        confirm_entry(one.entry, two.item)
    with pytest.raises(KeyConflict):
        distinct([one, two])


def test_a_repeat_finds_its_shard_also_without_being_told() -> None:
    """An entry that came without its shard is written where its id says, and is bound as keyed."""
    settings = make_settings(shards={"c": 50})
    first = plan_entry(
        Change("c", 1, key="k", at=START), region=HOME, settings=settings, now=START, suffix=0
    )
    again = replan(replace(first.entry, shard=None), region=AWAY, settings=settings, now=START)
    assert first.put.key[0].startswith("~")
    assert again.put == first.put
    assert again.keyed


def test_grouped_changes_go_to_the_shards_of_their_ids() -> None:
    """As single ones do: a repeat of one of them must find it."""
    settings = make_settings(shards={"c": 50})
    for one in plan_group(
        [("c", Decimal(1), 1, ""), ("d", Decimal(2), 1, "")],
        region=HOME,
        settings=settings,
        now=START,
        bits=(3 << 64) | 77,
    ):
        again = replan(replace(one.entry, shard=None), region=AWAY, settings=settings, now=START)
        assert again.put == one.put
        assert (one.entry.region, one.keyed) == (HOME, False)


def test_a_conflict_of_shared_items_names_the_first_change_that_differs() -> None:
    """Their sums and numbers may be the same."""
    one, two = (
        plan_group(
            [("c", Decimal(6), 2, parts)], region=HOME, settings=SETTINGS, now=START, bits=7
        )[0]
        for parts in ("5 1", "5 0.5 0.5")
    )
    with pytest.raises(KeyConflict, match=r"of which 001 is 1, .* of which 001 is 0\.5"):
        confirm_entry(one.entry, two.item)
