"""The costs of a workload in other ways: with other choices here, and without a ledger.

Dollars are those of `estimating`, at the same prices: writes and uncached totals in all regions,
and the compactors, if there are any.

Pure: no clock, no randomness, no I/O.
"""

from dataclasses import dataclass, replace

from ledger.administration.estimating import (
    DAY_SECONDS,
    ENTRY_BYTES,
    MONTH_HOURS,
    READ_UNIT_BYTES,
    Prices,
    Workload,
    estimate,
)
from ledger.settings import Settings

COMBINED = 10.0
"""Changes per entry in the alternative that combines."""
TRANSACTION_UNITS = 3.03
"""Write units of a change whose entry the merging transaction deletes (`bench --cases life`)."""
KEPT_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another way: write units of a change in each region, dollars a month, and what it means."""

    name: str
    units_per_change: float
    month_dollars: float
    means: str


def alternatives(
    workload: Workload, settings: Settings, prices: Prices | None = None
) -> tuple[Alternative, ...]:
    """Return other choices of the ledger that the workload has not made, then other ways to count.

    Raises:
        InvalidInput: a number of the workload is out of its range.
    """
    prices = prices or Prices()
    workload.check()
    if not workload.changes:
        return ()
    return (*_choices(workload, settings, prices), *_others(workload, prices))


def _choices(workload: Workload, settings: Settings, prices: Prices) -> tuple[Alternative, ...]:
    found = []
    if workload.combined == 1:
        found.append(
            (
                replace(workload, combined=COMBINED),
                f"combined, {COMBINED:g} changes an entry",
                "`combine`: one process adds up changes of a moment; an entry stands for all",
            )
        )
    found.append(
        (
            replace(workload, periods=not workload.periods),
            "without sums by period" if workload.periods else "with sums by period",
            "no sums by hour, day and month" if workload.periods else "`periods` in the contract",
        )
    )
    made = []
    for other, name, means in found:
        shown = estimate(other, settings, prices)
        made.append(
            Alternative(
                name=name,
                units_per_change=shown.units_per_change,
                month_dollars=shown.month_dollars,
                means=means,
            )
        )
    return tuple(made)


def _others(workload: Workload, prices: Prices) -> tuple[Alternative, ...]:
    hottest = next(iter(replace(workload, combined=1.0).groups()))[1]
    kept = _read_after_days(hottest)
    groups = replace(workload, combined=1.0).groups()
    mean = sum(count * rate / workload.changes * _read_after_days(rate) for count, rate in groups)
    ways = (
        ("one item, `ADD`", 1.0, 1.0, "loses changes that two regions make at once"),
        (
            "one item for each region, `ADD`",
            1.0,
            float(workload.regions),
            "a repeated change counts twice; 1,000 changes a second of a counter at most",
        ),
        (
            "entries that are never merged",
            1.0,
            mean,
            f"a total of the hottest counter reads {kept:,.0f} units after {KEPT_DAYS} days",
        ),
        (
            "entries merged and deleted in one transaction",
            TRANSACTION_UNITS,
            1.0,
            "other regions show wrong totals while a merge replicates",
        ),
    )
    return tuple(
        Alternative(
            name=name,
            units_per_change=units,
            month_dollars=_dollars(workload, prices, units=units, reads=reads),
            means=means,
        )
        for name, units, reads, means in ways
    )


def _read_after_days(rate: float) -> float:
    """Return the read units of a total over all entries of `KEPT_DAYS`, at a rate per second."""
    return max(1.0, rate * KEPT_DAYS * DAY_SECONDS * ENTRY_BYTES / READ_UNIT_BYTES)


def _dollars(workload: Workload, prices: Prices, *, units: float, reads: float) -> float:
    """Return the dollars a month, from units per change and read units per total."""
    seconds = MONTH_HOURS * 3_600
    writes = workload.changes * units * workload.regions * prices.write_million
    totals = workload.totals * reads * prices.read_million
    return (writes + totals) * seconds / 1e6
