"""`timeout` of every public call: what a `Table` opens ends on time, with what is true by then.

On virtual time, over a store that gives no answers. The calls are found by looking, so that a new
one without `timeout`, or without a row in `support.public_calls`, fails here.
"""

import inspect
import math
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from inspect import Parameter
from pathlib import Path
from typing import Any

import anyio
import pytest
from proof.simulator.loop import run
from support.ledgers import AWAY, HOME, make_settings, seeded
from support.pipelines import FIELDS
from support.public_calls import (
    EVENT,
    EXEMPT,
    EXEMPT_ELSEWHERE,
    TITLE,
    Made,
    all_made_of,
    calls,
    class_of,
    faces,
    handler,
    public_calls,
    unbounded_elsewhere,
)
from support.silent import LoopClock, SilentStore, SilentStream
from support.tiers import first_of_each

from ledger import (
    Action,
    InvalidInput,
    LedgerError,
    NotSent,
    OutcomeUnknown,
    ReadTooSlow,
    Rejected,
    Table,
    Unknown,
    sync,
)
from ledger.primitives.leases import NotHeld
from ledger.primitives.leases.lease import Lease
from ledger.primitives.sequences import MaybeNumbered, Numbered
from ledger.primitives.versions import Event, Handled
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections

SECONDS = 5.0
REFUSED = r"counter '(new|other)-"
"""What a method without such a call says first."""
CALLS = calls()
FUNCTIONS = dict(public_calls())
READS = frozenset(
    name
    for name in CALLS
    if name.partition(".")[2]
    in {
        *(
            "all_budgets",
            "balances",
            "counters",
            "description",
            "explain",
            "feed",
            "feed_page",
            "find",
            "highest",
            "history",
            "leases",
            "letters",
            "look",
        ),
        *("lookup", "periods", "periods_many", "read", "shards", "state", "top", "total", "totals"),
        *("value", "watch", "confirm", "pipeline"),
    }
)


def make(store: SilentStore) -> Table:
    """Return a table whose clock is that of the loop."""
    settings = make_settings(
        index=("*",),
        periods={"*": {"zone": "UTC"}},
        budgets={"key/*": {"credits": True}},
        books=("book/*",),
        pipeline={"fields": FIELDS, "categories": ["desk/{Desk}"]},
    )
    return Table(
        settings,
        region=HOME,
        given=GivenConnections(store=store, others={AWAY: store}, stream=SilentStream(store)),
        services=Services.of(clock=LoopClock(), randomness=seeded()),
    )


@asynccontextmanager
async def made_of(store: SilentStore, folder: Path) -> AsyncIterator[Made]:
    """Open a table and make all of it."""
    async with make(store) as table, all_made_of(table, folder) as made:
        yield made


def kind_of(ended: object) -> str:
    """Return what a call says of itself: too slow, not sent, unknown, or anything else."""
    match ended:
        case ReadTooSlow():
            return "too slow"
        case NotSent() | [NotSent()]:
            return "not sent"
        case (
            OutcomeUnknown()
            | [OutcomeUnknown()]
            | Unknown()
            | MaybeNumbered()
            | [Unknown()]
            | False
        ):
            return "unknown"
        case InvalidInput():
            return "refused"
        case _:
            return repr(ended)


async def ended(name: str, folder: Path, *, answers_reads: bool) -> tuple[str, object]:
    """Make a call of a table that goes silent; it must end on time."""
    store = SilentStore()
    async with made_of(store, folder) as made:
        store.answers_reads, store.is_silent = answers_reads, True
        began = anyio.current_time()
        found: object
        try:
            found = await CALLS[name](made, timeout=SECONDS)
        except LedgerError as error:
            found = error
        took = anyio.current_time() - began
        kind = kind_of(found)
        if kind == "refused":
            assert took == 0, "a method that has no such call says so at once"
        elif kind in {"too slow", "not sent", "unknown"}:
            assert took == pytest.approx(SECONDS)
        store.is_silent = False
    return kind, found


def test_every_public_call_is_known_here() -> None:
    """A new one needs a row that shows how it ends, or a reason for having no `timeout`."""
    assert set(FUNCTIONS) == set(CALLS) | set(EXEMPT)


def test_calls_of_what_no_table_opens_take_a_timeout() -> None:
    """The client's too; the few that do not have a reason each."""
    assert unbounded_elsewhere() == set(EXEMPT_ELSEWHERE)


def test_every_public_call_takes_a_timeout() -> None:
    """By keyword alone, in seconds, by default none."""
    taken = {name: inspect.signature(FUNCTIONS[name]).parameters["timeout"] for name in CALLS}
    right = Parameter("timeout", Parameter.KEYWORD_ONLY, default=None, annotation=float | None)
    assert {name: timeout for name, timeout in taken.items() if timeout != right} == {}


def test_without_async_every_public_call_takes_a_timeout_too() -> None:
    """By default none."""
    taken = {
        name: inspect.signature(getattr(face, name.partition(".")[2])).parameters["timeout"]
        for name in CALLS
        if (face := getattr(sync, class_of(name), None)) is not None
    }
    assert {name: timeout for name, timeout in taken.items() if timeout.default is not None} == {}


@pytest.mark.parametrize("name", first_of_each(sorted(READS), kind=class_of))
def test_a_read_without_an_answer_is_too_slow(name: str, tmp_path: Path) -> None:
    """Each ends on time; a method that has no such read refuses it."""
    kind, found = run(lambda: ended(name, tmp_path, answers_reads=False))
    assert kind in {"too slow", "refused"}, found
    if kind == "too slow":
        assert "timeout ended" in str(found)


@pytest.mark.parametrize("name", first_of_each(sorted(CALLS.keys() - READS), kind=class_of))
def test_a_change_without_an_answer_is_unknown_or_not_sent(name: str, tmp_path: Path) -> None:
    """What did not get so far as to write anything says that; what did says it is unknown."""
    kind, found = run(lambda: ended(name, tmp_path, answers_reads=False))
    assert kind in {"not sent", "unknown", "refused"}, found
    if isinstance(found, LedgerError) and kind != "refused":
        assert "timeout ended" in str(found)


DONE = frozenset(name for name in CALLS if name.endswith(".even_out")) | {
    "Budget.go_on",
    "DeadLetters.release",
}
"""What finds nothing to write, if reads are answered."""
WAITS = frozenset({"Lease.watch"})
"""What takes longer than the timeout, whatever the store answers."""


@pytest.mark.parametrize("name", first_of_each(sorted(CALLS.keys() - READS - DONE), kind=class_of))
def test_a_change_that_was_sent_is_unknown(name: str, tmp_path: Path) -> None:
    """With reads answered each gets so far as to write, and none says that it did not."""
    kind, found = run(lambda: ended(name, tmp_path, answers_reads=True))
    assert kind in {"unknown", "refused"}, found
    if isinstance(found, OutcomeUnknown):
        assert "timeout ended" in str(found)


@pytest.mark.parametrize("timeout", [0, -1, math.nan, "5", True])
def test_a_timeout_must_be_seconds(timeout: object, tmp_path: Path) -> None:
    """Anything but a number above 0 is refused by value and rule, before anything is sent."""

    async def main() -> None:
        store = SilentStore()
        async with made_of(store, tmp_path) as made:
            for name, call in CALLS.items():
                before = store.requests
                with pytest.raises(InvalidInput) as caught:
                    await call(made, timeout=timeout)
                told = str(caught.value)
                rule = f"seconds above 0, got {timeout!r}"
                assert rule in told or re.match(REFUSED, told), (name, told)
                assert store.requests == before, name

    run(main)


@pytest.mark.parametrize("name", first_of_each(sorted(CALLS.keys() - WAITS), kind=class_of))
def test_a_call_in_time_is_as_without(name: str, tmp_path: Path) -> None:
    """With answers it returns, or raises, what it would without a `timeout`."""

    async def found(options: Mapping[str, Any]) -> str:
        async with made_of(SilentStore(), tmp_path) as made:
            try:
                return type(await CALLS[name](made, **options)).__name__
            except LedgerError as error:
                return f"{type(error).__name__}: {error}"

    async def main() -> None:
        assert await found({"timeout": SECONDS}) == await found({})

    run(main)


def test_faces_are_found() -> None:
    """The classes come from `ledger.sync`, which has one for each that a table opens."""
    assert {"Ledger", "Table", "Lease", "SlotsCounter", "Importer", "Pipeline"} <= set(faces())


def test_an_append_without_an_answer_is_resumed() -> None:
    """What it ended in says under which number it may lie: the call goes on from there."""

    async def main() -> None:
        store = SilentStore()
        async with make(store) as table:
            items = table.sequence("s", method="sort-key")
            store.is_silent, store.answers_reads = True, True
            ended = await items.append(TITLE, timeout=SECONDS)
            store.is_silent = False
            assert isinstance(ended, MaybeNumbered)
            assert await items.append(TITLE, resume=ended) == Numbered(1)
            assert await items.highest() == 1

    run(main)


def test_a_change_without_an_answer_is_repeated_by_its_token() -> None:
    """The token that the call made comes back with the outcome: it counts once."""

    async def main() -> None:
        store = SilentStore()
        async with make(store) as table:
            stock = table.counter("stock", method="marker")
            await stock.add(5)
            store.is_silent, store.answers_reads = True, True
            ended = await stock.add(1, timeout=SECONDS)
            store.is_silent = False
            assert isinstance(ended, Unknown)
            assert ended.token is not None
            again = await stock.add(1, token=ended.token)
            assert isinstance(again, Rejected)
            assert again.reason == "applied before"
            assert await stock.value() == 6

    run(main)


def test_a_handler_that_runs_at_the_end_is_cancelled() -> None:
    """Its version is not written, so the event is handled again; a lock left behind runs out."""

    async def main() -> None:
        ran: list[str] = []

        async def slow(event: Event, lease: Lease) -> Sequence[Action]:
            del event, lease
            ran.append("began")
            await anyio.sleep_forever()
            return []

        async with make(SilentStore()) as table:
            lock = table.versions(method="lock")
            with pytest.raises(OutcomeUnknown, match="its version is not written") as caught:
                await lock.handle(EVENT, slow, timeout=SECONDS)
            assert anyio.current_time() == pytest.approx(SECONDS)
            assert caught.value.retryable
            assert ran == ["began"]
            assert await lock.handle(EVENT, handler, wait_seconds=60) == Handled(EVENT.version)

    run(main)


def test_a_wait_for_a_lease_ends_with_the_call() -> None:
    """Who waits without a limit is told who holds it, and has asked for nothing."""

    async def main() -> None:
        async with make(SilentStore()) as table:
            await table.lease("job").acquire(0)
            found = await table.lease("job").acquire(None, timeout=SECONDS)
            assert isinstance(found, NotHeld)
            assert anyio.current_time() == pytest.approx(SECONDS)

    run(main)


def test_a_call_inside_another_ends_with_that() -> None:
    """A handler's own calls are cut off with it, and what is true of the whole is said once."""

    async def main() -> None:
        store = SilentStore()
        async with make(store) as table:
            counter = table.counter("c", method="marker")
            await counter.add(1)

            async def counts(event: Event, lease: Lease) -> Sequence[Action]:
                del event, lease
                store.is_silent = True
                await counter.value(timeout=60)
                return []

            with pytest.raises(OutcomeUnknown, match="timeout ended"):
                await table.versions(method="lock").handle(EVENT, counts, timeout=SECONDS)
            assert anyio.current_time() == pytest.approx(SECONDS)
            store.is_silent = False

    run(main)
