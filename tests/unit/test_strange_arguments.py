"""Values of every kind for every parameter of every public call: refusals are errors of ours."""

import inspect
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from support.ledgers import HOME, make_settings, seeded
from support.pipelines import FIELDS
from support.public_calls import (
    ENTRY,
    EVENT,
    KEY,
    RECORD,
    TITLE,
    Made,
    all_made_of,
    changes,
    handler,
    listed,
)

from ledger import (
    CacheSettings,
    Change,
    Check,
    CompactorSettings,
    Delete,
    InTable,
    InvalidInput,
    LedgerError,
    PeriodSettings,
    PipelineSettings,
    Put,
    Region,
    Settings,
    SettingsError,
    ShardStep,
    Table,
    Update,
    WatchSettings,
    WriterSettings,
)
from ledger.pipeline.sources.source import ListSource
from ledger.primitives.counters import new_token
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.store.conditions import Absent
from ledger.store.memory import MemoryStore
from ledger.testing import MemoryGlobalTable
from ledger.testing.clock import START, ManualClock
from ledger.writes.imports import Form
from ledger.writes.imports.file_format import format_of

STRANGE: list[Any] = [
    *(None, "", " ", "\ud800", "a\0b", "nan", "x" * 5000, b"x"),
    *(0, -1, 5, 10**50, 1.5, float("nan"), float("inf"), True, complex(1, 2)),
    *(Decimal("NaN"), Decimal("Infinity"), Decimal("1E+999")),
    *([], [None], [[]], [("c",)], [("c", float("nan"))], [object()], {1, 2}, range(3)),
    *({}, {1: 2}, {"a": None}, {"a": {"S": 1}}, {"a": {"M": {"b": {"N": "x"}}}}),
    *(datetime(2026, 1, 1), datetime.max.replace(tzinfo=UTC), date.max),  # noqa: DTZ001
    *(object(), int, Exception("x"), ...),
]
GIVEN: dict[str, dict[str, Any]] = {
    "ledger.record": {"counter": "c", "change": 1, "key": "k", "at": START},
    "ledger.record_many": {"changes": [("c", 1)]},
    "ledger.record_together": {"changes": [("c", 1)]},
    "ledger.retry": {"entries": []},
    "ledger.reconcile": {"counter": "c", "counted": 1},
    "ledger.reverse": {"entry": ENTRY},
    "ledger.total": {"counter": "c"},
    "ledger.totals": {"counters": ["c"]},
    "ledger.periods": {"counter": "c", "by": "day"},
    "ledger.history": {"counter": "c"},
    "ledger.counters": {},
    "ledger.top": {"prefix": ""},
    "ledger.describe": {"counter": "c", "attributes": {"a": 1}},
    "ledger.description": {"counter": "c"},
    "ledger.watch": {"counters": "c*", "call": print, "below": 1},
    "table.counter": {"name": "x", "method": "marker"},
    "table.convert_counter": {"name": "x", "method": "marker"},
    "table.sequence": {"name": "x"},
    "table.lease": {"name": "x"},
    "table.versions": {},
    "table.importer": {},
    "table.all_budgets": {},
    "table.budget": {"counter": "key/1"},
    "table.budgets": {"counters": ["key/1"]},
    "budget.create": {"limit": 1_000},
    "budget.spend": {"amount": 1},
    "budget.hold": {"amount": 1, "expires": 600},
    "budget.held": {"entry": ENTRY},
    "budget.settle_many": {"settled": []},
    "budget.void_many": {"held": []},
    "budget.credit": {"amount": 1},
    "budget.raise_limit": {"amount": 1, "id": "x"},
    "budget.lower_limit": {"to": 500},
    "budget.go_on": {},
    "budget.state": {},
    "budget.explain": {},
    "hold.settle": {"actual": 1},
    "hold.void": {},
    "hold.extend": {"expires": 900},
    "light.settle": {"actual": 1},
    "light.extend": {"expires": 900},
    "table.pipeline": {"lane": "l", "source": ListSource([]), "dead_letters": "letters.jsonl"},
    "numbers.next": {},
    "numbers.put_next": {"make": lambda number: {"pk": {"S": f"o~{number}"}, "sk": {"S": "-"}}},
    "items.append": {"content": TITLE},
    "items.append_many": {"contents": [TITLE]},
    "items.read": {"number": 1},
    "guard.put": {"item": RECORD, "version": 1},
    "guard.put_many": {"records": [(RECORD, 1)]},
    "guard.delete": {"key": KEY, "version": 1},
    "guard.read": {"key": KEY},
    "guard.adopt": {"key": KEY, "version": 1},
    "guard.handle": {"event": EVENT, "actions": [Put(RECORD)]},
    "guard.dead_letters.find": {"event": EVENT},
    "guard.dead_letters.failed": {"event": EVENT, "cause": "x"},
    "guard.dead_letters.release": {"event": EVENT},
    "lock.handle": {"event": EVENT, "handler": handler},
    "other.acquire": {"wait_seconds": 0},
    "other.held": {"wait_seconds": 0},
    "lease.heartbeat": {},
    "lease.transact": {"actions": [Put(RECORD)]},
    "lease.hand_over": {"home": "eu-west-1"},
    "importer.run_file": {"file": "changes.csv"},
    "importer.run": {"source": None, "surveyed": None},
    "pipeline.run": {},
}
COUNTED: dict[str, dict[str, Any]] = {
    "add": {"change": 1, "token": "019a0000-0000-7000-8000-000000000000"},
    "value": {},
    "lookup": {"token": "t"},
    "reconcile": {"counted": 1, "at": START, "value": 1},
    "convert": {},
    "hand_over": {"region": "eu-west-1"},
}
OWN = {("numbers.put_next", "make"), ("lock.handle", "handler"), ("ledger.watch", "call")}
"""Functions of the caller's: what they raise is raised."""
ENDLESS = {("budget.credit", "wait")}
"""What may be without end: nothing replicates here."""
METHODS = [*ITEM_METHODS, "collection"]


async def result_of(asked: Any) -> None:
    """Await what a call returns, or read it to its end."""
    if inspect.isawaitable(asked):
        await asked
    elif hasattr(asked, "__anext__"):
        await listed(asked)
    elif hasattr(asked, "__aenter__"):
        async with asked:
            pass


@pytest.mark.parametrize("method", METHODS)
async def test_a_counter_refuses_by_our_error(method: str, tmp_path: Path) -> None:
    """Of every method, for every parameter of every call."""
    async with opened(tmp_path) as made:
        counter = made.counters[f"new-{method}"]
        for name, given in COUNTED.items():
            if hasattr(counter, name):
                await try_all(getattr(counter, name), given)


@pytest.mark.parametrize("name", GIVEN)
async def test_a_call_refuses_by_our_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is given for a parameter: it is taken, or one line says by which rule it is not."""
    monkeypatch.chdir(tmp_path)
    changes(tmp_path)
    async with opened(tmp_path) as made:
        own = {parameter for of, parameter in OWN | ENDLESS if of == name}
        await try_all(attrgetter(name)(made), GIVEN[name], but=own)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Made]:
    """Open a table and make all of it."""
    settings = make_settings(
        index=("*",),
        periods={"*": {"zone": "UTC"}},
        budgets={"key/*": {"credits": True}},
        pipeline={"fields": FIELDS, "categories": ["desk/{Desk}"]},
    )
    table = Table(
        settings,
        region=HOME,
        services=Services.of(clock=ManualClock(instant=True), randomness=seeded()),
        given=GivenConnections(store=MemoryStore(HOME)),
    )
    async with table, all_made_of(table, folder) as made:
        yield made


async def try_all(
    call: Callable[..., Any], given: dict[str, Any], *, but: Collection[str] = ()
) -> None:
    """Give each parameter each value."""
    for parameter in inspect.signature(call).parameters.keys() - but:
        for value in STRANGE:
            try:
                await result_of(call(**given | {parameter: value}))
            except LedgerError as error:
                assert str(error).encode().decode().isprintable(), (parameter, value)  # noqa: PT017


GROUPS: list[tuple[Any, dict[str, Any]]] = [
    (Region, {}),
    (CacheSettings, {}),
    (CompactorSettings, {}),
    (WriterSettings, {}),
    (PipelineSettings, {}),
    (PeriodSettings, {}),
    (ShardStep, {"count": 1}),
    (WatchSettings, {"counters": "c", "below": 1}),
    (Settings, {"home": HOME, "regions": {HOME: {}}}),
]


@pytest.mark.parametrize(("group", "given"), GROUPS, ids=lambda one: getattr(one, "__name__", ""))
def test_settings_made_in_code_refuse_by_our_error(group: Any, given: dict[str, Any]) -> None:
    """A group by itself as well as all of them: pydantic's own error is nobody's to know."""
    refusals = 0
    for name in group.model_fields:
        for value in STRANGE:
            try:
                group(**{**given, name: value})
            except SettingsError as error:
                refusals += bool(error.problems)
    assert refusals > 10
    with pytest.raises(SettingsError, match="hots is not a setting"):
        group(**given, hots=1)


def test_a_group_in_a_mapping_is_named_by_its_place() -> None:
    """The whole says where it is, as before."""
    given: Any = {"home": HOME, "regions": {HOME: {}}, "cache": {"max_age": -1}}
    with pytest.raises(SettingsError, match=r"cache\.max_age is -1: a duration"):
        Settings(**given)
    with pytest.raises(SettingsError, match="max_age is -1: a duration"):
        CacheSettings(max_age=-1)


@pytest.mark.parametrize(
    "action",
    [
        Put({}),
        Put({"a": {"S": 1}}),
        Put({**RECORD, "n": {"S": 7}}),
        Delete(("a", "")),
        Delete("ab"),  # type: ignore[arg-type]
        Check((1, 2), Absent()),  # type: ignore[arg-type]
        Update(KEY, set=[]),  # type: ignore[arg-type]
        Update(KEY, add={"a": 5}),  # type: ignore[dict-item]
        Update(KEY, remove=(5,)),  # type: ignore[arg-type]
        InTable(5, Put(RECORD)),  # type: ignore[arg-type]
        InTable("", Put(RECORD)),
    ],
    ids=repr,
)
async def test_an_action_has_a_key_and_values(action: Any) -> None:
    """It is refused by value and rule before it is sent, not by what breaks on it."""
    table = Table(
        make_settings(),
        region=HOME,
        given=GivenConnections(store=MemoryStore(HOME)),
        services=Services.of(randomness=seeded()),
    )
    async with table:
        lease = table.lease("job")
        await lease.acquire(0)
        with pytest.raises(InvalidInput, match=r"an action must have|table of an action"):
            await lease.transact([action])
        with pytest.raises(InvalidInput, match=r"an action must have|table of an action"):
            await table.versions().handle(EVENT, [action])


@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
def test_small_things_refuse_by_our_error(value: Any) -> None:
    """What is made for a call: a form, a token, a path, a table in memory."""
    makers: list[Callable[[Any], object]] = [
        format_of,
        lambda one: Form(columns=one),
        lambda one: Form(counter_format=one),
        lambda one: Form(delimiter=one),
        lambda one: Form(encoding=one),
        lambda one: new_token(one, seeded()),
        lambda one: Settings.load(one or "none.yaml"),
        MemoryGlobalTable,
        lambda one: make_settings().of_pipeline(one),
        lambda one: Change(one, one),
    ]
    for make in makers:
        try:
            make(value)
        except LedgerError as error:
            str(error).encode()
