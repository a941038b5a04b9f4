"""Check the guarantees of each method against the measurements of a run.

A guarantee is *shown* if a figure of this run shows it, *unseen* if nothing happened that could
show it (for example, no answer was lost), and *broken* if a figure contradicts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ledger.lab.compare.figures import (
    AFTER_MANY,
    AFTER_ONE,
    DAYS_LATER,
    ELSEWHERE,
    MINUTES_LATER,
    MOMENTS,
    MethodFigures,
)
from ledger.lab.compare.options import CompareOptions
from ledger.primitives.counters import METHODS

Status = Literal["shown", "unseen", "broken"]
About = Literal["unknown", "tokens", "thresholds", "regions", "cost"]
Losses = Literal["over", "under", "reported", "exact"]
Limits = Literal["exact", "parts", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A method's guarantees in short: after lost answers, for repeated tokens, for thresholds.

    `twice` names the moments at which a repeat counts again, `refused` those at which it is an
    error; at all other moments it is recognized.
    """

    losses: Losses
    tokens: str
    twice: frozenset[str]
    refused: frozenset[str] = frozenset()
    limits: Limits = "exact"
    keeps_regions: bool = False

    def repeated(self, moment: str) -> tuple[int, bool]:
        """Return how often a change repeated at this moment counts, and if that is refused."""
        return (2 if moment in self.twice else 1), moment in self.refused


@dataclass(frozen=True, slots=True)
class Claim:
    """One guarantee in words, and its status in this run."""

    text: str
    status: Status


_ALWAYS = frozenset(MOMENTS)
_LATER = frozenset({MINUTES_LATER, DAYS_LATER})
_FOR_A_WEEK = "for a week (marker)"
PROMISES: Mapping[str, Promise] = {
    "atomic": Promise(losses="over", tokens="never", twice=_ALWAYS),
    "atomic-once": Promise(losses="under", tokens="never", twice=_ALWAYS),
    "optimistic": Promise(
        losses="reported", tokens="while the newest", twice=frozenset({AFTER_ONE, AFTER_MANY})
    ),
    "history": Promise(
        losses="reported", tokens="among the latest 12", twice=frozenset({AFTER_MANY})
    ),
    "client-token": Promise(
        losses="exact", tokens="10 min, own region", twice=_LATER | {ELSEWHERE}
    ),
    "marker": Promise(losses="exact", tokens=_FOR_A_WEEK, twice=frozenset({DAYS_LATER})),
    "collection": Promise(
        losses="exact",
        tokens="5 min, then refused",
        twice=frozenset(),
        refused=_LATER,
        limits="none",
        keeps_regions=True,
    ),
    "slots": Promise(losses="exact", tokens="while it has a slot", twice=frozenset()),
    "atomic-sharded": Promise(losses="over", tokens="never", twice=_ALWAYS, limits="parts"),
    "marker-sharded": Promise(
        losses="exact", tokens=_FOR_A_WEEK, twice=frozenset({DAYS_LATER}), limits="parts"
    ),
}
_LOSSES: Mapping[Losses, str] = {
    "over": "may count too often",
    "under": "may miss, but says Unknown",
    "reported": "exact, or says Unknown",
    "exact": "exact",
}
_LIMITS: Mapping[Limits, str] = {
    "exact": "never passed",
    "parts": "never passed, in parts",
    "none": "none",
}


def claims(figures: MethodFigures, options: CompareOptions) -> Mapping[About, Claim]:
    """Check each guarantee against the measurements."""
    promise, promised = PROMISES[figures.method], METHODS[figures.method].guarantees
    regions = "loses nothing" if promise.keeps_regions else "loses updates"
    cost = f"{promised.write_units:g} / {promised.read_units:g}"
    return {
        "unknown": Claim(_LOSSES[promise.losses], _losses(promise.losses, figures, options)),
        "tokens": Claim(promise.tokens, _tokens(promise, figures)),
        "thresholds": Claim(_LIMITS[promise.limits], _limits(promise.limits, figures)),
        "regions": Claim(regions, _regions(promise, figures)),
        "cost": Claim(cost, _cost(figures)),
    }


def broken(figures: MethodFigures, options: CompareOptions) -> list[str]:
    """Name the guarantees that the figures contradict."""
    return [
        f"{figures.method}: {about}: {claim.text}"
        for about, claim in claims(figures, options).items()
        if claim.status == "broken"
    ]


def _losses(losses: Losses, figures: MethodFigures, options: CompareOptions) -> Status:
    counted = figures.counted
    match losses:
        case "over":
            return _when(counted.value >= counted.applied, seen=counted.silent_error > 0)
        case "under":
            return _when(counted.silent_error == 0, seen=counted.error < 0)
        case "reported" | "exact":
            return _when(counted.silent_error == 0, seen=options.lost > 0)


def _tokens(promise: Promise, figures: MethodFigures) -> Status:
    found = {moment: (one.times, one.refused) for moment, one in figures.repeats.items()}
    return _when(found == {moment: promise.repeated(moment) for moment in MOMENTS}, seen=True)


def _limits(limits: Limits, figures: MethodFigures) -> Status:
    sold = figures.sold
    if limits == "none":
        return "shown" if sold.oversold else "unseen"
    return _when(sold.oversold == 0, seen=sold.buyers > sold.stock)


def _regions(promise: Promise, figures: MethodFigures) -> Status:
    its = figures.partitioned
    if promise.keeps_regions:
        return _when(its.lost == 0 and its.agree, seen=len(its.values) > 1)
    return "shown" if its.lost else "unseen"


def _cost(figures: MethodFigures) -> Status:
    promised, found = METHODS[figures.method].guarantees, figures.alone
    is_kept = (found.write_units, found.read_units) == (promised.write_units, promised.read_units)
    return _when(is_kept, seen=True)


def _when(is_kept: bool, *, seen: bool) -> Status:  # noqa: FBT001 (a fact)
    if not is_kept:
        return "broken"
    return "shown" if seen else "unseen"
