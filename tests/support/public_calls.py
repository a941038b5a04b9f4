"""Every public call that talks to the table, found by looking, and how each is made in a test."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import compactor
import ledger
import ledger.http.client
import ledger.writes.imports
from ledger import Book, Budget, Hold, Ledger, LightHold, Put, Table, Transfer, sync
from ledger.core.entry import Item
from ledger.core.values import Entry
from ledger.pipeline.core.records import Delivery
from ledger.pipeline.sources.source import ListSource
from ledger.pipeline.stages.worker import LaneWorker
from ledger.primitives.counters import CollectionCounter
from ledger.primitives.counters.catalog import ITEM_METHODS
from ledger.primitives.counters.shards import ShardItems
from ledger.primitives.leases import LeaseTerms
from ledger.primitives.leases.lease import Lease
from ledger.primitives.sequences import CounterSequence, SortKeySequence
from ledger.primitives.versions import ConditionGuard, Event, LockGuard
from ledger.runtime.portal import Sync
from ledger.session.ledger import live_settings
from ledger.store.writes import Action
from ledger.writes.imports import Importer
from ledger.writes.imports.file_format import Form, format_of
from ledger.writes.imports.source import open_source
from ledger.writes.imports.survey import StopSign, survey

Call = Callable[..., Awaitable[Any]]
"""A call with what it needs, to be made with a `timeout`."""

EXEMPT = {
    "Ledger.close": "ends what is open, within bounds of its own",
    "Table.close": "ends what is open, within bounds of its own",
    "LightHold.extend": "asks nothing of the table",
    "LightHold.void": "asks nothing of the table",
}
EXEMPT_ELSEWHERE = {
    "ledger.Settings.renew": "reads nothing: these do not change",
    "ledger.http.client.Ledger.close": "ends what is open, within bounds of its own",
    "compactor.Compactor.run_every": "goes on until `stop` is set",
    "compactor.Compactor.run_once": "ends at `stop`; what was done stays done",
}
"""Of public classes that no table opens."""
RECORD: Item = {"pk": {"S": "record~7"}, "sk": {"S": "address"}}
TITLE: Item = {"title": {"S": "x"}}
KEY = ("record~7", "address")
EVENT = Event("customer", 2)
ENTRY = Entry("c", "2026-11-21T06:50:00.000000Z#0000000000000001", Decimal(5))
TERMS = LeaseTerms(lease_seconds=60, heartbeat_seconds=20)


def faces() -> dict[str, type]:
    """Return every class of which `ledger.sync` has a face, and each way to count."""
    found: dict[str, type] = {"Pipeline": LaneWorker}
    for face in vars(sync).values():
        if isinstance(face, type) and issubclass(face, Sync) and face.__module__ == sync.__name__:
            (behind,) = face.__orig_bases__[0].__args__  # type: ignore[attr-defined]
            found[face.__name__] = behind
    kinds: list[type] = [CollectionCounter, *ITEM_METHODS.values()]
    return found | {kind.__name__: kind for kind in kinds}


def class_of(name: str) -> str:
    """Return the class of a call, `Class.method`."""
    return name.partition(".")[0]


def is_asked(function: object) -> bool:
    """Return whether a method talks to the table: what it returns is awaited."""
    if not inspect.isfunction(function):
        return False
    plain = inspect.unwrap(function)
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        return True
    return "AsyncIterator" in str(inspect.signature(plain).return_annotation)


def public_calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public call by its name, `Class.method`."""
    for name, kind in sorted(faces().items()):
        for method, function in inspect.getmembers(kind, is_asked):
            if not method.startswith("_") and not hasattr(ShardItems, method):
                yield f"{name}.{method}", function


def unbounded_elsewhere() -> set[str]:
    """Return the calls without `timeout` of public classes that no table opens."""
    opened = set(faces().values())
    return {
        f"{package.__name__}.{name}.{method}"
        for package in (ledger, ledger.http.client, ledger.writes.imports, compactor)
        for name in package.__all__
        if inspect.isclass(kind := getattr(package, name)) and kind not in opened
        for method, function in inspect.getmembers(kind, is_asked)
        if not method.startswith("_") and "timeout" not in inspect.signature(function).parameters
    }


@dataclass(frozen=True)
class Made:
    """A table, and all that is made of it while it is open and answers."""

    table: Table
    lease: Lease
    other: Lease
    counters: Mapping[str, Any]
    numbers: CounterSequence
    items: SortKeySequence
    guard: ConditionGuard
    lock: LockGuard
    importer: Importer
    pipeline: LaneWorker
    hold: Hold
    light: LightHold
    folder: Path

    @property
    def budget(self) -> Budget:
        """A budget that has a limit."""
        return self.table.budget("key/1")

    @property
    def book(self) -> Book:
        """A book."""
        return self.table.book("book/1")

    @property
    def ledger(self) -> Ledger:
        """The table's ledger."""
        return self.table.ledger


@asynccontextmanager
async def all_made_of(table: Table, folder: Path) -> AsyncIterator[Made]:
    """Yield what an open table makes: one lease is held, counters named `new-` have a layout."""
    counters: dict[str, Any] = {}
    method: Any
    for method in (*ITEM_METHODS, "collection"):
        for state in ("new", "other"):
            counters[f"{state}-{method}"] = table.counter(f"{state}-{method}", method=method)
        if method != "collection":
            await counters[f"new-{method}"].add(1)
    await table.counter("stock", method="marker").add(1)
    lease = table.lease("job", terms=TERMS)
    await lease.acquire(0)
    budget = table.budget("key/1")
    await budget.create(1_000)
    await budget.spend(1)
    await budget.credit(1)
    hold = await budget.hold(1, expires=600)
    light = await budget.hold(1, expires=600, light=True)
    assert isinstance(hold, Hold)
    assert isinstance(light, LightHold)
    async with pipeline(table, folder) as opened:
        yield Made(
            table,
            lease,
            table.lease("other"),
            counters,
            table.sequence("n"),
            table.sequence("s", method="sort-key"),
            table.versions(),
            table.versions(method="lock"),
            table.importer(),
            opened,
            hold,
            light,
            folder,
        )


async def listed(items: AsyncIterator[object]) -> list[object]:
    """Return all that is yielded."""
    return [item async for item in items]


async def held(made: Made, **options: Any) -> object:
    """Hold a lease for a moment."""
    async with made.other.held(0, **options) as outcome:
        return outcome


async def confirm(made: Made, **options: Any) -> object:
    """Ask whether a lease is ours whose time is over."""
    holding = made.lease._holding
    assert holding is not None
    before, holding._safe_until = holding._safe_until, -1.0
    try:
        await made.lease.confirm(**options)
    finally:
        holding._safe_until = before
    return None


async def handler(event: Event, lease: Lease) -> Sequence[Action]:
    """Handle an event."""
    del event, lease
    return [Put(RECORD)]


async def import_file(made: Made, **options: Any) -> object:
    """Import a file."""
    return await made.importer.run_file(changes(made.folder), **options)


async def import_surveyed(made: Made, **options: Any) -> object:
    """Import what was surveyed."""
    with open_source(str(changes(made.folder))) as source:
        form, settings = Form(format=format_of("x.csv")), live_settings(made.table.ledger).current
        surveyed = await survey(source, form, settings, stop=StopSign())
        assert surveyed is not None
        return await made.importer.run(source, surveyed, **options)


def changes(folder: Path) -> Path:
    """Return a file of changes."""
    file = folder / "changes.csv"
    file.write_text("counter,change\na,1\n", encoding="utf-8")
    return file


async def run_pipeline(made: Made, **options: Any) -> object:
    """Run a pipeline."""
    await made.pipeline.run(**options)
    return None


async def open_pipeline(made: Made, **options: Any) -> object:
    """Open a pipeline."""
    async with pipeline(made.table, made.folder, **options) as opened:
        return opened


def pipeline(table: Table, folder: Path, **options: Any) -> AbstractAsyncContextManager[LaneWorker]:
    """Return a pipeline of one record, to be opened."""
    content = b'{"TradeID": "a", "Version": 1, "Value": "2", "Desk": "x"}'
    source = ListSource([Delivery("1", content)])
    return table.pipeline("lane", source, dead_letters=folder / "letters.jsonl", **options)


LEDGER: dict[str, Call] = {
    "counters": lambda made, **options: listed(made.ledger.counters("", **options)),
    "describe": lambda made, **options: made.ledger.describe("c", {"unit": "piece"}, **options),
    "description": lambda made, **options: made.ledger.description("c", **options),
    "feed": lambda made, **o: anext(made.ledger.feed(**o)),
    "feed_page": lambda made, **o: made.ledger.feed_page(**o),
    "history": lambda made, **options: listed(made.ledger.history("c", **options)),
    "periods": lambda made, **options: made.ledger.periods("c", by="day", **options),
    "periods_many": lambda made, **options: made.ledger.periods_many(["c"], by="day", **options),
    "reconcile": lambda made, **options: made.ledger.reconcile("c", counted=7, **options),
    "record": lambda made, **options: made.ledger.record("c", 5, **options),
    "record_many": lambda made, **options: made.ledger.record_many([("c", 5)], **options),
    "record_together": lambda made, **options: made.ledger.record_together([("c", 5)], **options),
    "retry": lambda made, **options: made.ledger.retry([ENTRY], **options),
    "reverse": lambda made, **options: made.ledger.reverse(ENTRY, **options),
    "top": lambda made, **options: made.ledger.top("", **options),
    "total": lambda made, **options: made.ledger.total("c", **options),
    "totals": lambda made, **options: made.ledger.totals(["c"], **options),
}
TABLE: dict[str, Call] = {
    "all_budgets": lambda made, **options: listed(made.table.all_budgets(**options)),
    "convert_counter": lambda made, **options: made.table.convert_counter(
        "stock", method="atomic", shards=2, **options
    ),
    "leases": lambda made, **options: listed(made.table.leases(**options)),
    "pipeline": open_pipeline,
}
LEASE: dict[str, Call] = {
    "acquire": lambda made, **options: made.other.acquire(0, **options),
    "confirm": confirm,
    "hand_over": lambda made, **options: made.lease.hand_over("eu-west-1", **options),
    "heartbeat": lambda made, **options: made.lease.heartbeat(**options),
    "held": held,
    "look": lambda made, **options: made.lease.look(**options),
    "release": lambda made, **options: made.lease.release(**options),
    "transact": lambda made, **options: made.lease.transact([Put(RECORD)], **options),
    "watch": lambda made, **options: made.lease.watch(**options),
}
SEQUENCES: dict[str, Call] = {
    "CounterSequence.next": lambda made, **options: made.numbers.next(**options),
    "CounterSequence.put_next": lambda made, **options: made.numbers.put_next(
        lambda number: {"pk": {"S": f"order~{number}"}, "sk": {"S": "-"}}, **options
    ),
    "SortKeySequence.append": lambda made, **options: made.items.append(
        {"title": {"S": "x"}}, **options
    ),
    "SortKeySequence.append_many": lambda made, **options: made.items.append_many(
        [{"title": {"S": "x"}}], **options
    ),
    "SortKeySequence.highest": lambda made, **options: made.items.highest(**options),
    "SortKeySequence.read": lambda made, **options: made.items.read(1, **options),
}
GUARDS: dict[str, Call] = {
    "ConditionGuard.adopt": lambda made, **options: made.guard.adopt(KEY, version=1, **options),
    "ConditionGuard.delete": lambda made, **options: made.guard.delete(KEY, version=1, **options),
    "ConditionGuard.handle": lambda made, **options: made.guard.handle(
        EVENT, [Put(RECORD)], **options
    ),
    "ConditionGuard.put": lambda made, **options: made.guard.put(RECORD, version=1, **options),
    "ConditionGuard.put_many": lambda made, **options: made.guard.put_many(
        [(RECORD, 1)], **options
    ),
    "ConditionGuard.read": lambda made, **options: made.guard.read(KEY, **options),
    "DeadLetters.failed": lambda made, **options: made.guard.dead_letters.failed(
        EVENT, "why", **options
    ),
    "DeadLetters.find": lambda made, **options: made.guard.dead_letters.find(EVENT, **options),
    "DeadLetters.letters": lambda made, **options: listed(
        made.guard.dead_letters.letters(**options)
    ),
    "DeadLetters.release": lambda made, **options: made.guard.dead_letters.release(
        EVENT, **options
    ),
    "LockGuard.handle": lambda made, **options: made.lock.handle(EVENT, handler, **options),
}
OTHERS: dict[str, Call] = {
    "Importer.run": import_surveyed,
    "Importer.run_file": import_file,
    "Pipeline.run": run_pipeline,
}
SPENDING: dict[str, Callable[..., Awaitable[Any]]] = {
    "hold": lambda budget, **options: budget.hold(1, expires=600, **options),
    "settle_many": lambda budget, hold, **options: budget.settle_many([(hold, 1)], **options),
    "spend": lambda budget, **options: budget.spend(1, **options),
    "void_many": lambda budget, hold, **options: budget.void_many([hold], **options),
}
LIMITS: dict[str, Call] = {
    "Budget.create": lambda made, **options: made.table.budget("key/2").create(1, **options),
    "Budget.credit": lambda made, **options: made.budget.credit(1, **options),
    "Budget.explain": lambda made, **options: made.budget.explain(**options),
    "Budget.go_on": lambda made, **options: made.budget.go_on(**options),
    "Budget.lower_limit": lambda made, **options: made.budget.lower_limit(to=9, **options),
    "Budget.raise_limit": lambda made, **options: made.budget.raise_limit(1, id="x", **options),
    "Budget.state": lambda made, **options: made.budget.state(**options),
    "Hold.extend": lambda made, **options: made.hold.extend(900, **options),
    "Hold.settle": lambda made, **options: made.hold.settle(1, **options),
    "Hold.void": lambda made, **options: made.hold.void(**options),
    "LightHold.settle": lambda made, **options: made.light.settle(1, **options),
}
LEGS = (("cash", "EUR", -5), ("customer/alice", "EUR", 5))
BOOK: dict[str, Call] = {
    "Book.balances": lambda made, **options: made.book.balances(**options),
    "Book.history": lambda made, **options: listed(made.book.history(**options)),
    "Book.transfer": lambda made, **options: made.book.transfer(LEGS, **options),
    "Book.transfer_many": lambda made, **options: made.book.transfer_many(
        [Transfer(LEGS)], **options
    ),
}
COUNTER: dict[str, Callable[..., Awaitable[object]]] = {
    "add": lambda counter, **options: counter.add(1, **options),
    "convert": lambda counter, **options: counter.convert(shards=2, **options),
    "even_out": lambda counter, **options: counter.even_out(**options),
    "hand_over": lambda counter, **options: counter.hand_over("eu-west-1", **options),
    "lookup": lambda counter, **options: counter.lookup("token", **options),
    "reconcile": lambda counter, **options: counter.reconcile(counted=7, **options),
    "shards": lambda counter, **options: counter.shards(**options),
    "value": lambda counter, **options: counter.value(**options),
}


def of_counter(method: str, call: str) -> Call:
    """Return a call of a counter that is kept by a method."""
    state = "other" if call == "shards" else "new"  # whose layout is known, and not read again
    return lambda made, **options: COUNTER[call](made.counters[f"{state}-{method}"], **options)


def of_budgets(name: str, *, several: bool) -> Call:
    """Return a call of one budget, or of several."""

    def call(made: Made, **options: Any) -> Awaitable[Any]:
        budget = made.table.budgets(["key/1"]) if several else made.budget
        held = {"hold": made.hold} if name.endswith("_many") else {}
        return SPENDING[name](budget, **held, **options)

    return call


def calls() -> dict[str, Call]:
    """Return how every public call is made, by its name."""
    named = {f"Ledger.{name}": call for name, call in LEDGER.items()}
    named |= {f"Table.{name}": call for name, call in TABLE.items()}
    named |= {f"Lease.{name}": call for name, call in LEASE.items()}
    named |= SEQUENCES | GUARDS | OTHERS | LIMITS | BOOK
    for name in SPENDING:
        named[f"Budget.{name}"] = of_budgets(name, several=False)
        named[f"Budgets.{name}"] = of_budgets(name, several=True)
    for name in COUNTER:
        for method, kind in ITEM_METHODS.items():
            named[f"{kind.__name__}.{name}"] = of_counter(method, name)
        named[f"ItemCounter.{name}"] = of_counter("atomic", name)
    for name in ("add", "lookup", "reconcile", "value"):
        named[f"CollectionCounter.{name}"] = of_counter("collection", name)
        named[f"Counter.{name}"] = of_counter("collection", name)
    return named
