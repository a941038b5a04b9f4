"""Who writes what of a hold that is resolved: its owner alone, or anyone with each rights item."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import anyio
import pytest

from ledger.budgets.budget import Hold
from ledger.budgets.grant_allowance import Allowance
from ledger.budgets.hold_calls import expiry_of
from ledger.budgets.spend_record import SpendRecord, spend_of
from ledger.budgets.spend_request import Granted, Refused
from ledger.core import keys
from ledger.core.contract import Terms
from ledger.core.errors import InvalidInput, LedgerError, OutcomeUnknown, StateConflict
from ledger.core.ids import EPOCH
from ledger.session.ledger import budget_parts
from ledger.store.reads import Get
from ledger.store.writes import Outcome, Rejected, Unknown, Update, Write
from ledger.testing import MemoryGlobalTable

EAST, WEST = "us-east-1", "eu-west-1"
KEY, TEAM = "key/42", "team/7"
KEY_LIFE, TEAM_LIFE = 60, 240


@dataclass
class Held:
    """A hold of 2 from two budgets, and the grants that its owner has at hand for it."""

    world: MemoryGlobalTable
    hold: Hold
    key: Allowance
    team: Allowance

    async def settled(self, actual: int) -> SpendRecord:
        """Settle it; return its entry, as it is then."""
        settled = await self.hold.settle(actual)
        assert isinstance(settled, Granted)
        entry = settled.entry
        item = await self.world.store(EAST).get(Get((keys.partition_key(KEY, 0), entry.id)))
        assert item is not None
        found = spend_of(item)
        assert found is not None
        return found


@asynccontextmanager
async def held(key_limit: int = 100, team_limit: int = 100) -> AsyncIterator[Held]:
    """Hold 2 from two budgets whose grants live for different times."""
    rules = {"key/*": {"grant_life": KEY_LIFE}, "team/*": {"grant_life": TEAM_LIFE}}
    world = MemoryGlobalTable([EAST, WEST], budgets=rules)
    async with world.table(EAST) as east:
        await east.budget(KEY).create(key_limit)
        await east.budget(TEAM).create(team_limit)
        hold = await east.budgets([KEY, TEAM]).hold(2, expires=600)
        assert isinstance(hold, Hold)
        assert hold.entry.spending is not None
        at_hand = budget_parts(east.ledger).holdings.at_hand
        key, team = (at_hand(name, KEY) for name in hold.entry.spending.grants)
        assert key is not None
        assert team is not None
        yield Held(world, hold, key.allowance, team.allowance)


async def test_its_owner_writes_the_entry_alone() -> None:
    """By a request that is not signed after the first of the grants has ended."""
    async with held() as made:
        store, sent = made.world.store(EAST), list[Write]()
        write = store.write

        async def noted(one: Write) -> Outcome:
            sent.append(one)
            return await write(one)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", noted)
            resolved = await made.settled(1)
        (update,) = (one for one in sent if isinstance(one, Update))
        assert made.key.grant.expires < made.team.grant.expires
        assert update.not_after == EPOCH + timedelta(seconds=made.key.grant.expires)
        assert not resolved.adjusted


async def test_with_a_grant_that_has_ended_each_rights_item_is_written() -> None:
    """Though the other one is at hand."""
    async with held() as made:
        made.world.clock.wall += timedelta(seconds=KEY_LIFE + 1)
        resolved = await made.settled(1)
        assert [name.budget for name in resolved.adjusted] == ["", TEAM]


@pytest.mark.parametrize("scarce", [KEY, TEAM])
async def test_what_one_of_its_grants_has_not_is_charged_apart(scarce: str) -> None:
    """Though the other has as much."""
    limits = (10, 1_000) if scarce == KEY else (1_000, 10)
    async with held(*limits) as made:
        remaining = made.key.remaining, made.team.remaining
        few, many = min(remaining), max(remaining)
        assert few < Decimal(5) <= many
        resolved = await made.settled(7)
        assert [name.budget for name in resolved.adjusted] == ["", TEAM]
        assert (made.key.remaining, made.team.remaining) == remaining


async def test_what_its_grant_has_to_the_last_is_charged_by_its_owner() -> None:
    """Nothing is free beside it: charged apart it would be refused."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {}})
    async with world.table(EAST) as east:
        await east.budget(KEY).create(2)
        hold = await east.budget(KEY).hold(2, expires=600)
        assert isinstance(hold, Hold)
        settled = await hold.settle(2)
        assert isinstance(settled, Granted)
        item = await world.store(EAST).get(Get((keys.partition_key(KEY, 0), settled.entry.id)))
        assert item is not None
        assert "adjusted" not in item


async def test_a_try_without_an_answer_is_not_refused_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others took meanwhile says nothing of the first, which may land yet."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {}})
    async with world.table(EAST) as east, world.table(EAST) as other:
        await east.budget(KEY).create(10)
        hold = await east.budget(KEY).hold(2, expires=600)
        assert isinstance(hold, Hold)
        store = world.store(EAST)
        transact = store.transact

        async def never(*_: object, **__: object) -> Outcome:
            monkeypatch.setattr(store, "transact", transact)
            while await other.budget(KEY).spend(1):
                pass
            return Unknown("no answer")

        errors: list[Exception] = []

        async def settle() -> None:
            try:
                await other.budget(KEY).held(hold.entry).settle(5)
            except LedgerError as error:
                errors.append(error)

        monkeypatch.setattr(store, "transact", never)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(settle)
            await world.clock.advance(60)
        [error] = errors
        assert isinstance(error, OutcomeUnknown)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_what_a_lost_region_has_is_not_elsewhere(
    monkeypatch: pytest.MonkeyPatch, *, is_lost: bool
) -> None:
    """A refusal names what others could send."""
    world = MemoryGlobalTable([EAST, WEST], budgets={"key/*": {}})
    async with world.table(EAST) as east, world.table(WEST) as west:
        await east.budget(KEY).create(100)
        world.replicate()
        assert await west.budget(KEY).spend(1)
        await west.close()
        world.replicate()
        hold = await east.budget(KEY).hold(1, expires=600)
        assert isinstance(hold, Hold)
        monkeypatch.setattr(Terms, "is_over", lambda *found: is_lost and found[1] == WEST)
        refused = await hold.settle(101)
        assert isinstance(refused, Refused)
        assert (refused.elsewhere == 0) is is_lost


async def test_a_refused_settlement_says_of_what_is_owed_that_nothing_is_here() -> None:
    """Not less than nothing."""
    world = MemoryGlobalTable([EAST], budgets={"key/*": {}})
    async with world.table(EAST) as east:
        await east.budget(KEY).create(10)
        first, second = [await east.budget(KEY).hold(1, expires=600) for _ in range(2)]
        assert isinstance(first, Hold)
        assert isinstance(second, Hold)
        assert await first.settle(30, over=True)
        refused = await second.settle(5)
        assert isinstance(refused, Refused)
        assert [refused.here, refused.elsewhere] == [0, 0]


def test_what_expires_now_is_past() -> None:
    """A hold is open at least for a moment."""
    with pytest.raises(InvalidInput, match="expires must be in the future"):
        expiry_of(EPOCH, EPOCH)


async def test_a_try_without_an_answer_is_not_forgotten_by_one_that_was_rejected() -> None:
    """It may land yet: that the call gives up says nothing of the hold."""
    async with held() as made:
        store, write, asked = made.world.store(EAST), made.world.store(EAST).write, [0]

        async def never(one: Write) -> Outcome:
            if one.key[0].startswith("~"):
                return await write(one)
            asked[0] += 1
            return Unknown("no answer") if asked[0] == 1 else Rejected()

        errors: list[Exception] = []

        async def settle() -> None:
            try:
                await made.hold.settle(1)
            except LedgerError as error:
                errors.append(error)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "write", never)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(settle)
                await made.world.clock.advance(60)
        assert asked[0] > 2
        [error] = errors
        assert isinstance(error, OutcomeUnknown)


async def test_a_hold_that_was_resolved_is_not_extended() -> None:
    """What its state does not allow is no wrong argument; an earlier time is, told as a time."""
    async with held() as made:
        with pytest.raises(InvalidInput, match=r"later expiry than 2026-\S+Z, got 2026-\S+Z"):
            await made.hold.extend(10)
        await made.settled(1)
        with pytest.raises(StateConflict, match="was resolved"):
            await made.hold.extend(900)


HALF = timedelta(seconds=900)


def expiry(hold: Hold) -> datetime:
    """Return when a hold expires."""
    assert hold.entry.spending is not None
    return EPOCH + timedelta(seconds=hold.entry.spending.hold or 0)


@pytest.mark.parametrize("other", [300, 3_000])
async def test_two_extensions_at_once_leave_the_longer_one(other: int) -> None:
    """Whichever is first: what a caller was told is not taken back by another's."""
    async with held() as made:
        store, write = made.world.store(EAST), made.world.store(EAST).write
        longer, asked = expiry(made.hold) + timedelta(seconds=other), expiry(made.hold) + HALF

        async def raced(one: Write) -> Outcome:
            patched.undo()
            await made.hold.extend(longer)
            return await write(one)

        patched = pytest.MonkeyPatch()
        patched.setattr(store, "write", raced)
        said: list[datetime | str] = []

        async def extends() -> None:
            try:
                said.append(expiry(await made.hold.extend(asked)))
            except InvalidInput as error:
                said.append(str(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(extends)
            await made.world.clock.advance(5)
        assert said == [asked] or (longer > asked and "later expiry than" in str(said))
        item = await store.get(Get((made.hold.entry.counter, made.hold.entry.id)))
        assert item is not None
        assert int(item["hold"]["N"]) == int(max(longer, asked).timestamp())


async def test_a_hold_of_a_lost_region_is_resolved_by_its_expiry_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the region was added again: its grants are of a holder that is over."""
    async with held() as made:

        def is_over(_: Terms, region: str, epoch: int) -> bool:
            return (region, epoch) == (EAST, 1)

        monkeypatch.setattr(Terms, "is_over", is_over)
        for call in (made.hold.settle(1), made.hold.void(), made.hold.extend(900)):
            with pytest.raises(StateConflict, match="is of us-east-1, which was lost or taken out"):
                await call
