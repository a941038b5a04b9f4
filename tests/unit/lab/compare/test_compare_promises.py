from dataclasses import replace

import pytest
from lab.compare.figures import (
    AFTER_MANY,
    MINUTES_LATER,
    Alone,
    MethodFigures,
    Partitioned,
    Repeat,
    Sold,
)
from lab.compare.promises import PROMISES, About, Status, broken, claims
from lab.compare.ways import COMPARED
from support.comparing import figures, recounted


def repeated(method: str, moment: str, repeat: Repeat) -> MethodFigures:
    """Return a method's figures with another repeat."""
    one = figures(method)
    return replace(one, repeats={**one.repeats, moment: repeat})


def test_every_method_has_its_promises() -> None:
    """What the registry has is compared, and the ledger combined, and nothing else."""
    assert set(PROMISES) == set(COMPARED)


@pytest.mark.parametrize("method", COMPARED)
def test_figures_as_they_should_be_show_every_promise(method: str) -> None:
    """With the figures that a method should have each of its promises is shown."""
    found = claims(figures(method))
    assert {about: one.status for about, one in found.items()} == dict.fromkeys(found, "shown")
    assert broken(figures(method)) == []


@pytest.mark.parametrize(
    ("figures_", "about", "status"),
    [
        # after lost answers
        (recounted("atomic", value=200), "unknown", "unseen"),
        (recounted("atomic", value=199), "unknown", "broken"),
        (recounted("atomic-once", value=200, applied=200, unknown=0), "unknown", "unseen"),
        (recounted("atomic-once", value=203), "unknown", "broken"),
        (recounted("atomic-once", value=190, applied=193, unknown=7), "unknown", "broken"),
        (recounted("optimistic", value=201), "unknown", "broken"),
        (recounted("optimistic", value=200, applied=197, unknown=3), "unknown", "shown"),
        (recounted("marker", value=201), "unknown", "broken"),
        (recounted("marker", value=199), "unknown", "broken"),
        (recounted("collection", value=199), "unknown", "broken"),
        # the same token again
        (repeated("client-token", MINUTES_LATER, Repeat(1)), "tokens", "broken"),
        (repeated("marker", MINUTES_LATER, Repeat(2)), "tokens", "broken"),
        (repeated("collection", MINUTES_LATER, Repeat(1)), "tokens", "broken"),
        (repeated("history", AFTER_MANY, Repeat(1)), "tokens", "broken"),
        (repeated("atomic", AFTER_MANY, Repeat(1)), "tokens", "broken"),
        # thresholds
        (replace(figures("marker"), sold=Sold(25, 50, 26, 0)), "thresholds", "broken"),
        (replace(figures("atomic-sharded"), sold=Sold(25, 50, 24, 0)), "thresholds", "shown"),
        (replace(figures("atomic-sharded"), sold=Sold(25, 50, 26, 0)), "thresholds", "broken"),
        (replace(figures("marker"), sold=Sold(25, 20, 20, 0)), "thresholds", "unseen"),
        (replace(figures("collection"), sold=Sold(25, 50, 25, 0)), "thresholds", "unseen"),
        # regions
        (
            replace(figures("marker"), partitioned=Partitioned(20, {"a": 20, "b": 20})),
            "regions",
            "unseen",
        ),
        (
            replace(figures("collection"), partitioned=Partitioned(20, {"a": 20, "b": 19})),
            "regions",
            "broken",
        ),
        (
            replace(figures("collection"), partitioned=Partitioned(20, {"a": 21, "b": 20})),
            "regions",
            "broken",
        ),
        # cost
        (replace(figures("marker"), alone=Alone(5.0, 0.0)), "cost", "broken"),
    ],
)
def test_other_figures_show_less_or_break_it(
    figures_: MethodFigures, about: About, status: Status
) -> None:
    """A figure that contradicts a promise breaks it; one that shows nothing leaves it unseen."""
    assert claims(figures_)[about].status == status
    assert bool(broken(figures_)) == (status == "broken")


@pytest.mark.parametrize("method", ["optimistic", "marker", "collection"])
def test_without_lost_answers_exactness_is_unseen(method: str) -> None:
    """What was never put to the test is not said to be shown."""
    faultless = recounted(method, value=200, applied=200, unknown=0, lost=0.0)
    assert claims(faultless)["unknown"].status == "unseen"
