"""One run of `lab compare`: the parts on the model first, then those on the table."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import anyio
from proof.simulator import loop

from lab.compare.arrivals import METHODS_MEASURED, PER_SECOND, arrive
from lab.compare.figures import (
    MOMENTS,
    Alone,
    Backlog,
    MethodFigures,
    Point,
    Repeat,
    SdkRetried,
)
from lab.compare.options import CompareOptions
from lab.compare.participants import ComparedTable
from lab.compare.parts import (
    contend,
    count,
    count_alone,
    repeat,
    sell,
    sell_partitioned,
    write_partitioned,
)
from lab.compare.report import CompareReport
from lab.compare.sdk_retries import retried_by_sdk
from lab.compare.ways import COMPARED, WAYS
from lab.harness.model import Model, open_model
from ledger.demo.harness.display import OnStep
from ledger.demo.harness.options import REGIONS, LabOptions
from ledger.demo.harness.table import TestTable, open_table
from ledger.primitives.counters import METHODS

LAG_SECONDS, JITTER_SECONDS = 0.02, 0.05
WRITERS = (1, 2, 4, 8, 16, 32, 64)

_OnModel = Mapping[str, tuple[Alone, Mapping[str, Repeat]]]


def compare(options: CompareOptions, *, on_step: OnStep) -> CompareReport:
    """Run every method; `on_step` is called with each step.

    Raises:
        LedgerError: the local table does not start, or does not answer.
    """
    on_model = loop.run(lambda: _on_model(options, on_step))
    curves = loop.run(lambda: _curves(options, on_step))
    backlogs = loop.run(lambda: _backlogs(options, on_step))
    retried = loop.run(lambda: _retried(options))
    if options.is_model:
        figures = loop.run(lambda: _on_table(_model(options), on_model, options, on_step))
    else:
        figures = anyio.run(_on_table, open_local(options), on_model, options, on_step)
    return CompareReport(options, figures, curves, backlogs, retried)


def _model(options: CompareOptions) -> AbstractAsyncContextManager[Model]:
    return open_model(options.regions, options.seed)


def open_local(options: CompareOptions) -> AbstractAsyncContextManager[TestTable]:
    """Start a local global table.

    Raises:
        LocalTableError: it does not start.
    """
    table = LabOptions(
        engine=options.engine, seed=options.seed, lag=LAG_SECONDS, jitter=JITTER_SECONDS
    )
    return open_table(table, REGIONS[: options.regions])


async def _on_model(options: CompareOptions, on_step: OnStep) -> _OnModel:
    """Measure repeated tokens and lone changes, without faults."""
    found = {}
    async with _model(options) as model:
        for method in COMPARED:
            on_step(f"model, {method}: the same token again")
            repeats = {moment: await repeat(model, method, moment, options) for moment in MOMENTS}
            found[method] = await count_alone(model, method, options), repeats
    return found


async def _curves(options: CompareOptions, on_step: OnStep) -> dict[str, tuple[Point, ...]]:
    """Measure contention of more and more writers."""
    curves: dict[str, tuple[Point, ...]] = {}
    async with _model(options) as model:
        for method in WAYS:
            on_step(f"model, {method}: up to {WRITERS[-1]} writers of one counter")
            points = [await contend(model, method, writers, options) for writers in WRITERS]
            curves[method] = tuple(points)
    return curves


async def _backlogs(options: CompareOptions, on_step: OnStep) -> dict[str, tuple[Backlog, ...]]:
    """Measure what waits when changes arrive at a rate of their own, until most of them do."""
    found: dict[str, tuple[Backlog, ...]] = {}
    async with _model(options) as model:
        for method in METHODS_MEASURED:
            on_step(f"model, {method}: up to {PER_SECOND[-1]} changes a second arriving")
            backlogs: list[Backlog] = []
            for rate in PER_SECOND:
                backlogs.append(await arrive(model, method, rate, options))
                if backlogs[-1].is_swamped:
                    break
            found[method] = tuple(backlogs)
    return found


async def _retried(options: CompareOptions) -> tuple[SdkRetried, ...]:
    """Measure what the SDK's own retries do to each method."""
    async with _model(options) as model:
        return tuple([await retried_by_sdk(model, method, options) for method in METHODS])


async def _on_table(
    opening: AbstractAsyncContextManager[ComparedTable],
    on_model: _OnModel,
    options: CompareOptions,
    on_step: OnStep,
) -> tuple[MethodFigures, ...]:
    """Run the workload with every method, one after the other."""
    on_step(f"starting a global table of {options.regions} regions ({options.engine})")
    figures: list[MethodFigures] = []
    async with opening as table:
        for place, method in enumerate(COMPARED, start=1):
            on_step(f"{place} of {len(COMPARED)}, {method}: writers, lost answers, regions, buyers")
            alone, repeats = on_model[method]
            figures.append(
                MethodFigures(
                    method=method,
                    alone=alone,
                    counted=await count(table, method, options),
                    repeats=repeats,
                    partitioned=await write_partitioned(table, method, options),
                    sold=await sell(table, method, options),
                    sold_partitioned=await sell_partitioned(table, method, options),
                )
            )
    return tuple(figures)
