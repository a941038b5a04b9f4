"""Figures of methods as they should come out, for tests of what is said about them."""

from dataclasses import replace
from typing import Any

from lab.compare.figures import (
    LEDGER_COMBINED,
    MOMENTS,
    Alone,
    Backlog,
    Counted,
    MethodFigures,
    Partitioned,
    Point,
    Repeat,
    SdkRetried,
    Sold,
)
from lab.compare.options import CompareOptions
from lab.compare.promises import PROMISES, Losses
from lab.compare.report import CompareReport
from lab.compare.ways import COMPARED

CHANGES, STOCK, LOST = 200, 25, 0.1
HERE, THERE = "us-east-1", "eu-west-1"
ERRORS = {Losses.OVER: 7, Losses.UNDER: -7, Losses.REPORTED: -3, Losses.EXACT: 0}


def counted(**overrides: Any) -> Counted:
    """Return 200 changes that went well, but for the overrides."""
    values: dict[str, Any] = {
        "changes": CHANGES,
        "lost": LOST,
        "applied": CHANGES,
        "unknown": 0,
        "rejected": 0,
        "refused": 0,
        "value": CHANGES,
        "requests": CHANGES,
        "write_units": 200.0,
        "read_units": 0.0,
        "p50_milliseconds": 5.0,
        "p99_milliseconds": 50.0,
    }
    return Counted(**{**values, **overrides})


def figures(method: str) -> MethodFigures:
    """Return figures that show every promise of a method."""
    promise, promised = PROMISES[method], COMPARED[method].guarantees
    error = ERRORS[promise.losses]
    silent = max(0, error)
    kept = CHANGES if promise.keeps_regions else CHANGES // 2
    sold = STOCK if COMPARED[method].has_thresholds else 2 * STOCK
    return MethodFigures(
        method=method,
        alone=Alone(promised.write_units, promised.read_units),
        counted=counted(
            value=CHANGES + error,
            applied=CHANGES - max(0, -error),
            unknown=max(0, -error),
            requests=CHANGES + silent,
            write_units=CHANGES * promised.write_units,
        ),
        repeats={moment: Repeat(*promise.repeated(moment)) for moment in MOMENTS},
        partitioned=Partitioned(CHANGES, {HERE: kept, THERE: kept}),
        sold=Sold(STOCK, 2 * STOCK, sold, 0),
        sold_partitioned=Sold(STOCK, 4 * STOCK, 2 * sold, 0),
    )


def report(*changed: MethodFigures, lost: float = LOST) -> CompareReport:
    """Return a report of every method; `changed` replaces those of some."""
    others = {one.method: one for one in changed}
    found = [others.get(method, figures(method)) for method in COMPARED]
    every = tuple(replace(one, counted=replace(one.counted, lost=lost)) for one in found)
    curves = {
        "atomic": (Point(1, 190.0, 0.0), Point(64, 1000.0, 0.4)),
        "optimistic": (Point(1, 98.0, 0.0), Point(32, 95.0, 0.6, 0.2), Point(64, 90.0, 0.8, 0.3)),
        "atomic-sharded": (Point(1, 180.0, 0.0), Point(64, 7900.0, 0.1)),
        LEDGER_COMBINED: (Point(1, 50.0, 0.0), Point(64, 3200.0, 0.0)),
        "collection-sharded": (Point(1, 180.0, 0.0), Point(64, 7100.0, 0.1)),
    }
    few = Backlog(150, 5, 4, 151.0)
    backlogs = {
        "optimistic": (Backlog(150, 1300, 2500, 150.0),),
        "collection": (few, replace(few, arriving_per_second=400)),
    }
    retried = (SdkRetried("atomic", "applied", "applied", 2, "applied", 2),)
    return CompareReport(CompareOptions(lost=lost), every, curves, backlogs, retried)


def recounted(method: str, **overrides: Any) -> MethodFigures:
    """Return a method's figures with other counts."""
    one = figures(method)
    return replace(one, counted=replace(one.counted, **overrides))
