"""What each method promises, in short, held against the figures of a run. Pure.

A promise is *shown* if a figure of this run shows it, *unseen* if nothing happened that could have
(no answer was lost, say), and *broken* if a figure contradicts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ledger.lab.compare.report import (
    AFTER_MANY,
    AFTER_ONE,
    DAYS_LATER,
    ELSEWHERE,
    MINUTES_LATER,
    MOMENTS,
    Figures,
    Options,
)
from ledger.primitives.counters import METHODS

Verdict = Literal["shown", "unseen", "broken"]
About = Literal["unknown", "tokens", "thresholds", "regions", "cost"]
Losses = Literal["too often", "too seldom", "told", "exact"]
Limits = Literal["exact", "parts", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a method does in short: after lost answers, with repeated tokens, with thresholds.

    `twice` names the moments at which a repeat counts again, `refused` those at which it is an
    error; at all others it is recognized.
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
    """One promise in words, and what this run says of it."""

    text: str
    verdict: Verdict


_ALWAYS = frozenset(MOMENTS)
_LATER = frozenset({MINUTES_LATER, DAYS_LATER})
_FOR_A_WEEK = "for a week (marker)"
PROMISES: Mapping[str, Promise] = {
    "atomic": Promise(losses="too often", tokens="never", twice=_ALWAYS),
    "atomic-once": Promise(losses="too seldom", tokens="never", twice=_ALWAYS),
    "optimistic": Promise(
        losses="told", tokens="while the newest", twice=frozenset({AFTER_ONE, AFTER_MANY})
    ),
    "history": Promise(losses="told", tokens="among the latest 12", twice=frozenset({AFTER_MANY})),
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
    "atomic-sharded": Promise(losses="too often", tokens="never", twice=_ALWAYS, limits="parts"),
    "marker-sharded": Promise(
        losses="exact", tokens=_FOR_A_WEEK, twice=frozenset({DAYS_LATER}), limits="parts"
    ),
}
_LOSSES: Mapping[Losses, str] = {
    "too often": "may count too often",
    "too seldom": "may miss, but says Unknown",
    "told": "exact, or says Unknown",
    "exact": "exact",
}
_LIMITS: Mapping[Limits, str] = {
    "exact": "never passed",
    "parts": "never passed, in parts",
    "none": "none",
}


def claims(figures: Figures, options: Options) -> Mapping[About, Claim]:
    """Hold every promise of a method against its figures."""
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


def broken(figures: Figures, options: Options) -> list[str]:
    """Name the promises that the figures contradict."""
    return [
        f"{figures.method}: {about}: {claim.text}"
        for about, claim in claims(figures, options).items()
        if claim.verdict == "broken"
    ]


def _losses(losses: Losses, figures: Figures, options: Options) -> Verdict:
    counted = figures.counted
    match losses:
        case "too often":
            return _when(counted.value >= counted.applied, seen=counted.untold > 0)
        case "too seldom":
            return _when(counted.untold == 0, seen=counted.error < 0)
        case "told" | "exact":
            return _when(counted.untold == 0, seen=options.lost > 0)


def _tokens(promise: Promise, figures: Figures) -> Verdict:
    found = {moment: (one.times, one.refused) for moment, one in figures.repeats.items()}
    return _when(found == {moment: promise.repeated(moment) for moment in MOMENTS}, seen=True)


def _limits(limits: Limits, figures: Figures) -> Verdict:
    sold = figures.sold
    if limits == "none":
        return "shown" if sold.oversold else "unseen"
    return _when(sold.oversold == 0, seen=sold.buyers > sold.stock)


def _regions(promise: Promise, figures: Figures) -> Verdict:
    apart = figures.apart
    if promise.keeps_regions:
        return _when(apart.lost == 0 and apart.agree, seen=len(apart.values) > 1)
    return "shown" if apart.lost else "unseen"


def _cost(figures: Figures) -> Verdict:
    promised, found = METHODS[figures.method].guarantees, figures.alone
    is_kept = (found.write_units, found.read_units) == (promised.write_units, promised.read_units)
    return _when(is_kept, seen=True)


def _when(is_kept: bool, *, seen: bool) -> Verdict:  # noqa: FBT001 (a fact)
    if not is_kept:
        return "broken"
    return "shown" if seen else "unseen"
