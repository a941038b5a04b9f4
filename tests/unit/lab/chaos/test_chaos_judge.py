"""The auditor from outside: every kind of violation is told, and no right read is called wrong."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from ledger.lab.chaos.judge import Judge, Outcome, Wrong

EAST, WEST = "us-east-1", "eu-west-1"
REGIONS = (EAST, WEST)


def called(
    judge: Judge, number: int, *outcomes: Outcome, region: str = EAST, at: float = 1
) -> None:
    """Let a change be called for in a region, once for each outcome."""
    for outcome in outcomes:
        judge.called([("a", number)])
        judge.ended(region, [("a", number)], outcome, at=at)


def a_judge() -> Judge:
    """Return a judge of changes 0 to 3: durable at 1 s in EAST, refused, unknown, still open."""
    judge = Judge(REGIONS)
    called(judge, 0, "acknowledged")
    called(judge, 1, "refused")
    called(judge, 2, "unknown")
    judge.called([("a", 3)])
    return judge


def read(
    judge: Judge, total: int | str, *, region: str = EAST, at: float = 2, staleness: float = 0
) -> Wrong | None:
    """Read a total and have it judged."""
    asked = judge.asked("fresh", region, "a", at=at, staleness=staleness)
    return judge.answered(asked, Decimal(total), at=at + 0.1)


@pytest.mark.parametrize("total", [1, 101, 1001, 1101])
def test_a_right_total_has_all_that_is_durable_and_perhaps_what_is_not_known(total: int) -> None:
    """Unknown changes and open calls may be counted or not; in another region nothing is owed."""
    assert read(a_judge(), total) is None
    assert read(a_judge(), total - 1, region=WEST) is None


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
    wrong = read(a_judge(), total)
    assert wrong is not None
    assert wrong.rule == rule
    assert text in wrong.text
    assert EAST in wrong.text
    assert "change 0: called 1 times, 0 open, acknowledged by us-east-1 at 1.000 s" in str(
        wrong.knew
    )


@pytest.mark.parametrize(
    ("outcomes", "rule"), [(["acknowledged"], "P1"), (["acknowledged", "late"], "P5")]
)
def test_a_repeated_change_counted_twice_breaks_p5(outcomes: list[Outcome], rule: str) -> None:
    """What was called for twice and is counted twice is the fault of a repeat."""
    judge = Judge(REGIONS)
    called(judge, 0, *outcomes)
    wrong = read(judge, 2)
    assert wrong is not None
    assert wrong.rule == rule


def test_a_read_owes_what_was_durable_before_it_began() -> None:
    """A change acknowledged while the read is under way may be missing; not in the next one."""
    judge = Judge(REGIONS)
    judge.called([("a", 0)])
    asked = judge.asked("fresh", EAST, "a", at=1)
    judge.ended(EAST, [("a", 0)], "acknowledged", at=1.5)
    assert judge.answered(asked, Decimal(0), at=2) is None
    assert read(judge, 0) is not None


@pytest.mark.parametrize(("staleness", "is_wrong"), [(0.5, True), (1.0, True), (1.1, False)])
def test_staleness_is_conceded_and_no_more(staleness: float, is_wrong: bool) -> None:  # noqa: FBT001
    """A read at 2 s that may be 1.1 s behind need not count what was durable at 1 s."""
    assert (read(a_judge(), 0, staleness=staleness) is not None) == is_wrong


def test_once_counted_in_a_region_it_stays_counted_there() -> None:
    """What a read has shown is owed from its answer on, in that region alone, wrong reads apart."""
    judge = a_judge()
    assert read(judge, 1101, region=WEST, at=2) is None
    wrong = read(judge, 1001, region=WEST, at=3)
    assert wrong is not None
    assert "change 2 is not counted" in wrong.text
    assert read(judge, 1, region=EAST, at=3) is None
    assert read(judge, 2, region=EAST, at=4) is not None
    assert read(judge, 1, region=EAST, at=5) is None


def test_a_change_once_refused_may_be_written_by_a_later_call() -> None:
    """Only what every call refused must be nowhere: one open or unknown call is enough."""
    judge = a_judge()
    judge.called([("a", 1)])
    assert read(judge, 11) is None


@pytest.mark.parametrize(
    ("age", "outcome", "is_wrong"),
    [
        (1.9, "acknowledged", False),
        (2.1, "late", False),
        (2.1, "acknowledged", True),
        (2.1, "unknown", True),
        (2.1, "refused", True),
    ],
)
def test_past_the_horizon_a_repeat_is_refused(age: float, outcome: Outcome, is_wrong: bool) -> None:  # noqa: FBT001
    """A call that began past the horizon must be told so, and nothing else."""
    wrong = a_judge().repeated(WEST, ("a", 0), outcome, age=age, horizon=2.0)
    assert (wrong is not None) == is_wrong
    assert wrong is None or (wrong.rule, wrong.counter) == ("P5", "a")


def rested(east: int, west: int) -> Sequence[Wrong]:
    """Judge the ends of the changes of `a_judge`, of which the open one ends without answer."""
    judge = a_judge()
    judge.ended(EAST, [("a", 3)], "unknown", at=2)
    shown = {EAST: {"a": Decimal(east)}, WEST: {"a": Decimal(west)}}
    return list(judge.at_rest(shown))


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
    assert [one.rule for one in wrong] == rules
    assert any(text in one.text for one in wrong)
    assert all(f"{EAST} shows {east}, {WEST} shows {west}" in one.knew for one in wrong)


def test_changes_are_tallied_by_all_that_is_known_of_them() -> None:
    """One acknowledgement is enough; refused is what every call refused; reads count by kind."""
    judge = a_judge()
    called(judge, 4, "unknown", "acknowledged", "late")
    called(judge, 5, "refused", "unknown")
    assert judge.tally() == {"acknowledged": 2, "refused": 1, "unknown": 2, "open": 1}
    assert judge.counters == ["a"]
    read(judge, 1)
    assert judge.reads == {"fresh": 1}
