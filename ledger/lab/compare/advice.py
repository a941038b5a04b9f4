"""Recommend methods from the figures of a run."""

from collections.abc import Callable, Iterator, Sequence

from ledger.lab.compare.figures import (
    AFTER_MANY,
    ELSEWHERE,
    MINUTES_LATER,
    MethodFigures,
    Point,
)
from ledger.lab.compare.report import CompareReport
from ledger.primitives.counters import METHODS

CROWDED_REPEATS = 0.5
"""From this share of repeats on, most writes are wasted."""
EQUAL_SHARE = 0.9
"""Within this share of the best counts as equal."""
EXPENSIVE_TIMES = 3.0
"""A change that costs this many times its price alone is expensive."""
_ANY_AMOUNT = METHODS["atomic"].guarantees.changes


def advise(report: CompareReport) -> tuple[str, ...]:
    """Return the advice, the most important first."""
    return tuple(line for part in _PARTS for line in part(report))


def _regions(report: CompareReport) -> Iterator[str]:
    losing = [figure for figure in report.figures if figure.partitioned.lost]
    keeping = [
        figure
        for figure in report.figures
        if not figure.partitioned.lost and figure.partitioned.agree
    ]
    if not losing:
        yield "Regions: none lost an update in this run, which does not show that none can."
        return
    worst = max(losing, key=lambda one: one.partitioned.lost)
    most = worst.partitioned
    lost = f"up to {most.lost:,} of {most.applied:,} changes ({worst.method}) without any error"
    if keeping:
        yield f"More than one region writes: {_names(keeping)}. Every other way lost {lost}."
    else:
        yield f"More than one region writes: none of these. They lost {lost}."


def _answers(report: CompareReport) -> Iterator[str]:
    if not report.options.lost:
        yield "Retries: no answer was lost, so this run shows nothing about them; set --lost."
        return
    silent = [figure for figure in report.figures if figure.counted.silent_error]
    open_ = [
        figure
        for figure in report.figures
        if not figure.counted.silent_error and figure.counted.unknown
    ]
    if silent:
        errors = ", ".join(f"{one.method} {one.counted.error:+,}" for one in silent)
        yield (
            f"Money or stock: not {_names(silent)}. Their totals contradict the answers that"
            f" callers got ({errors} in {report.options.changes:,}). That may do for views."
        )
    if open_:
        unknown = ", ".join(f"{one.method} {one.counted.unknown:,}" for one in open_)
        yield f"Changes stayed Unknown ({unknown}): investigate each of them, or give it up."


def _one_region(report: CompareReport) -> Iterator[str]:
    """Recommend exact methods that held their limit, by how late a message may be repeated."""
    if not report.options.lost:
        return
    exact = [figure for figure in report.figures if _is_exact(figure)]
    lasting = _cheapest([one for one in exact if one.repeats[MINUTES_LATER].times == 1])
    brief = _cheapest([one for one in exact if one.repeats[MINUTES_LATER].times > 1])
    if lasting is not None and brief is not None and brief.price >= lasting.price:
        brief = None
    choices = [
        f"{one.method} ({_priced(one)}) if messages are repeated {when}"
        for one, when in ((lasting, "at any time"), (brief, "within ten minutes"))
        if one is not None
    ]
    if not choices:
        yield "One region, money or stock: no method was exact throughout and held its limit."
        return
    again = [one for one in (lasting, brief) if one and one.repeats[ELSEWHERE].times > 1]
    elsewhere = f"; a repeat in another region counts again with {_names(again)}" if again else ""
    yield f"One region, money or stock: {', or '.join(choices)}{elsewhere}."


def _limits(report: CompareReport) -> Iterator[str]:
    oversold = [figure for figure in report.figures if figure.sold_partitioned.oversold]
    if oversold:
        worst = max(oversold, key=lambda one: one.sold_partitioned.oversold).sold_partitioned
        holding = [figure for figure in report.figures if figure not in oversold]
        whom = f"only {_names(holding)} held it" if holding else "none of these holds it"
        yield (
            f"A limit across regions: {whom}. In a partition they sold up to {worst.sold:,} of"
            f" {worst.stock:,} pieces: an exact limit takes rights allotted per region (escrow)."
        )
    unlimited = [figure for figure in report.figures if figure.sold.oversold]
    if unlimited:
        yield f"A limit in one region: not {_names(unlimited)}, which oversold even there."
    cautious = [figure for figure in report.figures if figure.sold.unsold]
    if cautious:
        away = ", ".join(f"{one.method} {one.sold.unsold:,}" for one in cautious)
        yield f"Pieces stayed unsold although buyers were turned away: {away}."


def _crowds(report: CompareReport) -> Iterator[str]:
    ends = {method: points[-1] for method, points in report.curves.items() if points}
    for method in ("optimistic", "history"):
        yield from _wasted(method, report.curves.get(method, ()))
    ranked = sorted(ends, key=lambda method: ends[method].useful_per_second, reverse=True)
    if len(ranked) < 2:  # noqa: PLR2004 (to compare)
        return
    best, second = ranked[:2]
    top, next_best = ends[best], ends[second]
    if next_best.useful_per_second < EQUAL_SHARE * top.useful_per_second:
        yield (
            f"A hot counter: {best} made {top.useful_per_second:,.0f} changes per second with"
            f" {top.writers} writers; the next best, {second},"
            f" {next_best.useful_per_second:,.0f}."
        )


def _wasted(method: str, points: Sequence[Point]) -> Iterator[str]:
    """Name the number of writers from which on most writes are wasted, if there is one."""
    crowded = [point for point in points if point.repeated >= CROWDED_REPEATS]
    if crowded:
        first, last = points[0], points[-1]
        yield (
            f"Not {method} from {crowded[0].writers} writers of one item on: with {last.writers},"
            f" {last.repeated:.0%} of the writes were wasted and {last.failed:.0%} of the changes"
            f" given up, for {last.useful_per_second:,.0f} per second in all (with"
            f" {first.writers}: {first.useful_per_second:,.0f})."
        )


def _prices(report: CompareReport) -> Iterator[str]:
    expensive = [
        figure
        for figure in report.figures
        if figure.price >= EXPENSIVE_TIMES * figure.alone.write_units
    ]
    for one in expensive:
        yield (
            f"Keep {one.method} small: {one.price:.1f} write units per change here,"
            f" {one.alone.write_units:g} alone."
        )
    cheapest = _cheapest(report.figures)
    if cheapest is not None and cheapest.counted.error:
        yield (
            f"The cheapest, {cheapest.method} ({_priced(cheapest)}), was off by"
            f" {cheapest.counted.error:+,}; the others cost more because they recognize repeats."
        )


_PARTS: Sequence[Callable[[CompareReport], Iterator[str]]] = (
    _regions,
    _answers,
    _one_region,
    _limits,
    _crowds,
    _prices,
)


def _is_exact(one: MethodFigures) -> bool:
    counted, changes = one.counted, METHODS[one.method].guarantees.changes
    is_answered = not (counted.silent_error or counted.error or counted.unknown)
    knows_repeats = one.repeats[AFTER_MANY].times == 1
    is_general = changes == _ANY_AMOUNT
    return is_answered and knows_repeats and is_general and not one.sold.oversold


def _cheapest(choice: Sequence[MethodFigures]) -> MethodFigures | None:
    """Return the cheapest; of two with nearly the same price the first, which is simpler."""
    return min(choice, key=lambda one: round(one.price, 1), default=None)


def _priced(one: MethodFigures) -> str:
    return f"{one.price:.1f} write units per change"


def _names(figures: Sequence[MethodFigures]) -> str:
    names = [figure.method for figure in figures]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
