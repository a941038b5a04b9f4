"""How cost grows: collections, counters, regions, shards, folds; one round a point."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ledger.core.errors import LedgerError
from ledger.lab.bench.cases import COMBINING_CALLERS, LEAN, SETTLE_SECONDS, Case
from ledger.lab.bench.control import running_stub
from ledger.lab.bench.measuring import Measured
from ledger.lab.bench.processes import cores
from ledger.lab.bench.report import Curve, Point
from ledger.lab.bench.runner import Sizes, Tell, run_round

SPREAD_ENTRIES = 16_000
"""Of a counter whose entries lie in 1 to 32 shards."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """One curve: what is measured at each size, and which figures are kept."""

    name: str
    x_name: str
    sizes: Sequence[int]
    full_sizes: Sequence[int]
    case: Callable[[int], Case]
    figures: Callable[[Measured], dict[str, float]]


def _read_case(entries: int) -> Case:
    return Case("curve", "read", "reads:total", options={"entries": entries, "settings": LEAN})


def _combining_case(counters: int) -> Case:
    return _writing(counters, {"combine": ["counter-*"], **LEAN})


def _recording_case(counters: int) -> Case:
    return _writing(counters, LEAN)


def _writing(counters: int, settings: Mapping[str, Any]) -> Case:
    options = {"callers": COMBINING_CALLERS, "counters": counters, "settings": settings}
    return Case("curve", "write", "writes:record", options=options)


def _spread_read_case(shards: int) -> Case:
    options = {"entries": SPREAD_ENTRIES // shards, "shards": shards, "settings": LEAN}
    return Case("curve", "read", "reads:total", options=options)


def _spread_write_case(shards: int) -> Case:
    settings = {"shards": {"hot": shards}, "compactor": {"hint_every": 0}, **LEAN}
    options = {
        "callers": COMBINING_CALLERS,
        "counters": 1,
        "prefix": "hot",
        "settings": settings,
        "counts_partitions": True,
    }
    return Case("curve", "write", "writes:record", options=options)


def _life_case(*, regions: int = 2, entries: int = 200, fold: int = 500) -> Case:
    options = {
        "counters": 2,
        "entries": entries,
        "rounds": 1,
        "regions": regions,
        "settle": SETTLE_SECONDS,
        "settings": {"compactor": {"fold_max": fold, "fold_min": 1}},
    }
    return Case("curve", "life", "life:ledger", options=options, with_stub=False)


def _of_read(found: Measured) -> dict[str, float]:
    return {
        "ms a read": 1e3 * found.seconds / found.calls,
        "CPU ms a read": 1e3 * found.cpu_seconds / found.calls,
        "read units": found.units / found.calls,
        "requests": found.requests / found.calls,
        "MB more": found.memory_bytes / 2**20,
    }


def _of_write(found: Measured) -> dict[str, float]:
    return {
        "changes/s": found.work / found.seconds,
        "changes/CPU s": found.work / found.cpu_seconds,
        "write units each": found.units / found.work,
        "p50 ms": 1e3 * found.p50_seconds,
        "p99 ms": 1e3 * found.p99_seconds,
    }


def _of_spread(found: Measured) -> dict[str, float]:
    busiest = "busiest partition, times even"
    return {**_of_write(found), busiest: found.extra[busiest]}


def _of_life(found: Measured) -> dict[str, float]:
    return {
        "write units a change and region": found.units / found.work,
        "read units a change": found.extra["merge_read_units_per_change"],
        "merged/s": found.work / found.seconds,
        "merged/CPU s": found.work / found.cpu_seconds,
        "read units of the total": found.extra["merged_total_read_units"],
    }


_PLANS = (
    _Plan(
        "reading a collection, lean",
        "entries",
        (100, 1_000, 10_000),
        (100, 1_000, 10_000, 100_000, 1_000_000),
        _read_case,
        _of_read,
    ),
    _Plan(
        "group commit by counters, lean",
        "counters",
        (1, 100, 10_000),
        (1, 10, 100, 1_000, 10_000, 100_000),
        _recording_case,
        _of_write,
    ),
    _Plan(
        "combining by counters, lean",
        "counters",
        (1, 100, 10_000),
        (1, 10, 100, 1_000, 10_000, 100_000),
        _combining_case,
        _of_write,
    ),
    _Plan(
        f"reading {SPREAD_ENTRIES:,} entries in shards, lean",
        "shards",
        (1, 4, 32),
        (1, 2, 4, 8, 16, 32),
        _spread_read_case,
        _of_read,
    ),
    _Plan(
        "writing one counter in shards, lean",
        "shards",
        (1, 4, 32),
        (1, 2, 4, 8, 16, 32),
        _spread_write_case,
        _of_spread,
    ),
    _Plan(
        "a change's life by regions",
        "regions",
        (1, 3),
        (1, 2, 3, 4, 5),
        lambda regions: _life_case(regions=regions),
        _of_life,
    ),
    _Plan(
        "the compactor by size of a fold",
        "fold_max",
        (20, 100),
        (10, 50, 100, 500, 2_500, 10_000),
        lambda fold: _life_case(entries=fold, fold=fold),
        _of_life,
    ),
)


def measure_curves(sizes: Sizes, *, is_full: bool, tell: Tell) -> tuple[Curve, ...]:
    """Measure every curve, up to the largest sizes if asked; one that fails ends there."""
    client, stub_core = cores() if sizes.pin else (None, None)
    sizes = replace(sizes, is_quick=False)  # the sizes are what a curve is about
    curves = []
    with running_stub(core=stub_core) as stub:
        for plan in _PLANS:

            def measure(size: int, plan: _Plan = plan) -> Measured:
                tell(f"{plan.name}: {size:,} {plan.x_name}")
                return run_round(plan.case(size), sizes, stub, core=client)

            curves.append(_curve(plan, plan.full_sizes if is_full else plan.sizes, measure))
    return tuple(curves)


def _curve(plan: _Plan, sizes: Sequence[int], measure: Callable[[int], Measured]) -> Curve:
    points: list[Point] = []
    failed = None
    for size in sizes:
        try:
            points.append(Point(size, plan.figures(measure(size))))
        except LedgerError as error:
            failed = f"{size:,} {plan.x_name}: {error}"
            break
    return Curve(plan.name, plan.x_name, tuple(points), failed)
