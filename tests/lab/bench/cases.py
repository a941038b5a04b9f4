"""The cases by name: where the code of each is, its options, and its baseline.

Pure: no clock, no randomness, no I/O.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.bench.stub_pages import COMBINED as COMBINED_NAME
from ledger.writes.imports.file_format import BATCH_ROWS

Options = Mapping[str, Any]

PUT, READ, USUAL = "put_item", "read with TypeDeserializer", "merge in one transaction"
QUERY = "query one item, aiobotocore"
EMPTY_POST, EMPTY_GET = "empty endpoint of FastAPI, POST", "empty endpoint of FastAPI, GET"
LOOKUP = "totals looked up in a dict"
USUAL_LEAN = "merge in one transaction, lean"
ONE_COMPACTOR = "1 compactor, lean"
MERGED_500 = "folds of 500, lean"
ROUND_SECONDS_MAX = 1_200.0
"""In addition to the time measured: to start, to warm up, to finish what is in flight."""
TUNED = ", tune_gc()"
"""With `ledger.tune_gc`, as their baseline."""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing measured; `baseline` is the name of the case that it stands beside."""

    name: str
    group: str
    run: str
    """Where its code is: "module:function" within this package."""
    baseline: str | None = None
    options: Options = field(default_factory=dict)
    package: str | None = None
    """An optional package that it needs: of PyPI, or of npm if it begins with @."""
    is_long: bool = False
    """Whether it takes minutes: one round of it, and only if asked for by `--full` or by name."""
    is_by_name: bool = False
    """Whether it takes hours: only if asked for by name or group."""
    seconds_max: float = ROUND_SECONDS_MAX
    """How long a round may take in addition to the time measured."""

    @property
    def has_stub(self) -> bool:
        """Whether it writes to the stub, on a core of its own, and not to a local table."""
        return self.group not in _WITHOUT_STUB


_WITHOUT_STUB = frozenset({"life", "archive", "merge", "sharing", "scale", "budgets", "hot"})
LEAN = {"transport": "lean"}
SDK = {"transport": "aiobotocore"}
CLIENT: Options = {"callers": 10}
"""As many as aiobotocore has connections by default; more would wait for one."""
TUNE: Options = {"tune_gc": True}
MANY: Options = {"callers": 2_000, "counters": 100_000, "settings": LEAN}
"""Practically one counter per change: no batch has two changes of a counter."""
PLAIN_LOOP: Options = {**MANY, "plain_loop": True}
"""Every other case runs on uvloop."""
SIZED: Options = {"size": 500, "settings": LEAN}
OF_25: Options = {"size": 25, "settings": LEAN}
"""As many a call as the other clients' batches have."""
SDK_V3 = "@aws-sdk/client-dynamodb"
FIFTY: Options = {"callers": 50}
COMBINED: Options = {"callers": 5_000, "counters": 1_000, "name": COMBINED_NAME, "settings": LEAN}
OVERLOAD: Options = {**MANY, "callers": 20_000, "service_seconds": 0.05}
"""Twice what the queue holds by default: half of the callers wait for room in it."""
ALONE, GUARDED = "keys, a request each, lean", "version put, lean"
CALLERS_ALONE: Options = {"callers": 100, "settings": LEAN}
COLLECTION: Options = {"entries": 10_000}
HOT: Options = {"entries": 100_000, "settings": LEAN}
COUNTERS: Options = {"counters": 1_000, "settings": LEAN, **TUNE}
"""Merged ones, each of one net change that stands for 500 entries."""
CACHED: Options = {**COUNTERS, "settings": {**LEAN, "cache": {"max_age": 3_600.0}}}
SERVED: Options = {"kind": "write", "callers": 64, "counters": 1_000, **TUNE}
"""Requests over HTTP, each with a token, one after another on so many connections."""
LIFE: Options = {
    "counters": 4,
    "entries": 500,
    "rounds": 2,
    "regions": 2,
    "settle": 8.0,  # short, yet long enough for one call on a busy machine
}
MERGED = 50_000
"""Entries of a case that times merging alone, with the connections open."""
HOURLY: Options = {"scan_every": "1h"}
"""As by default: the table is searched once, then hints lead. A local table is searched always."""


RECORD = "record, no limit"
SPENDING: Options = {"callers": 500, "settings": LEAN}
ROUND_TRIP_SECONDS = 0.08
"""To a home region on another continent and back."""
TAKING: Options = {"callers": 50, "settings": LEAN, "away_seconds": 0.0}
SLOW_SECONDS = 90.0
"""Long enough for some renewals of a grant, which lives for a minute."""


PERIODS: Options = {"settings": {"periods": {"life-*": {}}}}
ARCHIVED: Options = {"archive": True}
UNARCHIVED = "life of a change"
ROW = "life of an imported row"
IMPORTED: Options = {"imported": True, "counters": 1, "together": BATCH_ROWS}
SHARED = 50
"""Changes that share an item."""
BOOKS: Options = {"settings": {"books": ["life-*"]}}
FIFTY_THOUSAND, MILLION = 50_000, 1_000_000
HOTTEST = 100_000
"""Entries of the hottest counter of a rung."""
ENTRY_SECONDS_MAX = 0.003
"""Of a rung, for all that is done with an entry: eight times what it took on 2026-11-24, alone."""


def _kept(entries: int, counters: int, *, has_notes: bool = True) -> Case:
    """Return the archiving, reading back and verifying of so many entries, in folds of 500."""
    among = "one counter" if counters == 1 else f"{counters} counters"
    name = f"{entries:,} entries of {among} kept{'' if has_notes else ', without notes'}"
    options = {"entries": entries, "counters": counters, "size": 500, "has_notes": has_notes}
    return Case(name, "archive", "archive:stages", options=options, is_long=entries >= MILLION)


def _merging(size: int) -> Case:
    """Return the merging of as many entries in three regions, in folds of one size."""
    return Case(f"folds of {size}, lean", "merge", "life:merging", USUAL_LEAN, _merge(size))


def _merge(size: int) -> Options:
    folding = {"fold_max": size, "fold_min": 1, "lease": 60.0}
    return {
        **LIFE,
        **TUNE,
        "counters": MERGED // size,
        "entries": size,
        "rounds": 1,
        "regions": 3,
        "settings": {**LEAN, "compactor": {**HOURLY, **folding}},
    }


def _shared(processes: int) -> Case:
    """Return the merging of as many entries by several processes that share the slices."""
    options = {**_merge(500), "processes": processes}
    options["settings"] = {**LEAN, "compactor": {"fold_min": 500, "lease": 10.0}}
    if processes == 1:
        return Case(ONE_COMPACTOR, "sharing", "slice_sharing:shared", options=options)
    name = f"{processes} compactors, lean"
    return Case(name, "sharing", "slice_sharing:shared", ONE_COMPACTOR, options)


def _rung(counters: int) -> Case:
    """Return a rung of the ladder: so many counters, the hottest of `HOTTEST` entries."""
    # One engine answers all: a page of a hot counter waits for those before it.
    holding = {"observation_delay": 4.0, "contract_life": 300.0, "request_timeout": 20.0}
    settings = {**LEAN, **holding, "compactor": {**HOURLY, "lease": 60.0}}
    options = {"counters": counters, "hottest": HOTTEST, "settle": 60.0, "settings": settings}
    return Case(
        f"{counters:,} counters",
        "scale",
        "scale:ladder",
        options=options,
        is_long=True,
        is_by_name=counters > MILLION,
        seconds_max=max(ROUND_SECONDS_MAX, _rung_entries_max(counters) * ENTRY_SECONDS_MAX),
    )


def _rung_entries_max(counters: int) -> float:
    """Return a number of entries that a rung does not exceed: 1/1 + ... + 1/n is below 1 + ln n."""
    by_rank = min(counters, HOTTEST)
    return HOTTEST * (1 + math.log(by_rank)) + counters - by_rank


def _offered(rate: int, *, tuned: bool = True) -> Case:
    """Return a case of calls at a fixed rate, each request answered after 5 ms.

    16 requests in flight with 25 changes each carry 80,000 changes per second.
    """
    settings = {**LEAN, "writer": {"in_flight": 16}}
    load = {"calls_per_second": rate, "service_seconds": 0.005, "tune_gc": tuned}
    ending = TUNED if tuned else ""
    name, options = f"{rate:,}/s offered, lean{ending}", {**MANY, "settings": settings, **load}
    return Case(name, "offered", "writes:record", PUT + ending, options)


def _offered_together(rate: int, size: int) -> Case:
    """Return a case of as many changes a second, offered as they come in a millisecond or so."""
    of_one = _offered(rate)
    return Case(
        f"{rate:,}/s offered, {size} a call, lean{TUNED}",
        "offered",
        "writes:record_many",
        of_one.baseline,
        {**of_one.options, "calls_per_second": rate // size, "size": size},
    )


def _slow_spends(rate: int) -> Case:
    """Return the spends of one process at a low rate, whose grants are renewed by time."""
    options = {"calls_per_second": rate, "seconds": SLOW_SECONDS, "settings": LEAN}
    return Case(f"spend, {rate} a second", "budgets", "budgets:spend", RECORD, options)


def _of_items(together: int = SHARED, **options: object) -> Options:
    """Return the life of as many entries, each of several changes."""
    shared = {"entries": together * LIFE["entries"], "together": together}
    return {**LIFE, **shared, "settings": {"combine": ["life-*"]}, **options}


def _transfers(legs: int, accounts: int, *, are_shared: bool = False) -> Case:
    """Return the life of transfers of so many legs, in books of so many accounts."""
    options: Options = {**LIFE, **BOOKS, "legs": legs, "accounts": accounts}
    name = f"life of a transfer, {legs} legs, {accounts:,} accounts"
    if are_shared:
        settings = {"books": ["life-*"], "combine": ["life-*"]}
        options = {**options, **_of_items(), "settings": settings}
        name = f"{name}, {SHARED} to an item"
    return Case(name, "life", "life:ledger", USUAL, options)


def _together(changes: int) -> Options:
    """Return the life of transactions of so many changes, each of a counter of its own."""
    return {**LIFE, "counters": changes, "is_together": True}


def _hot(rate: int, *, size: int = 1, on_model: bool = False) -> Case:
    """Return the changes of one counter at a rate, from processes that share its partition."""
    settings = {**LEAN, "combine": ["hot"], "compactor": {"lease": 60.0, "fold_min": 1}}
    processes = {"rate": rate, "size": size, "processes": 6 if on_model else 2}
    table = {"regions": 3, "settle": LIFE["settle"], "settings": settings}
    where = "partition's model" if on_model else "local table"
    return Case(
        f"one counter, {rate:,}/s, {where}{f', {size} a call' if size > 1 else ''}",
        "hot",
        f"hot_counter:{'on_model' if on_model else 'on_table'}",
        options={**TUNE, **processes, **table},
    )


def _folds(size: int) -> Case:
    """Return the life of changes that are merged in folds of one size, one of each counter."""
    settings = {"compactor": {"fold_max": size, "fold_min": 1}}
    options = {**LIFE, "counters": 10, "entries": size, "rounds": 1, "settings": settings}
    return Case(f"folds of {size}", "life", "life:ledger", USUAL, options)


SERVED_READS: Options = {**SERVED, "kind": "read"}
SERVED_CACHED: Options = {**SERVED, "kind": "cached", "counters": 100}
ALL: tuple[Case, ...] = (
    Case(PUT, "write", "plain:put", options=CLIENT),
    Case(PUT + TUNED, "write", "plain:put", PUT, {**CLIENT, **TUNE}),
    Case("aiodynamo batch_write", "write", "plain:aiodynamo_batch", PUT, CLIENT, "aiodynamo"),
    Case("boto3 batch_write_item, one caller", "write", "plain:boto3_batch", PUT),
    Case("SDK for JavaScript v3, batches", "write", "node:batch_write", PUT, CLIENT, SDK_V3),
    Case("record_many, 25 a call, lean", "write", "writes:record_many", PUT, {**CLIENT, **OF_25}),
    Case("record, one caller, lean", "write", "writes:record", PUT, {**MANY, "callers": 1}),
    Case("record_many, lean", "write", "writes:record_many", PUT, SIZED),
    Case("group commit, aiobotocore", "write", "writes:record", PUT, {**MANY, "settings": SDK}),
    Case("group commit, lean", "write", "writes:record", PUT, MANY),
    Case("group commit, lean, asyncio's own loop", "write", "writes:record", PUT, PLAIN_LOOP),
    Case(f"group commit, lean{TUNED}", "write", "writes:record", PUT + TUNED, {**MANY, **TUNE}),
    Case("combining, lean", "write", "writes:record", PUT, COMBINED),
    Case(f"combining, lean{TUNED}", "write", "writes:record", PUT + TUNED, {**COMBINED, **TUNE}),
    _offered(20_000, tuned=False),
    *map(_offered, (20_000, 35_000, FIFTY_THOUSAND)),
    _offered_together(FIFTY_THOUSAND, 50),
    _hot(FIFTY_THOUSAND, on_model=True),
    *(_hot(FIFTY_THOUSAND, size=size) for size in (1, 100)),
    Case(ALONE, "conditional", "writes:keyed_alone", PUT, CALLERS_ALONE),
    Case("record with keys, lean", "conditional", "writes:record_keyed", ALONE, MANY),
    Case("record_many with keys, lean", "conditional", "writes:record_many_keyed", ALONE, SIZED),
    Case(GUARDED, "conditional", "writes:version_put", PUT, CALLERS_ALONE),
    Case("version put_many, lean", "conditional", "writes:version_put_many", GUARDED, SIZED),
    Case("20,000 callers, lean", "overload", "writes:overload", PUT, OVERLOAD),
    Case(READ, "read", "plain:read", options=COLLECTION),
    Case("total, aiobotocore", "read", "reads:total", READ, {**COLLECTION, "settings": SDK}),
    Case("total, lean", "read", "reads:total", READ, {**COLLECTION, "settings": LEAN}),
    Case("total of 100,000 entries, lean", "read", "reads:total", READ, HOT),
    Case(QUERY, "totals", "plain:query", options={**COUNTERS, **CLIENT}),
    Case("merged totals, 50 callers, lean", "totals", "reads:each", QUERY, {**COUNTERS, **FIFTY}),
    Case("1,000 merged totals a call, lean", "totals", "reads:many", QUERY, COUNTERS),
    Case(LOOKUP, "totals", "reads:looked_up", options=COUNTERS),
    Case("cached totals", "totals", "reads:cached", LOOKUP, CACHED),
    Case(EMPTY_POST, "service", "service:empty", options=SERVED, package="uvicorn"),
    Case(EMPTY_GET, "service", "service:empty", options=SERVED_READS, package="uvicorn"),
    Case("requests that write", "service", "service:requests", EMPTY_POST, SERVED, "uvicorn"),
    Case("requests that read", "service", "service:requests", EMPTY_GET, SERVED_READS, "uvicorn"),
    Case("cached reads", "service", "service:requests", EMPTY_GET, SERVED_CACHED, "uvicorn"),
    Case(RECORD, "budgets", "budgets:record", options=SPENDING),
    Case("spend", "budgets", "budgets:spend", RECORD, SPENDING),
    *map(_slow_spends, (5, 20)),
    Case("one item a region, on a condition", "budgets", "budgets:item", RECORD, TAKING),
    Case(
        "one item at home, 80 ms away",
        "budgets",
        "budgets:item",
        RECORD,
        {**TAKING, "away_seconds": ROUND_TRIP_SECONDS},
    ),
    Case(USUAL, "life", "life:usual", options=LIFE),
    Case(UNARCHIVED, "life", "life:ledger", USUAL, LIFE),
    Case(f"{UNARCHIVED}, {SHARED} to an item", "life", "life:ledger", USUAL, _of_items()),
    *(_transfers(*sizes) for sizes in ((2, 10), (20, 20), (20, 10_000))),
    _transfers(2, 1_000, are_shared=True),
    *(
        Case(f"life of {legs} changes together", "life", "life:ledger", USUAL, _together(legs))
        for legs in (2, 20)
    ),
    Case(ROW, "life", "life:ledger", USUAL, {**LIFE, "imported": True}),
    Case(f"{ROW}, combined", "life", "life:ledger", USUAL, _of_items(**IMPORTED)),
    *map(_folds, (100, 20)),
    Case(f"{UNARCHIVED}, periods", "archive", "life:ledger", UNARCHIVED, {**LIFE, **PERIODS}),
    Case(f"{UNARCHIVED}, archived", "archive", "life:ledger", UNARCHIVED, {**LIFE, **ARCHIVED}),
    Case(
        f"{UNARCHIVED}, archived, periods",
        "archive",
        "life:ledger",
        UNARCHIVED,
        {**LIFE, **ARCHIVED, **PERIODS},
    ),
    Case(
        f"{MERGED_500}, archived",
        "archive",
        "life:merging",
        MERGED_500,
        {**_merge(500), **ARCHIVED},
    ),
    _kept(50_000, 10),
    _kept(50_000, 10, has_notes=False),
    _kept(MILLION, 50),
    _kept(MILLION, 1),
    Case(USUAL_LEAN, "merge", "life:usual", options=_merge(500)),
    *map(_merging, (500, 20)),
    *map(_shared, (1, 2, 4)),
    *map(_rung, (1_000, 10_000, 100_000, 1_000_000, 10_000_000)),
)
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(case.group for case in ALL))


def chosen(words: Sequence[str] | None, *, full: bool = False) -> tuple[Case, ...]:
    """Return the cases of these groups, or whose names contain such a word, and their baselines.

    None returns all but those that take hours, and those that take minutes only with `full`.
    """
    wanted = [""] if words is None else [word.lower() for word in words]
    found = [
        case
        for case in ALL
        if any(_fits(case, word) for word in wanted)
        and (words is not None or not case.is_long or (full and not case.is_by_name))
    ]
    names = {name for case in found for name in (case.name, case.baseline)}
    return tuple(case for case in ALL if case.name in names)


def _fits(case: Case, word: str) -> bool:
    return word == case.group or (word not in GROUPS and word in case.name.lower())
