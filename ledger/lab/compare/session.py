"""One run of `ledger compare`: every part, first on the local table, then on the model."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import anyio

from ledger.lab.compare.advice import advise
from ledger.lab.compare.apart import sell, sell_apart, write_apart
from ledger.lab.compare.contention import CONTENDERS, WRITERS, WRITERS_QUICK, contend
from ledger.lab.compare.counting import alone, count
from ledger.lab.compare.ground import Ground, open_local
from ledger.lab.compare.model import open_model
from ledger.lab.compare.repeats import repeat
from ledger.lab.compare.report import (
    MODEL,
    MOMENTS,
    Alone,
    Apart,
    Counted,
    Figures,
    Options,
    Point,
    Repeat,
    Report,
    Sold,
)
from ledger.lab.compare.workload import Tell
from ledger.lab.simulator import loop
from ledger.primitives.counters import METHODS


@dataclass(frozen=True, slots=True)
class _Worked:
    """What a method did with the workload."""

    counted: Counted
    apart: Apart
    sold: Sold
    sold_apart: Sold


@dataclass(frozen=True, slots=True)
class _Calm:
    """What a method does on the model where nothing else goes wrong."""

    alone: Alone
    repeats: dict[str, Repeat]


def compare(options: Options, *, tell: Tell) -> Report:
    """Run every method; `tell` hears what is being done.

    Raises:
        LedgerError: the local table does not start, or does not answer.
    """
    if options.engine == MODEL:
        worked = loop.run(lambda: _work(open_model(options), options, tell))
    else:
        worked = anyio.run(_work, open_local(options), options, tell)
    calm_options = replace(options, lost=0.0, conflicts=0.0)
    calm = loop.run(lambda: _calm(calm_options, tell))
    curves = loop.run(lambda: _curves(calm_options, tell))
    report = Report(options, _together(worked, calm), curves)
    return replace(report, advice=advise(report))


async def _work(
    opening: AbstractAsyncContextManager[Ground], options: Options, tell: Tell
) -> dict[str, _Worked]:
    """Run the workload with every method, one after the other."""
    tell(f"starting a global table of {options.regions} regions ({options.engine})")
    worked: dict[str, _Worked] = {}
    async with opening as ground:
        for place, method in enumerate(METHODS, start=1):
            tell(f"{place} of {len(METHODS)}, {method}: writers, lost answers, regions, buyers")
            worked[method] = _Worked(
                await count(ground, method, options),
                await write_apart(ground, method, options),
                await sell(ground, method, options),
                await sell_apart(ground, method, options),
            )
    return worked


async def _calm(options: Options, tell: Tell) -> dict[str, _Calm]:
    """See what repeats and lone changes do, where nothing else goes wrong."""
    found: dict[str, _Calm] = {}
    async with open_model(options) as model:
        for method in METHODS:
            tell(f"model, {method}: the same token again")
            repeats = {moment: await repeat(model, method, moment, options) for moment in MOMENTS}
            found[method] = _Calm(await alone(model, method, options), repeats)
    return found


async def _curves(options: Options, tell: Tell) -> dict[str, tuple[Point, ...]]:
    """Let ever more writers contend for one counter."""
    sizes = WRITERS_QUICK if options.quick else WRITERS
    curves: dict[str, tuple[Point, ...]] = {}
    async with open_model(options) as model:
        for method in CONTENDERS:
            points: list[Point] = []
            for writers in sizes:
                tell(f"model, {method}: {writers} writers at one counter")
                points.append(await contend(model, method, writers, options))
            curves[method] = tuple(points)
    return curves


def _together(worked: dict[str, _Worked], calm: dict[str, _Calm]) -> tuple[Figures, ...]:
    return tuple(
        Figures(
            method,
            calm[method].alone,
            one.counted,
            calm[method].repeats,
            one.apart,
            one.sold,
            one.sold_apart,
        )
        for method, one in worked.items()
    )
