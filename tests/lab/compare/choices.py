"""Which methods a run's figures speak for, by what an application needs.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from lab.compare.figures import (
    AFTER_MANY,
    LEDGER_SHARDED,
    MINUTES_LATER,
    MethodFigures,
    Point,
)

NEEDS: Mapping[str, Callable[[MethodFigures], bool]] = {
    "several regions write": lambda one: not one.partitioned.lost and one.partitioned.agree,
    "a limit across regions": lambda one: not one.sold_partitioned.oversold,
    "a limit in one region": lambda one: not one.sold.oversold,
    "a message may come again later": lambda one: (
        one.repeats[AFTER_MANY].times == one.repeats[MINUTES_LATER].times == 1
    ),
    "no silent error after lost answers": lambda one: not one.counted.silent_error,
    "two balances change together": lambda _one: False,
}
"""What to ask, in this order: each answer leaves fewer methods for the next question."""
BUDGET = "budget (not measured here)"
BOOK = "book: whole in every region (not measured here); record_together: in its own region"
FIRST: Mapping[str, str] = {
    "a limit across regions": BUDGET,
    "two balances change together": BOOK,
}
"""What the library offers for a need, beside the methods."""
HOT = "one hot counter, no silent error"
NONE = "none of these"


def choices(
    figures: Iterable[MethodFigures], curves: Mapping[str, Sequence[Point]]
) -> list[tuple[str, str]]:
    """Return for each need the methods that met it: the cheapest first, the fastest if hot.

    A hot counter gets no advice that counts too often: what is fast and had a silent error is
    left out. The ledger with shards is as exact as without them.
    """
    by_price = sorted(figures, key=lambda one: one.price)
    met = [
        (
            need,
            "; ".join(
                f"{method.method} {method.price:.1f}" for method in by_price if is_met(method)
            ),
        )
        for need, is_met in NEEDS.items()
    ]
    exact = {method.method for method in by_price if not method.counted.silent_error}
    exact |= {LEDGER_SHARDED} if "collection" in exact else set()
    ends = [
        (points[-1].useful_per_second, method)
        for method, points in curves.items()
        if points and method in exact
    ]
    fastest = "; ".join(f"{method} {rate:,.0f}/s" for rate, method in sorted(ends, reverse=True))
    return [
        (need, "; ".join(filter(None, (FIRST.get(need), methods))) or NONE)
        for need, methods in (*met, (HOT, fastest))
    ]
