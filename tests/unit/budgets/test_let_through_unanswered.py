"""Spends let through whose answer is lost: charged once if their entries are there."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from ledger import Table
from ledger.budgets import holdings
from ledger.budgets.spend_request import Granted
from ledger.core.entry import Item
from ledger.core.errors import InvalidEntry, OutcomeUnknown, Unreachable
from ledger.store.port import Store
from ledger.store.reads import Get
from ledger.store.writes import Outcome, Unknown, Write
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
NAME, OTHER = "key/42", "key/43"


def opened(regions: Sequence[str] = (EAST,)) -> MemoryGlobalTable:
    """Return a table whose budgets let spends through in an outage."""
    return MemoryGlobalTable(regions, budgets={"key/*": {"on_outage": "allow"}})


async def down(*_: object) -> None:
    """Answer as a region that does not."""
    raise Unreachable("down")


def unanswered(
    write: Callable[[Write], Awaitable[Outcome]], *, lands: bool, times: int
) -> Callable[[Write], Awaitable[Outcome]]:
    """Return a write of entries that is not answered so many times, whether it lands or not."""
    left = [times]

    async def lost(one: Write) -> Outcome:
        if one.key[0].startswith("~") or not left[0]:
            return await write(one)
        left[0] -= 1
        if lands:
            await write(one)
        return Unknown("no answer")

    return lost


@contextmanager
def outage(store: Store, *, lands: bool = True, times: int = 10**6) -> Iterator[None]:
    """Let no control item be read, and no write of an entry be answered."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "query", down)
        patched.setattr(store, "write", unanswered(store.write, lands=lands, times=times))
        yield


@contextmanager
def held_up(store: Store) -> Iterator[list[Write]]:
    """Let no control item be read, and each write land only once a test lets it."""
    held: list[Write] = []

    async def wait(one: Write) -> Outcome:
        held.append(one)
        return Unknown("no answer")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(store, "query", down)
        patched.setattr(store, "write", wait)
        yield held


async def charged(table: Table, name: str = NAME) -> tuple[int, int]:
    """Return what a budget is charged, and what its total says was spent."""
    state = await table.budget(name).state()
    assert not state.granted
    return int(state.charged), -int((await table.ledger.total(name, max_age=0)).value)


async def unknown(
    world: MemoryGlobalTable, call: Callable[[], Awaitable[object]]
) -> OutcomeUnknown:
    """Make a call, whose outcome is unknown once its deadline has passed; return its error."""
    errors: list[OutcomeUnknown] = []

    async def run() -> None:
        with pytest.raises(OutcomeUnknown) as raised:
            await call()
        errors.append(raised.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await world.clock.advance(30)
    return errors[0]


@pytest.mark.parametrize("lands", [True, False])
async def test_what_nobody_repeats_is_looked_for(
    caplog: pytest.LogCaptureFixture, *, lands: bool
) -> None:
    """It is charged if it is there: of a bundle to each budget."""
    world = opened()
    async with world.table(EAST) as east:
        for name in (NAME, OTHER):
            await east.budget(name).create(10)
        with outage(world.store(EAST), lands=lands):
            await unknown(world, lambda: east.budgets([NAME, OTHER]).spend(3))
        await world.clock.advance(1_500)
        assert await charged(east) == ((3, 3) if lands else (0, 0))
        assert await charged(east, OTHER) == ((3, 0) if lands else (0, 0))
        assert "uncharged" not in caplog.text


async def test_what_lands_late_is_charged_too() -> None:
    """By a pass: its process has looked for it, and found nothing."""
    world = opened()
    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        store = world.store(EAST)
        with held_up(store) as held:
            await unknown(world, lambda: east.budget(NAME).spend(3))
        await world.clock.advance(1_000)
        await store.write(held[0])
        await world.merge()
        assert await charged(east) == (3, 3)


async def test_a_repeat_of_what_landed_late_is_charged_once() -> None:
    """It takes nothing from the grant that it has by then."""
    world = opened()
    async with world.table(EAST) as east:
        budget, at, store = east.budget(NAME), world.clock.now(), world.store(EAST)
        await budget.create(10)
        with held_up(store) as held:
            await unknown(world, lambda: budget.spend(3, key="k", at=at))
        await world.clock.advance(110)
        await store.write(held[0])
        assert await budget.spend(3, key="k", at=at)
        await world.clock.advance(100)
        await world.merge()
        assert await charged(east) == (3, 3)


async def test_what_is_found_once_its_table_is_closed_is_charged_by_a_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its caller is told that it is granted: nothing of the closed table is needed for that."""
    world = opened()
    store, at, answered = world.store(EAST), world.clock.now(), anyio.Event()
    found: list[object] = []

    async def slow(get: Get) -> Item | None:
        await answered.wait()
        return await type(store).get(store, get)

    async def repeats(table: Table) -> None:
        found.append(await table.budget(NAME).spend(3, key="k", at=at))

    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        with outage(store):
            await unknown(world, lambda: east.budget(NAME).spend(3, key="k", at=at))
        world.crash(east)
    async with anyio.create_task_group() as tasks:
        async with world.table(EAST) as east:
            assert await east.budget(NAME).spend(10)
            monkeypatch.setattr(store, "get", slow)
            monkeypatch.setattr(holdings, "CLOSE_SECONDS", 0.05)
            tasks.start_soon(repeats, east)
            await world.clock.advance(1)
            assert found == []
        monkeypatch.undo()
        answered.set()
    [outcome] = found
    assert isinstance(outcome, Granted)
    await world.clock.advance(1_000)
    await world.merge()
    async with world.table(EAST) as east:
        assert await charged(east) == (13, 13)


@pytest.mark.parametrize("lands", [True, False])
async def test_what_is_repeated_with_its_key_is_owed_then(*, lands: bool) -> None:
    """Once, whichever call wrote it, and however often it is repeated."""
    world = opened()
    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        budget, at = east.budget(NAME), world.clock.now()
        with outage(world.store(EAST), lands=lands):
            await unknown(world, lambda: budget.spend(3, key="k", at=at))
        for _ in range(2):
            granted = await budget.spend(3, key="k", at=at)
            assert isinstance(granted, Granted)
        await world.clock.advance(100)
        state = await budget.state()
        assert state.charged + sum(grant.amount for grant in state.grants) == 3
        await world.clock.advance(1_500)
        await world.compact()
        assert await charged(east) == (3, 3)


async def test_a_repeat_in_the_outage_leaves_no_doubt(caplog: pytest.LogCaptureFixture) -> None:
    """The entry is that of the call before: of the repeat itself there is none."""
    world = opened()
    async with world.table(EAST) as other:
        async with world.table(EAST) as east:
            budget, at = east.budget(NAME), world.clock.now()
            await budget.create(10)
            with outage(world.store(EAST)):
                await unknown(world, lambda: budget.spend(3, key="k", at=at))
            with outage(world.store(EAST), times=0):
                assert await budget.spend(3, key="k", at=at)
        assert await charged(other) == (3, 3)
        assert "uncharged" not in caplog.text


async def test_the_retry_that_its_message_names_is_charged_too() -> None:
    """`Ledger.retry` writes the same entry, in its region alone: elsewhere a mark could be lost."""
    world = opened(regions=[EAST, WEST])
    async with world.table(EAST) as east, world.table(WEST) as west:
        await east.budget(NAME).create(10)
        with outage(world.store(EAST), lands=False):
            error = await unknown(world, lambda: east.budget(NAME).spend(3))
        assert "Ledger.retry is safe" in str(error)
        await world.clock.advance(200)
        with pytest.raises(InvalidEntry, match="was let through in us-east-1"):
            await west.ledger.retry(error.entries)
        await east.ledger.retry(error.entries)
        await world.merge()
        assert await charged(east) == (3, 3)


@pytest.mark.parametrize("key", [None, "k"])
async def test_a_try_that_was_not_answered_is_found_by_the_next(key: str | None) -> None:
    """The call finds its own entry in the table: it has written it, and owes it."""
    world = opened()
    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        at = None if key is None else world.clock.now()
        async with anyio.create_task_group() as tasks:
            with outage(world.store(EAST), times=1):
                tasks.start_soon(lambda: east.budget(NAME).spend(3, key=key, at=at))
                await world.clock.advance(2)
        await world.clock.advance(100)
        assert await charged(east) == (3, 3)


async def test_what_another_process_let_through_is_its_own_to_charge() -> None:
    """Though this one let the same key through, and has no answer: the entry says whose it is."""
    world = opened()
    async with world.table(EAST) as east, world.table(EAST) as other:
        await east.budget(NAME).create(10)
        at = world.clock.now()
        with outage(world.store(EAST), lands=False):
            await unknown(world, lambda: east.budget(NAME).spend(3, key="k", at=at))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "query", down)
            assert await other.budget(NAME).spend(3, key="k", at=at)
        await world.clock.advance(1_500)
        assert await charged(east) == (3, 3)


async def test_what_was_not_applied_leaves_no_doubt(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is looked for, and nothing told at the end."""
    world = opened()
    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        with outage(world.store(EAST)), pytest.MonkeyPatch.context() as patched:
            patched.setattr(world.store(EAST), "write", down)
            with pytest.raises(Unreachable):
                await east.budget(NAME).spend(3)
    assert "uncharged" not in caplog.text


async def test_a_process_that_ends_charges_what_it_can() -> None:
    """Also what was not answered, if it is there by then."""
    world = opened()
    async with world.table(EAST) as other:
        async with world.table(EAST) as east:
            await east.budget(NAME).create(10)
            with outage(world.store(EAST)), pytest.MonkeyPatch.context() as patched:
                patched.setattr(world.store(EAST), "get", down)
                await unknown(world, lambda: east.budget(NAME).spend(3))
        assert await charged(other) == (3, 3)


async def test_a_grant_with_an_unknown_outcome_is_shrunk_once_and_left() -> None:
    """It is closed by reading: its process neither writes it again nor looks at it."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {}})
    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        store = world.store(EAST)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", unanswered(store.write, lands=True, times=10**6))
            await unknown(world, lambda: east.budget(NAME).spend(3))
        await world.clock.advance(60)
        [grant] = (await east.budget(NAME).state()).grants
        assert grant.amount == 3
        asked: list[str] = []
        with pytest.MonkeyPatch.context() as patched:
            for name in ("get", "query", "write"):
                request = getattr(store, name)

                async def noting(one: Any, *, request: Any = request, name: str = name) -> Any:
                    asked.append(name)
                    return await request(one)

                patched.setattr(store, name, noting)
            await world.clock.advance(60)
        assert asked == []


async def test_what_a_repeat_finds_is_charged_by_its_process() -> None:
    """Its request landed after this process had looked: the repeat says that it is there."""
    world = opened()
    async with world.table(EAST) as east:
        await east.budget(NAME).create(10)
        at = world.clock.now()
        with held_up(world.store(EAST)) as held:
            await unknown(world, lambda: east.budget(NAME).spend(3, key="k", at=at))
        await world.clock.advance(5)
        assert await charged(east) == (0, 0)
        await world.store(EAST).write(held[0])
        await world.clock.advance(5)
        assert await charged(east) == (0, 3)
        again = await east.budget(NAME).spend(3, key="k", at=at)
        assert isinstance(again, Granted)
        assert again.entry.repeated
        await world.clock.advance(2)
        assert (await east.budget(NAME).state()).charged == 3
