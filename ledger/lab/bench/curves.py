"""How cost grows with the size of collections, folds, and the number of counters or regions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger.core.errors import LedgerError
from ledger.lab.bench.cases import COMBINING_CALLERS, LEAN, SETTLE_SECONDS, Case
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.report import Curve, Point
from ledger.lab.bench.rounds import BUSIEST
from ledger.lab.harness.display import OnStep

SPREAD_ENTRIES = 16_000
"""The entries of a counter that is read in 1 to 32 shards."""

Sizes = Sequence[int]
_COUNTERS: tuple[Sizes, Sizes] = (1, 100, 10_000), (1, 10, 100, 1_000, 10_000, 100_000)
_SHARDS: tuple[Sizes, Sizes] = (1, 4, 32), (1, 2, 4, 8, 16, 32)
_ENTRIES: tuple[Sizes, Sizes] = (100, 1_000, 10_000), (100, 1_000, 10_000, 100_000, 1_000_000)
_REGIONS: tuple[Sizes, Sizes] = (1, 3), (1, 2, 3, 4, 5)
_FOLDS: tuple[Sizes, Sizes] = (20, 100), (10, 50, 100, 500, 2_500, 10_000)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A curve: `sizes` usually and in full, and the case of each size."""

    name: str
    x_name: str
    sizes: tuple[Sizes, Sizes]
    case: Callable[[int], Case]


def _read(entries: int, shards: int = 1) -> Case:
    options = {"entries": entries, "shards": shards, "settings": LEAN}
    return Case("curve", "read", "reads:total", options=options)


def _write(counters: int, **settings: Any) -> Case:
    options = {
        "callers": COMBINING_CALLERS,
        "counters": counters,
        "settings": {**settings, **LEAN},
    }
    return Case("curve", "write", "writes:record", options=options)


def _write_shards(shards: int) -> Case:
    settings = {"shards": {"hot": shards}, "compactor": {"hint_every": 0}, **LEAN}
    options = {
        "callers": COMBINING_CALLERS,
        "counters": 1,
        "prefix": "hot",
        "settings": settings,
        "counts_partitions": True,
    }
    return Case("curve", "write", "writes:record", options=options)


def _life(*, regions: int = 2, entries: int = 200, fold: int = 500) -> Case:
    options = {
        "counters": 2,
        "entries": entries,
        "rounds": 1,
        "regions": regions,
        "settle": SETTLE_SECONDS,
        "settings": {"compactor": {"fold_max": fold, "fold_min": 1}},
    }
    return Case("curve", "life", "life:ledger", options=options, with_stub=False)


_PLANS = (
    _Plan("reading a collection, lean", "entries", _ENTRIES, _read),
    _Plan("group commit by counters, lean", "counters", _COUNTERS, _write),
    _Plan(
        "combining by counters, lean",
        "counters",
        _COUNTERS,
        lambda counters: _write(counters, combine=["counter-*"]),
    ),
    _Plan(
        f"reading {SPREAD_ENTRIES:,} entries in shards, lean",
        "shards",
        _SHARDS,
        lambda shards: _read(SPREAD_ENTRIES // shards, shards),
    ),
    _Plan("writing one counter in shards, lean", "shards", _SHARDS, _write_shards),
    _Plan(
        "a change's life by regions", "regions", _REGIONS, lambda regions: _life(regions=regions)
    ),
    _Plan(
        "the compactor by size of a fold",
        "fold_max",
        _FOLDS,
        lambda fold: _life(entries=fold, fold=fold),
    ),
)


def _of_read(found: Measured) -> dict[str, float]:
    return {
        "ms a read": 1e3 * found.seconds / found.calls,
        "CPU ms a read": 1e3 * found.cpu_seconds / found.calls,
        "read units": found.units / found.calls,
        "requests": found.requests / found.calls,
        "MB more": found.memory_bytes / 2**20,
    }


def _of_write(found: Measured) -> dict[str, float]:
    spread = {name: value for name, value in found.extra.items() if name == BUSIEST}
    return {
        "changes/s": found.work / found.seconds,
        "changes/CPU s": found.work / found.cpu_seconds,
        "write units each": found.units / found.work,
        "p50 ms": 1e3 * found.p50_seconds,
        "p99 ms": 1e3 * found.p99_seconds,
        **spread,
    }


def _of_life(found: Measured) -> dict[str, float]:
    return {
        "write units a change and region": found.units / found.work,
        "read units a change": found.extra["merge_read_units_per_change"],
        "merged/s": found.work / found.seconds,
        "merged/CPU s": found.work / found.cpu_seconds,
        "read units of the total": found.extra["merged_total_read_units"],
    }


_FIGURES: Mapping[str, Callable[[Measured], dict[str, float]]] = {
    "read": _of_read,
    "write": _of_write,
    "life": _of_life,
}


async def measure_curves(
    measure: Callable[[Case], Awaitable[Measured]], *, is_full: bool, on_step: OnStep
) -> tuple[Curve, ...]:
    """Measure each curve in one round a point; a curve ends at a point that fails."""
    return tuple([await _curve(plan, plan.sizes[is_full], measure, on_step) for plan in _PLANS])


async def _curve(
    plan: _Plan,
    sizes: Sizes,
    measure: Callable[[Case], Awaitable[Measured]],
    on_step: OnStep,
) -> Curve:
    points: list[Point] = []
    for size in sizes:
        on_step(f"{plan.name}: {size:,} {plan.x_name}")
        case = plan.case(size)
        try:
            points.append(Point(size, _FIGURES[case.group](await measure(case))))
        except LedgerError as error:
            failure = f"{size:,} {plan.x_name}: {error}"
            return Curve(plan.name, plan.x_name, tuple(points), failure)
    return Curve(plan.name, plan.x_name, tuple(points))
