"""The cases by name: where the code of each is, its options, and its baseline.

Pure: no clock, no randomness, no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

CALLERS = 2_000
COMBINING_CALLERS = 5_000
OFFERED_PER_SECOND = 50_000
SERVICE_SECONDS = 0.005
OFFERED_IN_FLIGHT = 16
"""Requests in flight: with 25 changes each, in 5 ms, they carry 80,000 changes per second."""
READ_ENTRIES = 10_000
COUNTERS = 100_000
"""Practically one counter per change: no batch has two changes of a counter."""
SETTLE_SECONDS = 8.0
"""The merge age on a local table: short, yet long enough for one call on a busy machine."""
CLIENT_CONNECTIONS = 10
"""aiobotocore's default; more callers would wait for a connection."""

PUT = "put_item"
TUNED = ", tune_gc()"
"""With `ledger.tune_gc`, as their baseline."""
BOTO3 = "boto3 batch_writer"
NOTHING = "calls that do nothing"
ONE_BY_ONE = "1,000 totals, one by one"
READ = "read with TypeDeserializer"
LIMIT_BATCH, LIMIT_PUT, LIMIT_QUERY = "stub: batches", "stub: puts", "stub: queries"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing measured; `baseline` is the name of the case that it stands beside."""

    name: str
    group: str
    run: str
    """Where its code is: "module:function" within this package."""
    baseline: str | None = None
    limit: str | None = None
    """The case that shows how many requests of this kind the stub can answer."""
    options: Mapping[str, Any] = field(default_factory=dict)
    package: str | None = None
    """An optional package that it needs, or the engine `dynoxide`."""
    loop: str | None = None
    with_stub: bool = True
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Options of a quick run, where the common ones are not small enough."""

    @property
    def is_batched(self) -> bool:
        """Whether one request carries many changes, so that the note on units applies."""
        return self.limit == LIMIT_BATCH


LEAN = {"transport": "lean"}
SDK = {"transport": "aiobotocore"}


def _limits() -> list[Case]:
    put = {"operation": "PutItem", "connections": 16, "per_request": 1}
    batch = {"operation": "BatchWriteItem", "connections": 16, "per_request": 25}
    query = {"operation": "Query", "connections": 8, "per_request": READ_ENTRIES}
    run = "limit:stub_limit"
    return [
        Case(LIMIT_PUT, "proof", run, options=put),
        Case(LIMIT_BATCH, "proof", run, options=batch),
        Case(LIMIT_QUERY, "proof", run, options={**query, "entries": READ_ENTRIES}),
    ]


def _writes() -> list[Case]:
    put = "plain:aiobotocore_put"
    clients: dict[str, Any] = {"callers": CLIENT_CONNECTIONS}
    many: dict[str, Any] = {"size": 500}
    return [
        _write(PUT, put, None, LIMIT_PUT, **clients),
        _write(f"{PUT}, asyncio loop", put, PUT, LIMIT_PUT, loop="asyncio", **clients),
        _write(PUT + TUNED, put, PUT, LIMIT_PUT, tune_gc=True, **clients),
        _write(NOTHING, "writes:nothing", PUT, None, callers=CALLERS),
        _write("batch_write_item", "plain:aiobotocore_batch", **clients),
        _write(BOTO3, "plain:boto3_batch_writer", **many),
        _write("aiodynamo batch_write", "plain:aiodynamo_batch", package="aiodynamo", **clients),
        _record("record, one caller", PUT, LIMIT_PUT, callers=1, settings=SDK),
        _record("record, one caller, lean", PUT, LIMIT_PUT, callers=1, settings=LEAN),
        _write("record_many", "writes:record_many", BOTO3, settings=SDK, **many),
        _write("record_many, lean", "writes:record_many", BOTO3, settings=LEAN, **many),
        _record("group commit, aiobotocore", settings=SDK),
        _record("group commit, lean"),
        _record("group commit, lean, asyncio loop", f"{PUT}, asyncio loop", loop="asyncio"),
        _record("group commit, lean" + TUNED, PUT + TUNED, tune_gc=True),
        *map(_combining, (100, 1_000, 10_000)),
        _combining(1_000, tune_gc=True),
    ]


def _write(
    name: str,
    run: str,
    baseline: str | None = PUT,
    limit: str | None = LIMIT_BATCH,
    *,
    loop: str | None = None,
    package: str | None = None,
    **options: Any,
) -> Case:
    return Case(name, "write", run, baseline, limit, options, package, loop)


def _record(
    name: str,
    baseline: str = PUT,
    limit: str = LIMIT_BATCH,
    *,
    loop: str | None = None,
    **options: Any,
) -> Case:
    common = {"callers": CALLERS, "counters": COUNTERS, "settings": LEAN}
    return _write(name, "writes:record", baseline, limit, loop=loop, **{**common, **options})


def _combining(counters: int, *, tune_gc: bool = False) -> Case:
    tuned = TUNED if tune_gc else ""
    return _record(
        f"combining, {counters:,} counters, lean{tuned}",
        PUT + tuned,
        callers=COMBINING_CALLERS,
        counters=counters,
        prefix="combined-",
        settings={"combine": ["combined-*"], **LEAN},
        tune_gc=tune_gc,
    )


def _offered() -> list[Case]:
    tuned = [_offering(rate, tune_gc=True) for rate in (20_000, 35_000, OFFERED_PER_SECOND)]
    return [_offering(20_000), *tuned]


def _offering(rate: int, *, tune_gc: bool = False) -> Case:
    tuned = TUNED if tune_gc else ""
    options = {
        "calls_per_second": rate,
        "calls_max": rate,
        "service_seconds": SERVICE_SECONDS,
        "counters": COUNTERS,
        "settings": {**LEAN, "writer": {"in_flight": OFFERED_IN_FLIGHT}},
        "tune_gc": tune_gc,
    }
    name, run = f"{rate:,}/s offered, lean{tuned}", "writes:record_offered"
    return Case(name, "offered", run, PUT + tuned, LIMIT_BATCH, options)


def _reads() -> list[Case]:
    whole = {"entries": READ_ENTRIES}

    def read(name: str, settings: Mapping[str, str]) -> Case:
        return Case(name, "read", "reads:total", READ, LIMIT_QUERY, {**whole, "settings": settings})

    def totals(name: str, settings: Mapping[str, str], *, at_once: bool) -> Case:
        options = {"counters": 1_000, "entries": 10, "at_once": at_once, "settings": settings}
        baseline = ONE_BY_ONE if at_once else None
        return Case(name, "totals", "reads:totals", baseline, LIMIT_PUT, options)

    return [
        Case(READ, "read", "plain:aiobotocore_read", None, LIMIT_QUERY, whole),
        read("total, aiobotocore", SDK),
        read("total, lean", LEAN),
        totals(ONE_BY_ONE, SDK, at_once=False),
        totals("1,000 totals at once", SDK, at_once=True),
        totals("1,000 totals at once, lean", LEAN, at_once=True),
    ]


def _engines() -> list[Case]:
    put = "dynoxide: put_item"
    cases = [
        Case(put, "engine", "engines:put", options={"callers": CLIENT_CONNECTIONS}),
        Case(
            "dynoxide: group commit, lean",
            "engine",
            "engines:record",
            put,
            LIMIT_BATCH,
            {"callers": CALLERS, "counters": COUNTERS, "settings": LEAN},
        ),
    ]
    return [replace(case, with_stub=False, package="dynoxide") for case in cases]


def _lives() -> list[Case]:
    usual = "merge in one transaction"
    sizes = {"counters": 4, "entries": 500, "rounds": 2, "regions": 2, "settle": SETTLE_SECONDS}
    quick = {"counters": 1, "entries": 250, "settle": 2.0}
    cases = [
        Case(usual, "life", "life:usual", options=sizes),
        Case("life of a change", "life", "life:ledger", usual, options=sizes),
    ]
    return [replace(case, with_stub=False, quick=quick) for case in cases]


ALL: tuple[Case, ...] = (*_limits(), *_writes(), *_offered(), *_reads(), *_engines(), *_lives())
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(case.group for case in ALL))


def chosen(words: Sequence[str] | None) -> tuple[Case, ...]:
    """Return the cases of these groups or names, or whose name contains a word that is neither.

    Their baselines, and the cases that show the stub's limit, come with them. None returns all.
    """
    if words is None:
        return ALL
    wanted = [word.lower() for word in words]
    by_name = {case.name: case for case in ALL}
    exact = {case.group for case in ALL} | {case.name.lower() for case in ALL}
    names = {
        case.name
        for case in ALL
        for word in wanted
        if word in {case.group, case.name.lower()}
        or (word not in exact and word in case.name.lower())
    }
    for case in [by_name[name] for name in names]:
        names.update(filter(None, (case.baseline, case.limit if case.with_stub else None)))
    return tuple(case for case in ALL if case.name in names)
