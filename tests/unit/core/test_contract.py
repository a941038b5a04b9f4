"""The terms of a table: which are the stricter ones, how long a change waits, what to sign."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import pytest

from ledger.core.contract import (
    NO_HOME,
    ShardRule,
    Terms,
    Validity,
    is_pending,
    is_waited,
    matches_any,
    seconds_to_wait,
    stricter,
)
from ledger.core.periods import PeriodRule
from ledger.testing.clock import START

OLD = Terms(
    format=1,
    home="us-east-1",
    regions=("us-east-1", "eu-west-1"),
    settle=1500.0,
    retry_horizon=300.0,
    signature_lifetime=900.0,
    clock_skew=60.0,
    observation_delay=20.0,
    read_deadline=15.0,
    shards={"visits": (ShardRule(4),)},
)
LONGER = replace(OLD, settle=4000.0, retry_horizon=1800.0, signature_lifetime=1000.0, clock_skew=90)
SLOWER = replace(OLD, observation_delay=60.0, read_deadline=45.0)
SINCE = datetime(2026, 11, 23, tzinfo=UTC)
BEFORE = datetime(2026, 11, 22, 23, 59, 59, tzinfo=UTC)
GROWN = replace(OLD, shards={"visits": (ShardRule(4), ShardRule(16, SINCE))})


def _orders(one: Terms, other: Terms) -> list[Terms]:
    return [stricter(one, other), stricter(other, one)]


def test_odd_revisions_are_pending() -> None:
    """An odd revision announces a change; an even one is in force."""
    assert [is_pending(revision) for revision in (0, 1, 2, 3)] == [False, True, False, True]


def test_a_change_of_nothing_changes_nothing() -> None:
    """Terms are as strict as themselves."""
    assert stricter(OLD, OLD) == OLD


@pytest.mark.parametrize("found", _orders(OLD, LONGER), ids=["longer", "shorter"])
def test_retries_end_by_the_earlier_horizon_and_entries_settle_by_the_later(found: Terms) -> None:
    """Writers stop by the shorter horizon and skew; compactors wait for the longer settle."""
    assert (found.settle, found.retry_horizon) == (4000.0, 300.0)
    assert (found.signature_lifetime, found.clock_skew) == (1000.0, 60.0)


@pytest.mark.parametrize("found", _orders(OLD, SLOWER), ids=["slower", "faster"])
def test_reads_end_by_the_shorter_deadline_and_plans_are_held_for_the_longer(found: Terms) -> None:
    """Readers start again by the shorter deadline; compactors hold for the longer delay."""
    assert (found.observation_delay, found.read_deadline) == (60.0, 15.0)


@pytest.mark.parametrize("new", [LONGER, SLOWER, GROWN], ids=["longer", "slower", "grown"])
def test_relations_between_durations_hold_meanwhile(new: Terms) -> None:
    """What holds in both terms holds in the stricter ones."""
    for terms in _orders(OLD, new):
        least = terms.retry_horizon + terms.signature_lifetime + terms.clock_skew
        assert terms.settle > least
        assert terms.observation_delay > terms.read_deadline


def test_while_the_home_moves_there_is_none() -> None:
    """Neither home folds while a move is pending; a change of anything else keeps the home."""
    moved = replace(OLD, home="eu-west-1")
    assert [terms.home for terms in _orders(OLD, moved)] == [NO_HOME, NO_HOME]
    assert stricter(OLD, LONGER).home == "us-east-1"


def test_a_region_that_joins_or_leaves_is_observed_and_not_written() -> None:
    """The union of the regions is observed, the intersection is written."""
    more = replace(OLD, regions=("us-east-1", "eu-west-1", "ap-southeast-2"))
    for terms in _orders(OLD, more):
        assert set(terms.regions) == set(more.regions)
        assert terms.written == OLD.regions
    assert more.written == more.regions


def test_a_region_closed_in_either_terms_is_not_written() -> None:
    """What the old or the new terms close stays closed meanwhile."""
    shut = replace(OLD, closed=("eu-west-1",))
    assert [terms.written for terms in _orders(OLD, shut)] == [("us-east-1",), ("us-east-1",)]


def test_what_either_terms_leave_unmerged_is_not_merged() -> None:
    """A compactor that knows the old terms alone may not fold what the new ones keep."""
    some, others = replace(OLD, unmerged=("a", "b")), replace(OLD, unmerged=("b", "c"))
    for found in _orders(some, others):
        assert [found.is_unmerged(counter) for counter in "abcd"] == [True, True, True, False]


def test_what_either_terms_index_is_indexed() -> None:
    """A compactor that knows the new terms begins at once, and keeps what the old ones list."""
    some, others = replace(OLD, index=("a*", "b*")), replace(OLD, index=("b*", "c*"))
    for found in _orders(some, others):
        assert sorted(found.index) == ["a*", "b*", "c*"]


def test_what_either_terms_combine_is_combined() -> None:
    """A writer that knows the new terms begins at once, and goes on by the old ones."""
    some, others = replace(OLD, combine=("a*", "b*")), replace(OLD, combine=("b*", "c*"))
    for found in _orders(some, others):
        assert [matches_any(f"{name}-1", found.combine) for name in "abcd"] == [
            True,
            True,
            True,
            False,
        ]


@pytest.mark.parametrize(
    ("patterns", "matching", "others"),
    [
        ((), "", ["", "a"]),
        (("a*",), ["a", "a-b\nc"], ["", "ba", "A"]),
        (("a", "b?"), ["a", "bc"], ["ab", "b", "bcd", "a\n"]),
        (("[!a]x|y", "*é"), ["bx|y", "é", "xé"], ["ax|y", "y", "éa"]),
    ],
)
def test_a_counter_matches_one_of_the_patterns(
    patterns: tuple[str, ...], matching: list[str], others: list[str]
) -> None:
    """Each as a whole, with its case; of no pattern none."""
    assert all(matches_any(counter, patterns) for counter in matching)
    assert not any(matches_any(counter, patterns) for counter in others)


def test_periods_are_kept_by_the_old_rules_until_the_new_are_in_force() -> None:
    """Whichever a compactor goes by, what a net keeps says so itself."""
    rules = {"a": PeriodRule(1, 2, 3)}
    assert stricter(OLD, replace(OLD, periods=rules)).periods == {}
    assert stricter(replace(OLD, periods=rules), OLD).periods == rules


def test_announced_shards_are_read_and_not_written() -> None:
    """Readers query all shards of both; a change without a key keeps to the old number."""
    terms = stricter(OLD, GROWN)
    assert (OLD.shards_read("visits"), terms.shards_read("visits")) == (4, 16)
    assert terms.shards_now("visits", SINCE) == 4
    assert GROWN.shards_now("visits", SINCE) == 16
    assert terms.shards_read("others") == 1


def test_a_keyed_change_waits_where_the_announced_number_is_another() -> None:
    """Before `since` both numbers are the same; from then on the change in force decides."""
    terms = stricter(OLD, GROWN)
    assert terms.shards_at("visits", BEFORE) == 4
    assert terms.shards_at("visits", SINCE) is None
    assert GROWN.shards_at("visits", BEFORE) == 4
    assert GROWN.shards_at("visits", SINCE) == 16


def test_the_first_pattern_that_matches_counts() -> None:
    """Patterns are tried in their order; counters that none matches have one shard."""
    terms = replace(OLD, shards={"a*": (ShardRule(2),), "ab*": (ShardRule(8),)})
    assert [terms.shards_read(one) for one in ("a", "ab", "b")] == [2, 2, 1]
    both = stricter(terms, replace(terms, shards={"ab*": (ShardRule(8),)}))
    assert [both.shards_read(one) for one in ("a", "ab", "b")] == [2, 8, 1]


def test_the_wait_covers_a_view_a_signature_and_the_skew() -> None:
    """The longer of the two signatures' lifetimes and skews counts, whichever is new."""
    assert seconds_to_wait(OLD, LONGER) == 300 + 1000 + 90
    assert seconds_to_wait(LONGER, OLD, contract_life=10) == 10 + 1000 + 90


def test_a_change_is_in_force_only_after_the_wait() -> None:
    """The wait counts from the look of the process that finishes the change, and must be over."""
    looked_at, wait = 1000.0, 300.0 + 900.0 + 60.0
    assert not is_waited(OLD, SLOWER, looked_at=looked_at, now=looked_at + wait)
    assert is_waited(OLD, SLOWER, looked_at=looked_at, now=looked_at + wait + 0.1)
    assert is_waited(OLD, SLOWER, looked_at=0.0, now=961.0, contract_life=0.0)


def test_a_view_can_be_too_old_to_sign_under() -> None:
    """A request may be signed up to `contract_life` after the view was read, by both clocks."""
    view, long_ago = Validity.of_read(SINCE, 100.0), SINCE - timedelta(days=1)
    end = SINCE + timedelta(seconds=300)
    assert not view.is_over(end, elapsed=400.0)
    assert view.is_over(long_ago, elapsed=400.1)
    assert view.is_over(end + timedelta(seconds=0.1), elapsed=100.0)
    brief = Validity.of_read(SINCE, 100.0, contract_life=2.0)
    assert not brief.is_over(SINCE, elapsed=102.0)
    assert brief.is_over(SINCE, elapsed=102.1)


NUMBERS = {
    "format": max,
    "settle": max,
    "signature_lifetime": max,
    "observation_delay": max,
    "retry_horizon": min,
    "clock_skew": min,
    "read_deadline": min,
    "contract_life": min,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_of_each_number_the_stricter_one_is_obeyed(name: str) -> None:
    """Whichever of both is the new one, and whatever else stays."""
    less, more = OLD, replace(OLD, **{name: getattr(OLD, name) + 1})
    expected = NUMBERS[name](getattr(less, name), getattr(more, name))
    for old, new in ((less, more), (more, less)):
        assert getattr(stricter(old, new), name) == expected


def test_a_region_that_either_terms_have_lost_is_lost() -> None:
    """A compactor that folds beside the announcement has to know the loss already."""
    lost = replace(OLD, lost=("sa-east-1",))
    both = replace(OLD, lost=("sa-east-1", "eu-north-1"))
    assert stricter(OLD, lost).lost == stricter(lost, OLD).lost == ("sa-east-1",)
    assert stricter(lost, both).lost == ("sa-east-1", "eu-north-1")


def test_a_region_that_is_about_to_be_taken_out_is_lost() -> None:
    """Nets of the next generation are made as soon as it is out, beside the announcement."""
    new = replace(OLD, regions=OLD.regions[:-1])
    pending = stricter(OLD, new)
    assert (pending.lost, pending.regions) == (OLD.regions[-1:], OLD.regions)
    assert (pending.generation, pending.generation_max) == (1, 2)
    again = stricter(replace(OLD, lost=OLD.regions[-1:]), replace(new, lost=OLD.regions[-1:]))
    assert again.epoch_of(OLD.regions[-1]) == 3


def test_the_latest_loss_is_dated() -> None:
    """Ids up to its date are remembered, beside the announcement too."""
    first = replace(OLD, given_up_at=START)
    second = replace(OLD, given_up_at=START + timedelta(days=9))
    assert stricter(OLD, first).given_up_at == stricter(first, OLD).given_up_at == START
    assert stricter(first, second).given_up_at == second.given_up_at


def test_each_term_has_its_rule() -> None:
    """A term that is added is noticed here, so that a pending change of it is thought about."""
    others = {"home", "regions", "shards", "unmerged", "combine", "periods"}
    others |= {"lost", "given_up_at", "generation", "closed", "announced", "archive", "index"}
    others |= {"budgets", "budgets_coming", "books", "either"}
    assert {field.name for field in fields(Terms)} == {*NUMBERS, *others}
