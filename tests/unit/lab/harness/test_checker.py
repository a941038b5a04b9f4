"""The checker of tagged totals: it finds every kind of violation, and passes every right read."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from ledger.demo.harness.checker import Outcome, TaggedChecker, Violation

EAST, WEST = "us-east-1", "eu-west-1"


def called(
    checker: TaggedChecker, number: int, *outcomes: Outcome, region: str = EAST, at: float = 1
) -> None:
    """Let a change be called for in a region, once for each outcome."""
    for outcome in outcomes:
        checker.begin_call([("a", number)])
        checker.end_call(region, [("a", number)], outcome, at=at)


def a_checker() -> TaggedChecker:
    """Return a checker of changes 0 to 3: durable at 1 s in EAST, refused, unknown, still open."""
    checker = TaggedChecker()
    called(checker, 0, "acknowledged")
    called(checker, 1, "refused")
    called(checker, 2, "unknown")
    checker.begin_call([("a", 3)])
    return checker


def read(
    checker: TaggedChecker,
    total: int | str,
    *,
    region: str = EAST,
    at: float = 2,
    staleness: float = 0,
) -> Violation | None:
    """Read a total and have it checked."""
    begun = checker.begin_read("fresh", region, "a", at=at, staleness=staleness)
    return checker.end_read(begun, Decimal(total), at=at + 0.1)


@pytest.mark.parametrize("total", [1, 101, 1001, 1101])
def test_a_right_total_has_all_that_is_durable_and_perhaps_what_is_not_known(total: int) -> None:
    """Unknown changes and open calls may be counted or not; in another region nothing is owed."""
    assert read(a_checker(), total) is None
    assert read(a_checker(), total - 1, region=WEST) is None


@pytest.mark.parametrize(
    ("total", "rule", "text"),
    [
        (0, "P1", "change 0 is not counted"),
        (100, "P1", "change 0 is not counted"),
        (2, "P1", "change 0 counted 2 times"),
        (201, "P1", "change 2 counted 2 times"),
        (11, "P3", "change 1 was refused, and written"),
        (10001, "P1", "change 4 was never called for"),
        (-1, "P1", "a sum that no changes make up"),
        ("1.5", "P1", "a sum that no changes make up"),
    ],
)
def test_every_kind_of_wrong_read_is_told(total: int | str, rule: str, text: str) -> None:
    """Each broken promise is named by its rule, with the total, the region and what was known."""
    wrong = read(a_checker(), total)
    assert wrong is not None
    assert wrong.rule == rule
    assert text in wrong.text
    assert EAST in wrong.text
    assert "change 0: called 1 times, 0 open, acknowledged by us-east-1 at 1.000 s" in str(
        wrong.known
    )


@pytest.mark.parametrize(
    ("outcomes", "rule"), [(["acknowledged"], "P1"), (["acknowledged", "late"], "P5")]
)
def test_a_repeated_change_counted_twice_breaks_p5(outcomes: list[Outcome], rule: str) -> None:
    """What was called for twice and is counted twice is the fault of a repeat."""
    checker = TaggedChecker()
    called(checker, 0, *outcomes)
    wrong = read(checker, 2)
    assert wrong is not None
    assert wrong.rule == rule


def test_a_read_owes_what_was_durable_before_it_began() -> None:
    """A change acknowledged while the read is under way may be missing; not in the next one."""
    checker = TaggedChecker()
    checker.begin_call([("a", 0)])
    begun = checker.begin_read("fresh", EAST, "a", at=1)
    checker.end_call(EAST, [("a", 0)], "acknowledged", at=1.5)
    assert checker.end_read(begun, Decimal(0), at=2) is None
    assert read(checker, 0) is not None


@pytest.mark.parametrize(("staleness", "is_wrong"), [(0.5, True), (1.0, True), (1.1, False)])
def test_staleness_is_conceded_and_no_more(staleness: float, is_wrong: bool) -> None:  # noqa: FBT001
    """A read at 2 s that may be 1.1 s behind need not count what was durable at 1 s."""
    assert (read(a_checker(), 0, staleness=staleness) is not None) == is_wrong


def test_once_counted_in_a_region_it_stays_counted_there() -> None:
    """What a read has shown is owed from its answer on, in that region alone, wrong reads apart."""
    checker = a_checker()
    assert read(checker, 1101, region=WEST, at=2) is None
    wrong = read(checker, 1001, region=WEST, at=3)
    assert wrong is not None
    assert "change 2 is not counted" in wrong.text
    assert read(checker, 1, region=EAST, at=3) is None
    assert read(checker, 2, region=EAST, at=4) is not None
    assert read(checker, 1, region=EAST, at=5) is None


def test_a_change_once_refused_may_be_written_by_a_later_call() -> None:
    """Only what every call refused must be nowhere: one open or unknown call is enough."""
    checker = a_checker()
    checker.begin_call([("a", 1)])
    assert read(checker, 11) is None


@pytest.mark.parametrize(
    ("east", "west", "rules", "lost"),
    [
        (110, 110, [], 1),
        (111, 111, [], 0),
        (110, 111, ["P2"], 0),
        (10, 10, ["P3", "P3"], 2),
        (100, 100, ["P3", "P3"], 2),
    ],
    ids=["lost", "arrived", "in part", "shown before", "another region's"],
)
def test_what_a_lost_region_alone_acknowledged_counts_everywhere_or_nowhere(
    east: int, west: int, rules: list[str], lost: int
) -> None:
    """What a remaining region acknowledged, or showed once, is owed as ever."""
    checker = TaggedChecker()
    for number, region in ((0, "lost"), (1, WEST), (2, "lost")):
        called(checker, number, "acknowledged", region=region)
    assert read(checker, 110, region=WEST, at=2) is None
    checker.lose("lost")
    shown = {EAST: {"a": Decimal(east)}, WEST: {"a": Decimal(west)}}
    assert [violation.rule for violation in checker.check_rest(shown)] == rules
    assert checker.lost_changes == lost


@pytest.mark.parametrize(
    ("age", "outcome", "is_wrong"),
    [
        (1.9, "acknowledged", False),
        (2.1, "late", False),
        (2.1, "acknowledged", True),
        (2.1, "unknown", True),
        (2.1, "refused", False),
    ],
)
def test_past_the_horizon_a_repeat_is_refused(age: float, outcome: Outcome, is_wrong: bool) -> None:  # noqa: FBT001
    """A call that began past the horizon must be told so, and nothing else."""
    wrong = a_checker().check_repeat(WEST, ("a", 0), outcome, age=age, horizon=2.0)
    assert (wrong is not None) == is_wrong
    assert wrong is None or (wrong.rule, wrong.counter) == ("P5", "a")


def rested(east: int, west: int) -> Sequence[Violation]:
    """Check the ends of the changes of `a_checker`, of which the open one ends without answer."""
    checker = a_checker()
    checker.end_call(EAST, [("a", 3)], "unknown", at=2)
    shown = {EAST: {"a": Decimal(east)}, WEST: {"a": Decimal(west)}}
    return list(checker.check_rest(shown))


@pytest.mark.parametrize("total", [1, 101, 1001, 1101])
def test_at_rest_unknown_changes_are_there_or_not(total: int) -> None:
    """Any set of the unknown ones is right, if it is the same in every region."""
    assert rested(total, total) == []


@pytest.mark.parametrize(
    ("east", "west", "rules", "text"),
    [
        (1, 101, ["P2"], "a differs between regions at rest"),
        (100, 100, ["P3", "P3"], "change 0 is not counted"),
        (1, 0, ["P2", "P3"], "change 0 is not counted"),
        (11, 11, ["P3", "P3"], "change 1 was refused, and written"),
        (201, 201, ["P1", "P1"], "change 2 counted 2 times"),
        (10001, 10001, ["P1", "P1"], "change 4 was never called for"),
    ],
)
def test_every_kind_of_wrong_rest_is_told(
    east: int, west: int, rules: list[str], text: str
) -> None:
    """Regions that differ, lost, refused, doubled and invented changes are told by their rule."""
    wrong = rested(east, west)
    assert [violation.rule for violation in wrong] == rules
    assert any(text in violation.text for violation in wrong)
    assert all(
        f"{EAST} shows {east}, {WEST} shows {west}" in violation.known for violation in wrong
    )


def test_changes_are_tallied_by_all_that_is_known_of_them() -> None:
    """One acknowledgement is enough; refused is what every call refused; reads count by kind."""
    checker = a_checker()
    called(checker, 4, "unknown", "acknowledged", "late")
    called(checker, 5, "refused", "unknown")
    assert checker.tally() == {"acknowledged": 2, "refused": 1, "unknown": 2, "open": 1}
    assert checker.counters == ["a"]
    read(checker, 1)
    assert checker.reads == {"fresh": 1}


def test_at_rest_a_counter_that_was_begun_while_totals_were_read_is_left_out() -> None:
    """By a call that is to be refused: it is in none of the totals."""
    checker = TaggedChecker()
    called(checker, 0, "acknowledged")
    shown = {EAST: {"a": Decimal(1)}, WEST: {"a": Decimal(1)}}
    checker.begin_call([("b", 0)])
    assert list(checker.check_rest(shown)) == []
