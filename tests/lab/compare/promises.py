"""Check the guarantees of each method against the measurements of a run.

A guarantee is *shown* if a figure of this run shows it, *unseen* if nothing happened that could
show it (for example, no answer was lost), and *broken* if a figure contradicts it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from lab.compare.figures import (
    AFTER_MANY,
    AFTER_ONE,
    DAYS_LATER,
    ELSEWHERE,
    LEDGER_COMBINED,
    MINUTES_LATER,
    MOMENTS,
    Alone,
    MethodFigures,
)
from lab.compare.ways import COMPARED

Status = Literal["shown", "unseen", "broken"]
About = Literal["unknown", "tokens", "thresholds", "regions", "cost"]


class Losses(StrEnum):
    """What a value may be after lost answers."""

    OVER = "may count too often"
    UNDER = "may miss, but says Unknown"
    REPORTED = "exact, or says Unknown"
    EXACT = "exact"


class Limits(StrEnum):
    """What is kept of a threshold in one region."""

    EXACT = "never passed"
    PARTS = "never passed, in parts"
    NONE = "none; by a budget"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A method's guarantees in short: after lost answers, for repeated tokens, for thresholds.

    `twice` names the moments at which a repeat counts again, `refused` those at which it is an
    error; at all other moments it is recognized.
    """

    tokens: str
    twice: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    losses: Losses = Losses.EXACT
    limits: Limits = Limits.EXACT
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
_ATOMIC = Promise(losses=Losses.OVER, tokens="never", twice=_ALWAYS)
_MARKER = Promise(tokens="for a week (marker)", twice=frozenset({DAYS_LATER}))
_LEDGER = Promise(
    tokens="5 min, then refused", refused=_LATER, limits=Limits.NONE, keeps_regions=True
)
PROMISES: Mapping[str, Promise] = {
    "atomic": _ATOMIC,
    "atomic-once": replace(_ATOMIC, losses=Losses.UNDER),
    "optimistic": Promise(
        losses=Losses.REPORTED, tokens="while the newest", twice=frozenset({AFTER_ONE, AFTER_MANY})
    ),
    "history": Promise(
        losses=Losses.REPORTED, tokens="among the latest 12", twice=frozenset({AFTER_MANY})
    ),
    "client-token": Promise(tokens="10 min, own region", twice=_LATER | {ELSEWHERE}),
    "marker": _MARKER,
    "collection": _LEDGER,
    LEDGER_COMBINED: replace(_LEDGER, tokens="never", twice=_ALWAYS, refused=frozenset()),
    "slots": Promise(tokens="while it has a slot"),
    "atomic-sharded": replace(_ATOMIC, limits=Limits.PARTS),
    "marker-sharded": replace(_MARKER, limits=Limits.PARTS),
}


def claims(figures: MethodFigures) -> Mapping[About, Claim]:
    """Check each guarantee against the measurements."""
    promise, promised = PROMISES[figures.method], COMPARED[figures.method].guarantees
    regions = "loses nothing" if promise.keeps_regions else "loses updates"
    cost = Alone(promised.write_units, promised.read_units)
    return {
        "unknown": Claim(promise.losses, _losses(promise.losses, figures)),
        "tokens": Claim(promise.tokens, _tokens(promise, figures)),
        "thresholds": Claim(promise.limits, _limits(promise.limits, figures)),
        "regions": Claim(regions, _regions(promise, figures)),
        "cost": Claim(str(cost), _when(figures.alone == cost, seen=True)),
    }


def broken(figures: MethodFigures) -> list[str]:
    """Name the guarantees that the figures contradict."""
    return [
        f"{figures.method}: {about}: {claim.text}"
        for about, claim in claims(figures).items()
        if claim.status == "broken"
    ]


def _losses(losses: Losses, figures: MethodFigures) -> Status:
    counted = figures.counted
    match losses:
        case Losses.OVER:
            return _when(counted.value >= counted.applied, seen=counted.silent_error > 0)
        case Losses.UNDER:
            return _when(counted.silent_error == 0, seen=counted.error < 0)
        case Losses.REPORTED | Losses.EXACT:
            return _when(counted.silent_error == 0, seen=counted.lost > 0)


def _tokens(promise: Promise, figures: MethodFigures) -> Status:
    found = {moment: (one.times, one.refused) for moment, one in figures.repeats.items()}
    return _when(found == {moment: promise.repeated(moment) for moment in MOMENTS}, seen=True)


def _limits(limits: Limits, figures: MethodFigures) -> Status:
    sold = figures.sold
    if limits is Limits.NONE:
        return "shown" if sold.oversold else "unseen"
    return _when(sold.oversold == 0, seen=sold.buyers > sold.stock)


def _regions(promise: Promise, figures: MethodFigures) -> Status:
    its = figures.partitioned
    if promise.keeps_regions:
        return _when(its.lost == 0 and its.agree, seen=len(its.values) > 1)
    return "shown" if its.lost else "unseen"


def _when(is_kept: bool, *, seen: bool) -> Status:  # noqa: FBT001 (a fact)
    if not is_kept:
        return "broken"
    return "shown" if seen else "unseen"
