"""Totals at a moment, made and effective, against a recount of all changes that were made."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from support.archiving import ArchivedWorld
from support.compacting import compactor_settings
from support.ledgers import HOME, SOUTH, WEST

from ledger.core import books
from ledger.core.amounts import total_wide
from ledger.core.errors import InvalidInput
from ledger.core.values import Entry
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.book import Book
from ledger.session.ledger import Ledger


def recounted(entries: list[Entry], at: datetime | date, *, effective: bool) -> Decimal:
    """Return the sum of what was made, or is effective, before a moment."""
    if effective:
        days = [(entry.effective or entry.at.date(), entry.change) for entry in entries]  # type: ignore[union-attr]
        return total_wide(change for day, change in days if day < at)
    if not isinstance(at, datetime):
        at = datetime(at.year, at.month, at.day, tzinfo=UTC)
    return total_wide(entry.change for entry in entries if entry.at < at)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("seed", "shards"),
    [(0, 1), *(pytest.param(*life, marks=pytest.mark.slow) for life in ((1, 1), (0, 3), (1, 3)))],
)
async def test_any_moment_of_a_random_life(seed: int, shards: int) -> None:
    """Late, back-dated, merged or not: each change counts where it belongs."""
    world = ArchivedWorld(seed=seed, shards={"counter": shards})
    random, made = Random(seed), list[Entry]()  # noqa: S311 (repeatable)
    start = world.world.clock.now()
    async with world.ledger() as ledger, world.ledger(SOUTH) as south:
        for _ in range(25):
            if random.random() < 0.2:
                world.world.regions.pause(SOUTH, HOME)
            for _ in range(random.randrange(4)):
                effective = None
                if random.random() < 0.3:
                    effective = start.date() + timedelta(days=random.randrange(-40, 3))
                made.append(
                    await random.choice((ledger, south)).record(
                        "counter", random.randrange(-50, 100), effective=effective
                    )
                )
                await world.world.clock.advance(random.random() * 4)
            world.world.regions.heal()
            await world.world.clock.advance(random.choice((1, 12, 7_000)))
            if random.random() < 0.7:
                await world.merge(passes=random.randrange(1, 4))
        world.world.regions.deliver()
        now = world.world.clock.now()
        moments: list[datetime] = [start, now, *(entry.at for entry in made if entry.at)]
        moments += [start + (now - start) * random.random() for _ in range(20)]
        for at in moments:
            found = await ledger.total("counter", at=at)
            assert found.value == recounted(made, at, effective=False), at
            assert found.at == at
        for days in range(-42, 5):
            day = start.date() + timedelta(days=days)
            if day.year >= 1970:
                total = await ledger.total("counter", at=day, effective=True)
                assert total.value == recounted(made, day, effective=True), day


async def life(world: ArchivedWorld, ledger: Ledger, entries: int = 40) -> list[Entry]:
    """Record and merge one entry after the other, so that each has a segment of its own."""
    made = []
    for number in range(entries):
        made.append(await ledger.record("counter", 1 + number))
        await world.merge(passes=1)
    return made


@pytest.mark.slow
async def test_a_moment_far_back_reads_little() -> None:
    """Of 40 segments a few are read, at whichever moment; history as well."""
    world = ArchivedWorld()
    async with world.ledger() as ledger:
        made = await life(world, ledger)
        await world.merge()
    for entry in made[3::9]:
        async with world.ledger() as ledger:
            assert entry.at is not None
            before = sum(one.change for one in made if one.id < entry.id)
            assert (await ledger.total("counter", at=entry.at)).value == before
            reader = await ledger._open_parts.archive.reader()
            assert reader is not None
            assert reader.fetched <= 9
            after = entry.at - timedelta(microseconds=1)
            bounded = ledger.history("counter", after=after, before=entry.at + timedelta(seconds=1))
            assert [one.id async for one in bounded] == [entry.id]
            assert reader.fetched <= 14


async def test_without_an_archive() -> None:
    """What is not merged past the moment is known; further back it is refused."""
    world = ArchivedWorld()
    plain = compactor_settings(fold_min=1)
    async with Ledger(
        plain,
        region=WEST,
        given=GivenConnections(store=world.world.regions.replicas[WEST]),
        services=Services.of(clock=world.world.clock),
    ) as ledger:
        first = await ledger.record("counter", 1)
        await world.merge(by=world.world.instance("plain", settings=plain))
        second = await ledger.record("counter", 2)
        assert second.at is not None
        assert first.at is not None
        assert (await ledger.total("counter", at=second.at)).value == 1
        now = world.world.clock.now()
        assert (await ledger.total("counter", at=now + timedelta(seconds=1))).value == 3
        with pytest.raises(InvalidInput, match="were merged without an archive"):
            await ledger.total("counter", at=first.at)
        with pytest.raises(InvalidInput, match="by effective date is not known any more"):
            await ledger.total("counter", at=date(2027, 1, 1), effective=True)
    async with world.ledger() as archived:
        await world.merge()
        assert (await archived.total("counter", at=second.at)).value == 1
        with pytest.raises(InvalidInput, match="merged before the archive began"):
            await archived.total("counter", at=first.at)


def moved_before(entries: list[Entry], at: datetime) -> books.Accounts:
    """Return the balances that transfers came to which were made before a moment."""
    sums = books.AccountSums()
    for entry in entries:
        if entry.at is not None and entry.at < at:
            sums.move(entry.legs)
    return sums.accounts()


async def transfer(ledger: Ledger, amount: int, account: str = "b") -> Entry:
    """Move an amount between accounts of a book."""
    return await Book("book/1", ledger).transfer([("a", "EUR", -amount), (account, "EUR", amount)])


@pytest.mark.parametrize(("seed", "shards"), [(0, 1), pytest.param(1, 3, marks=pytest.mark.slow)])
async def test_balances_at_any_moment_of_a_random_life(seed: int, shards: int) -> None:
    """Of a book that was merged before its archive began, and goes on with one."""
    world = ArchivedWorld(seed=seed, books=["book/*"], shards={"book/*": shards})
    plain = compactor_settings(fold_min=1).replace(books=["book/*"], shards={"book/*": shards})
    random, made = Random(seed), list[Entry]()  # noqa: S311 (repeatable)
    async with Ledger(
        plain,
        region=WEST,
        given=GivenConnections(store=world.world.regions.replicas[WEST]),
        services=Services.of(clock=world.world.clock, randomness=world.world.random),
    ) as ledger:
        made += [await transfer(ledger, number + 1, f"b{number % 3}") for number in range(9)]
        await world.merge(by=world.world.instance("plain", settings=plain))
        began = world.world.clock.now()
    async with world.ledger() as ledger:
        for _ in range(12):
            for _ in range(random.randrange(4)):
                one = await transfer(ledger, random.randrange(1, 50), f"b{random.randrange(6)}")
                made.append(one)
                await world.world.clock.advance(random.random() * 4)
            if random.random() < 0.7:
                await world.merge(passes=random.randrange(1, 4))
        now = world.world.clock.now()
        moments = [began, *(entry.at for entry in made[9:] if entry.at)]
        for at in (*moments, *(began + (now - began) * random.random() for _ in range(20))):
            found = await Book("book/1", ledger).balances(at=at)
            assert found.assets == moved_before(made, at), at


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at": "2026-01-01"}, "at must be a date or an aware datetime"),
        ({"at": datetime(2026, 1, 1)}, "at must be a date or an aware datetime"),  # noqa: DTZ001
        ({"at": date(1969, 1, 1)}, "within the years 1970 to 9998"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC), "effective": True}, "at must be a date, got"),
        ({"effective": True}, "give it as `at`"),
        ({"at": date(2026, 1, 1), "steady": True}, "neither steady nor cached"),
        ({"at": date(2026, 1, 1), "max_age": 5}, "neither steady nor cached"),
    ],
)
async def test_what_is_no_moment(options: dict[str, object], said: str) -> None:
    """A message says what a moment is."""
    world = ArchivedWorld()
    async with world.ledger() as ledger:
        with pytest.raises(InvalidInput, match=said):
            await ledger.total("counter", **options)  # type: ignore[arg-type]
