"""The cases by name: where each is, with what options, and the baseline that it stands beside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CALLERS = 2_000
COMBINING_CALLERS = 5_000
OFFERED_PER_SECOND = 50_000
SERVICE_SECONDS = 0.005
OFFERED_IN_FLIGHT = 16
"""Requests at once: so many of 25 changes, each 5 ms long, are 80,000 changes a second."""
READ_ENTRIES = 10_000
COUNTERS = 100_000
"""As good as one counter per change: batches never hold one twice."""
SETTLE_SECONDS = 8.0
"""Of merging on a local table: short, with time for what one call writes on a busy machine."""
CLIENT_CONNECTIONS = 10
"""aiobotocore's own default; more callers than that would wait for one another."""

PUT = "put_item"
CALM = ", calm collector"
"""With `ledger.tune_gc`."""
NOTHING = "calls that do nothing"
READ = "read with TypeDeserializer"
LIMIT_BATCH, LIMIT_PUT, LIMIT_QUERY = "stub: batches", "stub: puts", "stub: queries"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing measured: `name` says it, `baseline` is the name of another case."""

    name: str
    group: str
    run: str
    baseline: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    limit: str | None = None
    """The case that shows how much of its kind of request the stub answers."""
    stands_for_many: bool = False
    """Whether it batches or combines, so that the note on units belongs beside its figures."""
    package: str | None = None
    """An optional package that it needs, or the engine `dynoxide`."""
    loop: str | None = None
    with_stub: bool = True
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Options of a quick run, where the common ones are not small enough."""


LEAN = {"transport": "lean"}
SDK = {"transport": "aiobotocore"}


def _combining(counters: int, *, calm: bool = False) -> Case:
    return Case(
        f"combining, {counters:,} counters, lean{CALM if calm else ''}",
        "write",
        "writes:record",
        PUT + CALM if calm else PUT,
        {
            "callers": COMBINING_CALLERS,
            "counters": counters,
            "prefix": "combined-",
            "settings": {"combine": ["combined-*"], **LEAN},
            "calm": calm,
        },
        limit=LIMIT_BATCH,
        stands_for_many=True,
    )


def _grouping(
    transport: Mapping[str, str], *, name: str, loop: str | None = None, calm: bool = False
) -> Case:
    otherwise = CALM if calm else f", {loop} loop" if loop else ""
    return Case(
        f"group commit, {name}{otherwise}",
        "write",
        "writes:record",
        PUT + otherwise,
        {"callers": CALLERS, "counters": COUNTERS, "settings": transport, "calm": calm},
        limit=LIMIT_BATCH,
        stands_for_many=True,
        loop=loop,
    )


def _limits() -> list[Case]:
    put = {"operation": "PutItem", "connections": 16, "per_request": 1}
    batch = {"operation": "BatchWriteItem", "connections": 16, "per_request": 25}
    query = {"operation": "Query", "connections": 8, "per_request": READ_ENTRIES}
    return [
        Case(LIMIT_PUT, "proof", "limit:stub_limit", options=put),
        Case(LIMIT_BATCH, "proof", "limit:stub_limit", options=batch),
        Case(LIMIT_QUERY, "proof", "limit:stub_limit", options={**query, "entries": READ_ENTRIES}),
    ]


def _writes() -> list[Case]:
    plain = {"callers": CLIENT_CONNECTIONS}
    many = {"size": 500}
    alone = {"callers": 1, "counters": COUNTERS}
    return [
        Case(PUT, "write", "plain:aiobotocore_put", options=plain, limit=LIMIT_PUT),
        Case(
            f"{PUT}, asyncio loop",
            "write",
            "plain:aiobotocore_put",
            PUT,
            plain,
            limit=LIMIT_PUT,
            loop="asyncio",
        ),
        Case(
            PUT + CALM,
            "write",
            "plain:aiobotocore_put",
            PUT,
            {**plain, "calm": True},
            limit=LIMIT_PUT,
        ),
        Case(NOTHING, "write", "writes:nothing", PUT, {"callers": CALLERS}),
        Case(
            "batch_write_item",
            "write",
            "plain:aiobotocore_batch",
            PUT,
            {"callers": CLIENT_CONNECTIONS},
            limit=LIMIT_BATCH,
            stands_for_many=True,
        ),
        Case(
            "boto3 batch_writer",
            "write",
            "plain:boto3_batch_writer",
            PUT,
            many,
            limit=LIMIT_BATCH,
            stands_for_many=True,
        ),
        Case(
            "aiodynamo batch_write",
            "write",
            "plain:aiodynamo_batch",
            PUT,
            {"callers": CLIENT_CONNECTIONS},
            limit=LIMIT_BATCH,
            stands_for_many=True,
            package="aiodynamo",
        ),
        Case(
            "record, one caller",
            "write",
            "writes:record",
            PUT,
            {**alone, "settings": SDK},
            limit=LIMIT_PUT,
        ),
        Case(
            "record, one caller, lean",
            "write",
            "writes:record",
            PUT,
            {**alone, "settings": LEAN},
            limit=LIMIT_PUT,
        ),
        Case(
            "record_many",
            "write",
            "writes:record_many",
            "boto3 batch_writer",
            {**many, "settings": SDK},
            limit=LIMIT_BATCH,
            stands_for_many=True,
        ),
        Case(
            "record_many, lean",
            "write",
            "writes:record_many",
            "boto3 batch_writer",
            {**many, "settings": LEAN},
            limit=LIMIT_BATCH,
            stands_for_many=True,
        ),
        _grouping(SDK, name="aiobotocore"),
        _grouping(LEAN, name="lean"),
        _grouping(LEAN, name="lean", loop="asyncio"),
        _grouping(LEAN, name="lean", calm=True),
        *map(_combining, (100, 1_000, 10_000)),
        _combining(1_000, calm=True),
    ]


def _offered() -> list[Case]:
    return [
        _offering(20_000),
        *(_offering(rate, calm=True) for rate in (20_000, 35_000, OFFERED_PER_SECOND)),
    ]


def _offering(rate: int, *, calm: bool = False) -> Case:
    return Case(
        f"{rate:,}/s offered, lean{CALM if calm else ''}",
        "offered",
        "writes:record_offered",
        PUT + CALM if calm else PUT,
        {
            "calls_per_second": rate,
            "calls_max": rate,
            "service_seconds": SERVICE_SECONDS,
            "counters": COUNTERS,
            "settings": {**LEAN, "writer": {"in_flight": OFFERED_IN_FLIGHT}},
            "calm": calm,
        },
        limit=LIMIT_BATCH,
        stands_for_many=True,
    )


def _reads() -> list[Case]:
    whole = {"entries": READ_ENTRIES}
    many = {"counters": 1_000, "entries": 10}
    one_by_one = "1,000 totals, one by one"
    return [
        Case(READ, "read", "plain:aiobotocore_read", options=whole, limit=LIMIT_QUERY),
        Case(
            "total, aiobotocore",
            "read",
            "reads:total",
            READ,
            {**whole, "settings": SDK},
            limit=LIMIT_QUERY,
        ),
        Case(
            "total, lean",
            "read",
            "reads:total",
            READ,
            {**whole, "settings": LEAN},
            limit=LIMIT_QUERY,
        ),
        Case(
            one_by_one,
            "totals",
            "reads:totals",
            options={**many, "at_once": False, "settings": SDK},
            limit=LIMIT_PUT,
        ),
        Case(
            "1,000 totals at once",
            "totals",
            "reads:totals",
            one_by_one,
            {**many, "at_once": True, "settings": SDK},
            limit=LIMIT_PUT,
        ),
        Case(
            "1,000 totals at once, lean",
            "totals",
            "reads:totals",
            one_by_one,
            {**many, "at_once": True, "settings": LEAN},
            limit=LIMIT_PUT,
        ),
    ]


def _engines() -> list[Case]:
    put = "dynoxide: put_item"
    many = {"callers": CALLERS, "counters": COUNTERS, "settings": LEAN}
    return [
        Case(
            put,
            "engine",
            "engines:put",
            options={"callers": CLIENT_CONNECTIONS},
            with_stub=False,
            package="dynoxide",
        ),
        Case(
            "dynoxide: group commit, lean",
            "engine",
            "engines:record",
            put,
            many,
            with_stub=False,
            stands_for_many=True,
            package="dynoxide",
        ),
    ]


def _lives() -> list[Case]:
    usual = "merge in one transaction"
    sizes = {"counters": 4, "entries": 500, "rounds": 2, "regions": 2}
    options = {**sizes, "settle": SETTLE_SECONDS}
    quick = {"counters": 1, "entries": 250, "settle": 2.0}
    return [
        Case(usual, "life", "life:usual", options=options, with_stub=False, quick=quick),
        Case(
            "life of a change", "life", "life:ledger", usual, options, with_stub=False, quick=quick
        ),
    ]


ALL: tuple[Case, ...] = (*_limits(), *_writes(), *_offered(), *_reads(), *_engines(), *_lives())
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(case.group for case in ALL))


def chosen(words: Sequence[str] | None) -> tuple[Case, ...]:
    """Return the cases of these groups and names, or whose name holds a word, if it is no name.

    What they are compared with, and the proof that the stub is not the limit, come with them. None
    gives every case.
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
    for name in [*names]:
        names.update(filter(None, (by_name[name].baseline, by_name[name].limit)))
    return tuple(case for case in ALL if case.name in names)
