"""Judging leases: tables of records, watches and terms."""

import math
from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core import keys
from ledger.core.entry import AttributeValue, Key
from ledger.core.errors import DamagedItem, InvalidCounter, InvalidInput, SettingsError
from ledger.primitives.leases.lease_rules import (
    LEASE_SECONDS_MAX,
    LeaseGrant,
    LeaseRecord,
    LeaseTerms,
    LeaseWatch,
    checked_key,
    lease_key,
    own_key,
    record_item,
    record_of,
)
from ledger.store.conditions import holds

RECORD = LeaseRecord("compactor", "one", "rvn-1", 30.0, 7, "eu-west-1")
BEAT = replace(RECORD, rvn="rvn-2")
RELEASED = replace(RECORD, owner="", rvn="rvn-3")
SHORT = replace(RECORD, rvn="rvn-4", lease_seconds=5.0)

Look = tuple[float, LeaseRecord | None]


@pytest.mark.parametrize(
    ("looks", "now", "left"),
    [
        pytest.param([], 0.0, 0.0, id="nothing seen yet"),
        pytest.param([(100.0, None)], 100.0, 0.0, id="no item: at once"),
        pytest.param([(100.0, RELEASED)], 100.0, 0.0, id="released: at once"),
        pytest.param([(100.0, RECORD)], 100.0, 30.0, id="first sight: a full lease"),
        pytest.param([(100.0, RECORD)], 129.5, 0.5, id="half a second short"),
        pytest.param([(100.0, RECORD)], 130.0, 0.0, id="exactly a lease"),
        pytest.param([(100.0, RECORD)], 500.0, 0.0, id="long after"),
        pytest.param([(100.0, RECORD), (120.0, RECORD)], 125.0, 5.0, id="unchanged: counted on"),
        pytest.param([(100.0, RECORD), (120.0, BEAT)], 130.0, 20.0, id="heartbeat: from there"),
        pytest.param(
            [(100.0, RECORD), (110.0, BEAT), (128.0, BEAT)], 130.0, 10.0, id="first sight of it"
        ),
        pytest.param([(100.0, SHORT)], 105.0, 0.0, id="the lease that its owner declared"),
        pytest.param([(100.0, RECORD), (110.0, RELEASED)], 110.0, 0.0, id="released meanwhile"),
        pytest.param([(100.0, RELEASED), (110.0, BEAT)], 110.0, 30.0, id="taken meanwhile"),
        pytest.param([(100.0, RECORD), (110.0, None)], 110.0, 0.0, id="item gone"),
        pytest.param([(0.0, RECORD)], 30.0, 0.0, id="a clock that begins at zero"),
    ],
)
def test_a_lease_may_be_taken_after_one_unchanged_lease(
    looks: list[Look], now: float, left: float
) -> None:
    """A lease may be taken when absent, released, or unchanged for its declared time."""
    watch = LeaseWatch()
    for at, record in looks:
        watch = watch.observe(record, at=at)
    assert watch.left_seconds(now=now) == left


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=20), st.floats(0, 29.9))
def test_looking_often_does_not_hurry(times: list[float], late: float) -> None:
    """However often an unchanged lease is looked at, only the first sight starts the count."""
    watch = LeaseWatch()
    for at in sorted(times):
        watch = watch.observe(RECORD, at=at)
    assert watch.left_seconds(now=min(times) + late) > 0
    assert watch.left_seconds(now=min(times) + 30.001) == 0


@given(
    st.builds(
        LeaseRecord,
        name=st.text(min_size=1),
        owner=st.text(),
        rvn=st.text(min_size=1),
        lease_seconds=st.floats(1e-6, LEASE_SECONDS_MAX),
        epoch=st.integers(1, 10**30),
        home=st.text(),
        data=st.dictionaries(st.text(min_size=1), st.builds(lambda text: {"S": text}, st.text())),
        partition=st.sampled_from(["~lease", "~lease~reports"]),
        since=st.none() | st.datetimes(timezones=st.just(UTC)),
    )
)
def test_a_record_survives_its_item(record: LeaseRecord) -> None:
    """A record read from its own item is the same record, to the last bit of its seconds."""
    assert record_of(record_item(record)) == record


def test_the_item_is_the_documented_one() -> None:
    """The item has the keys and attributes that the table's design names."""
    assert record_item(RECORD) == {
        "pk": {"S": "~lease"},
        "sk": {"S": "compactor"},
        "owner": {"S": "one"},
        "rvn": {"S": "rvn-1"},
        "lease_seconds": {"N": "30"},
        "epoch": {"N": "7"},
        "home": {"S": "eu-west-1"},
    }


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("owner", None, "owner"),
        ("owner", {"N": "1"}, "owner"),
        ("rvn", None, "rvn"),
        ("rvn", {"S": ""}, "rvn is empty"),
        ("home", {"BOOL": True}, "home"),
        ("lease_seconds", None, "lease_seconds"),
        ("lease_seconds", {"S": "30"}, "lease_seconds"),
        ("lease_seconds", {"N": "0"}, "not over 0"),
        ("lease_seconds", {"N": "-1"}, "not over 0"),
        ("lease_seconds", {"N": "86401"}, "up to 86400"),
        ("lease_seconds", {"N": "1E+125"}, "up to 86400"),
        ("epoch", None, "epoch"),
        ("epoch", {"N": "0"}, "whole number from 1"),
        ("epoch", {"N": "1.5"}, "whole number from 1"),
        ("epoch", {"N": "NaN"}, "epoch"),
        ("data", {"S": "mine"}, "data of a lease must be a map"),
    ],
)
def test_a_damaged_item_is_named(name: str, value: AttributeValue | None, reason: str) -> None:
    """A lease whose item is damaged raises an error that names the item and the attribute."""
    item = record_item(RECORD)
    if value is None:
        del item[name]
    else:
        item[name] = value
    with pytest.raises(DamagedItem, match=reason) as raised:
        record_of(item)
    assert "'compactor'" in str(raised.value)


def test_foreign_attributes_are_no_damage() -> None:
    """An attribute of another program does not stop the lease from being read."""
    assert record_of(record_item(RECORD) | {"theirs": {"S": "mine"}}) == RECORD


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        (("~lease", "mine"), False),
        (("~lease~reports", "nightly"), False),
        (("~version~customer-7", "~lock"), False),
        (("customer-7", "lock"), True),
        (("~3~customer-7", "lock"), True),
    ],
)
def test_a_lease_does_not_lie_among_entries(key: Key, *, refused: bool) -> None:
    """A caller chooses partition and sort key, but not in a collection, which it would damage."""
    if refused:
        with pytest.raises(InvalidInput, match="among the entries of a counter"):
            checked_key(key)
    else:
        assert checked_key(key) == key


@pytest.mark.parametrize(
    "key",
    [
        "~lease~x",
        ("~lease~x",),
        ("~lease~x", ""),
        ("~x", 7),
        ("~x", "\ud800"),
        ("~x", "y" * 1025),
        None,
    ],
)
def test_what_is_no_key_is_refused(key: object) -> None:
    """It names the value and the limits, before anything is sent."""
    with pytest.raises(InvalidInput, match="key of a lease must be partition and sort key"):
        checked_key(key)  # type: ignore[arg-type]


def test_a_lease_of_ones_own_has_a_partition_of_its_own() -> None:
    """By default a lease lies apart from the compactor's, and readers of counters pass it by."""
    assert own_key("nightly-report") == ("~lease~nightly-report", "lease")
    assert keys.counter_of(own_key("nightly-report")[0]) is None
    with pytest.raises(InvalidCounter):
        own_key("~lease")


@pytest.mark.parametrize(
    ("terms", "rule"),
    [
        ({"lease_seconds": 0}, r"lease_seconds must be .* got 0"),
        ({"lease_seconds": -3}, r"lease_seconds must be .* got -3"),
        ({"lease_seconds": math.nan}, r"lease_seconds must be .* got nan"),
        ({"lease_seconds": 90_000, "heartbeat_seconds": 10}, r"lease_seconds must be .* got 90000"),
        ({"lease_seconds": "30"}, r"lease_seconds must be a number, got '30'"),
        ({"polls_per_heartbeat": None}, r"polls_per_heartbeat must be a number, got None"),
        ({"heartbeat_seconds": 0}, r"heartbeat_seconds must be .* got 0"),
        ({"heartbeat_seconds": 15.5}, "half of lease_seconds"),
        ({"margin_share": 0.5}, r"margin_share must be .* got 0.5"),
        ({"margin_share": -0.1}, r"margin_share must be .* got -0.1"),
        ({"polls_per_heartbeat": 0}, r"polls_per_heartbeat must be .* got 0"),
    ],
)
def test_terms_that_contradict_each_other_are_refused(terms: dict[str, float], rule: str) -> None:
    """Terms under which one lost heartbeat costs the lease, or none can be kept, are refused."""
    with pytest.raises(SettingsError, match=rule):
        LeaseTerms(**terms)  # type: ignore[arg-type]


def test_terms_at_their_limits_are_allowed() -> None:
    """A heartbeat of exactly half a lease is allowed, and what is derived scales with the lease."""
    terms = LeaseTerms(lease_seconds=0.5, heartbeat_seconds=0.25)
    assert terms.margin_seconds == pytest.approx(0.05)
    assert terms.poll_seconds == pytest.approx(0.05)


def test_a_fence_checks_epoch_and_owner_and_nothing_else() -> None:
    """A fence holds for its own holding, whatever the rvn, and for no other."""
    fence = LeaseGrant(lease_key("compactor"), "one", 7).fence()
    assert fence.key == ("~lease", "compactor")
    assert holds(fence.condition, record_item(RECORD))
    assert holds(fence.condition, record_item(BEAT))
    assert not holds(fence.condition, record_item(replace(RECORD, epoch=8)))
    assert not holds(fence.condition, record_item(replace(RECORD, owner="two")))
    assert not holds(fence.condition, record_item(RELEASED))
    assert not holds(fence.condition, None)
