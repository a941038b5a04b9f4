from dataclasses import replace

import pytest
from support.comparing import figures, recounted, report

from ledger.lab.compare.advice import advise
from ledger.lab.compare.figures import Partitioned, Point, Sold
from ledger.lab.compare.report import CompareReport
from ledger.primitives.counters import METHODS

KEPT = Partitioned(200, {"us-east-1": 200, "eu-west-1": 200})
HALF = Partitioned(200, {"us-east-1": 100, "eu-west-1": 100})


def with_all(**parts: object) -> CompareReport:
    """Return a report in which every method has these parts."""
    one = report()
    return replace(one, figures=tuple(replace(its, **parts) for its in one.figures))  # type: ignore[arg-type]


def with_curve(method: str, *points: Point) -> CompareReport:
    """Return a report with another curve."""
    one = report()
    return replace(one, curves={**one.curves, method: points})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        # regions
        (report(), "More than one region writes: collection. Every other way lost up to 100 of"),
        (
            report(marker=replace(figures("marker"), partitioned=KEPT)),
            "More than one region writes: marker and collection. ",
        ),
        (
            with_all(partitioned=HALF),
            "More than one region writes: none of these. They lost up to 100",
        ),
        (with_all(partitioned=KEPT), "none lost an update in this run, which does not show"),
        # lost answers
        (report(), "not atomic and atomic-sharded. Their totals contradict the answers"),
        (report(marker=recounted("marker", value=203)), "not atomic, marker and atomic-sharded."),
        (report(), "Changes stayed Unknown (atomic-once 7, optimistic 3, history 3)"),
        (report(lost=0), "no answer was lost, so this run shows nothing about them"),
        # one region
        (
            report(),
            (
                "One region, money or stock: marker (4.0 write units per change) if messages are"
                " repeated at any time, or client-token (2.0 write units per change) if messages"
                " are repeated within ten minutes; a repeat in another region counts again with"
                " client-token."
            ),
        ),
        (
            report(marker=recounted("marker", value=203)),
            "stock: marker-sharded (4.0 write units per change) if messages are repeated",
        ),
        (
            report(client_token=recounted("client-token", unknown=1, applied=199)),
            (
                "One region, money or stock: marker (4.0 write units per change) if messages are"
                " repeated at any time."
            ),
        ),
        (
            with_all(sold=Sold(25, 50, 26, 0)),
            "no method was exact throughout and held its limit",
        ),
        # limits
        (report(), "A limit across regions: none of these holds it. In a partition they"),
        (
            report(marker=replace(figures("marker"), sold_partitioned=Sold(25, 100, 25, 0))),
            "A limit across regions: only marker held it. ",
        ),
        (report(), "A limit in one region: not collection, which oversold even there."),
        (
            report(atomic=replace(figures("atomic"), sold=Sold(25, 50, 23, 0))),
            "Pieces stayed unsold although buyers were turned away: atomic 2.",
        ),
        # crowds
        (
            report(),
            "Not optimistic from 32 writers of one item on: with 64, 80% of the writes were",
        ),
        (
            with_curve("optimistic", Point(1, 98, 0.0), Point(8, 90, 0.5, 0.1)),
            "Not optimistic from 8 writers of one item on: with 8, 50% of the writes were wasted",
        ),
        (
            report(),
            (
                "A hot counter: atomic-sharded made 7,900 changes per second with 64 writers; the"
                " next best, atomic, 1,000."
            ),
        ),
        # prices
        (
            report(slots=recounted("slots", write_units=1000.0)),
            "Keep slots small: 5.0 write units per change here, 1 alone.",
        ),
        (report(), "The cheapest, atomic (1.0 write units per change), was off by +7"),
    ],
)
def test_the_figures_give_the_advice(given: CompareReport, said: str) -> None:
    """Each figure that matters has its sentence."""
    assert any(said in line for line in advise(given)), "\n".join(advise(given))


@pytest.mark.parametrize(
    ("given", "unsaid"),
    [
        (report(lost=0), "One region"),
        (with_all(sold_partitioned=Sold(25, 100, 25, 0)), "A limit across regions"),
        (with_all(sold=Sold(25, 50, 25, 0)), "A limit in one region"),
        (report(), "Pieces stayed unsold"),
        (report(), "Keep "),
        (with_curve("optimistic", Point(1, 98, 0.0), Point(64, 900, 0.3)), "Not optimistic"),
        (with_curve("atomic", Point(64, 7500, 0.0)), "A hot counter"),
        (replace(report(), curves={}), "A hot counter"),
        (with_all(counted=figures("marker").counted), "The cheapest"),
    ],
)
def test_without_the_figure_nothing_is_said(given: CompareReport, unsaid: str) -> None:
    """What the figures do not show is not advised."""
    assert not any(unsaid in line for line in advise(given))


def test_what_counts_again_after_others_is_no_choice_for_money() -> None:
    """A method that forgets tokens while others write is not advised, however cheap it was."""
    lucky = recounted("history", value=200, applied=200, unknown=0)
    (line,) = [one for one in advise(report(history=lucky)) if one.startswith("One region")]
    assert "history" not in line


def test_what_takes_only_ones_is_no_choice_for_money() -> None:
    """Slots, though exact and cheap while few, take no other amounts."""
    (line,) = [one for one in advise(report()) if one.startswith("One region")]
    assert "slots" not in line
    assert METHODS["slots"].guarantees.changes != METHODS["atomic"].guarantees.changes
