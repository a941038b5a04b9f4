"""What a senior engineer would say to these figures. Pure: other figures, other advice."""

from collections.abc import Callable, Iterator, Sequence

from ledger.lab.compare.report import AFTER_MANY, ELSEWHERE, MINUTES_LATER, Figures, Point, Report
from ledger.primitives.counters import METHODS

CROWDED_REPEATS = 0.5
"""From this share of repeats on, more writes are in vain than not."""
AS_GOOD_SHARE = 0.9
"""What reaches this share of the best is as good."""
DEAR_TIMES = 3.0
"""So many times the price that a change has alone is dear."""
_ANY_AMOUNT = METHODS["atomic"].guarantees.changes


def advise(report: Report) -> tuple[str, ...]:
    """Return the advice, the weightiest first."""
    return tuple(line for part in _PARTS for line in part(report))


def _regions(report: Report) -> Iterator[str]:
    losing = [one for one in report.figures if one.apart.lost]
    keeping = [one for one in report.figures if not one.apart.lost and one.apart.agree]
    if not losing:
        yield "Regions: none lost an update in this run, which is no evidence that none can."
        return
    worst = max(losing, key=lambda one: one.apart.lost)
    lost = (
        f"up to {worst.apart.lost:,} of {worst.apart.applied:,} changes ({worst.method}), and"
        " nobody was told"
    )
    if keeping:
        yield f"More than one region writes: {_names(keeping)}. Every other way lost {lost}."
    else:
        yield f"More than one region writes: none of these. They lost {lost}."


def _answers(report: Report) -> Iterator[str]:
    if not report.options.lost:
        yield "Retries: no answer was lost, so this run says nothing of them; give --lost a share."
        return
    silent = [one for one in report.figures if one.counted.untold]
    told = [one for one in report.figures if not one.counted.untold and one.counted.unknown]
    if silent:
        errors = ", ".join(f"{one.method} {one.counted.error:+,}" for one in silent)
        yield (
            f"Money or stock: not {_names(silent)}. They counted otherwise than they told their"
            f" callers ({errors} in {report.options.changes:,}). For views and likes that may do."
        )
    if told:
        unknown = ", ".join(f"{one.method} {one.counted.unknown:,}" for one in told)
        yield (
            f"Honest, but not done: changes stayed Unknown ({unknown}); somebody has to look into"
            " them, or let them go."
        )


def _one_region(report: Report) -> Iterator[str]:
    """Choose among what was exact and held its threshold, by how late a message may come again."""
    if not report.options.lost:
        return
    exact = [one for one in report.figures if _is_exact(one)]
    lasting = _cheapest([one for one in exact if one.repeats[MINUTES_LATER].times == 1])
    brief = _cheapest([one for one in exact if one.repeats[MINUTES_LATER].times > 1])
    if lasting is not None and brief is not None and brief.price >= lasting.price:
        brief = None
    choices = [
        f"{one.method} ({_priced(one)}) where a message {when}"
        for one, when in ((lasting, "may come again later"), (brief, "repeats within ten minutes"))
        if one is not None
    ]
    if not choices:
        yield "One region, money or stock: nothing here was exact throughout and held its limit."
        return
    again = [one for one in (lasting, brief) if one and one.repeats[ELSEWHERE].times > 1]
    elsewhere = f"; in another region a repeat counts again with {_names(again)}" if again else ""
    yield f"One region, money or stock: {', or '.join(choices)}{elsewhere}."


def _limits(report: Report) -> Iterator[str]:
    apart = [one for one in report.figures if one.sold_apart.oversold]
    if apart:
        worst = max(apart, key=lambda one: one.sold_apart.oversold).sold_apart
        holding = [one for one in report.figures if one not in apart]
        whom = f"only {_names(holding)} held it" if holding else "none of these holds it"
        yield (
            f"A limit across regions: {whom}. Cut off from each other they sold up to"
            f" {worst.sold:,} of {worst.stock:,} pieces: it takes rights held per region (escrow)."
        )
    unlimited = [one for one in report.figures if one.sold.oversold]
    if unlimited:
        yield f"A limit in one region: not {_names(unlimited)}, which oversold there too."
    cautious = [one for one in report.figures if one.sold.turned_away]
    if cautious:
        away = ", ".join(f"{one.method} {one.sold.turned_away:,}" for one in cautious)
        yield f"Pieces stayed unsold although buyers were there: {away}."


def _crowds(report: Report) -> Iterator[str]:
    ends = {method: points[-1] for method, points in report.curves.items() if points}
    for method in ("optimistic", "history"):
        yield from _in_vain(method, report.curves.get(method, ()))
    ranked = sorted(ends, key=lambda method: ends[method].useful_per_second, reverse=True)
    if len(ranked) < 2:  # noqa: PLR2004 (to compare)
        return
    best, second = ranked[:2]
    top, next_best = ends[best], ends[second]
    if next_best.useful_per_second < AS_GOOD_SHARE * top.useful_per_second:
        yield (
            f"A hot counter: {best} did {top.useful_per_second:,.0f} changes a second with"
            f" {top.writers} writers, the next best, {second},"
            f" {next_best.useful_per_second:,.0f}."
        )


def _in_vain(method: str, points: Sequence[Point]) -> Iterator[str]:
    """Say from how many writers on more writes are in vain than not, if ever."""
    crowded = [point for point in points if point.repeated >= CROWDED_REPEATS]
    if crowded:
        first, last = points[0], points[-1]
        yield (
            f"Not {method} from {crowded[0].writers} writers at one item on: of {last.writers}"
            f" {last.repeated:.0%} of the writes were in vain and {last.failed:.0%} of the changes"
            f" given up, for {last.useful_per_second:,.0f} a second in all (with"
            f" {first.writers}: {first.useful_per_second:,.0f})."
        )


def _prices(report: Report) -> Iterator[str]:
    dear = [one for one in report.figures if one.price >= DEAR_TIMES * one.alone.write_units]
    for one in dear:
        yield (
            f"Keep {one.method} small: {one.alone.write_units:g} write units alone were"
            f" {one.price:.1f} a change here."
        )
    cheapest = _cheapest(report.figures)
    if cheapest is not None and cheapest.counted.error:
        yield (
            f"The cheapest, {cheapest.method} ({_priced(cheapest)}), was off by"
            f" {cheapest.counted.error:+,}: what others cost more is what tells repeats apart."
        )


_PARTS: Sequence[Callable[[Report], Iterator[str]]] = (
    _regions,
    _answers,
    _one_region,
    _limits,
    _crowds,
    _prices,
)


def _is_exact(one: Figures) -> bool:
    counted, changes = one.counted, METHODS[one.method].guarantees.changes
    is_answered = not (counted.untold or counted.error or counted.unknown)
    knows_repeats = one.repeats[AFTER_MANY].times == 1
    is_general = changes == _ANY_AMOUNT
    return is_answered and knows_repeats and is_general and not one.sold.oversold


def _cheapest(choice: Sequence[Figures]) -> Figures | None:
    """Return the cheapest; of two that are all but the same, the first, which is the simpler."""
    return min(choice, key=lambda one: round(one.price, 1), default=None)


def _priced(one: Figures) -> str:
    return f"{one.price:.1f} write units a change"


def _names(figures: Sequence[Figures]) -> str:
    names = [one.method for one in figures]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
