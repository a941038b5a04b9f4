import re
from dataclasses import replace

import pytest
from lab.compare.choices import HOT, NEEDS, NONE, choices
from lab.compare.figures import (
    AFTER_MANY,
    LEDGER_COMBINED,
    MINUTES_LATER,
    Partitioned,
    Repeat,
    Sold,
)
from lab.compare.report import CompareReport
from lab.compare.ways import COMPARED
from support.comparing import figures, recounted, report

REGIONS, LIMIT_ACROSS, LIMIT, REPEATS, LOSSES, TOGETHER = NEEDS


def met(need: str, given: CompareReport) -> list[str]:
    """Return the methods that a report names for a need."""
    found = dict(choices(given.figures, given.curves))[need]
    return re.findall(r"(?:^|; )(.+?) [\d(]", found)


@pytest.mark.parametrize(
    ("need", "methods"),
    [
        (LOSSES, set(COMPARED) - {"atomic", "atomic-sharded"}),
        (REPEATS, {"marker", "marker-sharded", "slots", "collection"}),
        (LIMIT, set(COMPARED) - {"collection", LEDGER_COMBINED}),
        (REGIONS, {"collection", LEDGER_COMBINED}),
        (LIMIT_ACROSS, {"budget"}),
        (TOGETHER, {"book: whole in every region"}),
        (HOT, {"collection-sharded", LEDGER_COMBINED, "optimistic"}),
    ],
)
def test_each_need_names_what_met_it(need: str, methods: set[str]) -> None:
    """With the figures that methods should have, these are named."""
    assert set(met(need, report())) == methods


def test_figures_decide_and_not_names() -> None:
    """A method whose figures are wrong is not named, one whose figures are right is."""
    silent = recounted("marker", value=203)
    assert "marker" not in met(LOSSES, report(silent))
    kept = Partitioned(200, {"us-east-1": 200, "eu-west-1": 200})
    differing = Partitioned(200, {"us-east-1": 201, "eu-west-1": 200})
    combined = replace(figures(LEDGER_COMBINED), partitioned=differing)
    held = Sold(25, 100, 25, 0)
    marker = replace(figures("marker"), partitioned=kept, sold_partitioned=held)
    collection = replace(figures("collection"), partitioned=differing)
    assert met(REGIONS, report(marker, collection, combined)) == ["marker"]
    assert met(LIMIT_ACROSS, report(marker)) == ["budget", "marker"]
    assert "marker" not in met(LIMIT, report(replace(marker, sold=Sold(25, 50, 26, 0))))


@pytest.mark.parametrize("moment", [AFTER_MANY, MINUTES_LATER])
def test_what_counts_again_later_is_not_named(moment: str) -> None:
    """A token must be known after other changes, and after minutes."""
    one = figures("slots")
    again = replace(one, repeats={**one.repeats, moment: Repeat(2)})
    assert "slots" not in met(REPEATS, report(again))


def test_the_cheapest_is_first_and_the_fastest_if_hot() -> None:
    """Methods are in the order of their price, or of what many writers achieved."""
    cheap = recounted("marker-sharded", write_units=100.0)
    found = dict(choices(report(cheap).figures, report().curves))
    assert found[REPEATS].startswith("marker-sharded 0.5; ")
    assert found[HOT] == "collection-sharded 7,100/s; collection, combined 3,200/s; optimistic 90/s"


def test_what_counts_too_often_is_no_advice_for_a_hot_counter() -> None:
    """`atomic-sharded` is the fastest and over-counts in silence; the ledger is not if it does."""
    assert not {"atomic", "atomic-sharded"} & set(met(HOT, report()))
    wrong = recounted("collection", value=203)
    assert met(HOT, report(wrong)) == [LEDGER_COMBINED, "optimistic"]


def test_without_curves_none_is_hot() -> None:
    """Nothing measured is nothing named."""
    assert dict(choices(report().figures, {}))[HOT] == NONE
