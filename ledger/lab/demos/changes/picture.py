"""Draw the error of every counter at the end of the demo, of the ledger and of single items."""

from typing import Any

from ledger.lab.demos.changes.state import Outcome, Verdict
from ledger.lab.harness.picture import OURS, WRONG, finish_axis

INCHES = (8.6, 3.4)


def draw_errors(verdict: Verdict, figure: Any) -> None:
    """Draw the errors in the home region: a bar and a dot for each counter, in order."""
    figure.set_size_inches(*INCHES)
    axis = figure.add_subplot()
    single, ledger = verdict.single[0], verdict.ledger[0]
    counters = sorted(single.errors, key=lambda counter: single.errors[counter])
    places = range(len(counters))
    axis.bar(
        places,
        [float(single.errors[counter]) for counter in counters],
        color=WRONG,
        label=f"one item per counter: {_found(single, verdict)}",
    )
    axis.plot(
        places,
        [float(ledger.errors[counter]) for counter in counters],
        color=OURS,
        linestyle="",
        marker="o",
        markersize=3.5,
        label=f"ledger: {_found(ledger, verdict)}",
    )
    title = f"{verdict.changes:,} changes of {verdict.counters:,} counters, from three regions"
    finish_axis(axis, title)
    axis.set(xlabel="counters", ylabel="error of the total", xticks=[], xmargin=0.01)
    axis.spines["bottom"].set_visible(False)
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.legend(frameon=False, loc="lower right", fontsize=9)


def _found(outcome: Outcome, verdict: Verdict) -> str:
    return f"{outcome.lost:,} changes lost, {outcome.exact:,} of {verdict.counters:,} totals right"
