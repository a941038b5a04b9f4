"""Books in an archive: checked by account, rebuilt, read at a moment; regions compared."""

import io
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from random import Random
from typing import Any

import pytest
from support.archiving import ArchivedWorld
from support.compacting import World, compactor_settings
from support.ledgers import HOME, SOUTH, WEST, net, three_regions

from ledger.administration.archive.check import ArchiveCheck, ArchiveFault
from ledger.administration.archive.cleanup import erase_notes
from ledger.administration.archive.rebuild import Rebuild
from ledger.administration.collection_findings import CollectionFinding
from ledger.administration.verification import Verification
from ledger.commands import export
from ledger.commands.export import ExportForm
from ledger.core import amounts, books, ids
from ledger.core.entry import Item, entry_id, entry_item, net_item, net_of
from ledger.core.errors import StateConflict
from ledger.core.values import Entry, Leg
from ledger.reads.archive.places.opening import ReplicatedPlace
from ledger.reads.archive.segments import Segment
from ledger.reads.balances import Balances
from ledger.reads.collection import read_net
from ledger.runtime.services import Services
from ledger.session.assembly import GivenConnections
from ledger.session.book import Book
from ledger.session.ledger import Ledger
from ledger.settings import Settings
from ledger.testing.clock import START, ManualClock
from ledger.testing.replicas import ManualWorld

BOOK = "book/shop"
REGIONS = (HOME, WEST, SOUTH)


def archived_world() -> ArchivedWorld:
    """Return a world with books and an archive."""
    return ArchivedWorld(books=("book/*",))


async def transferred(world: ArchivedWorld, *numbers: int) -> list[Entry]:
    """Make a transfer to an account of each number, and merge them."""
    made = []
    async with world.ledger() as ledger:
        book = Book(BOOK, ledger)
        for number in numbers:
            legs = [("cash", "EUR", -number), (f"customer/{number % 3}", "EUR", number)]
            made.append(await book.transfer(legs, note="n", metadata={"number": str(number)}))
            await world.world.clock.advance(1)
        await world.merge()
    return made


async def merged_without_archive(world: ArchivedWorld, *numbers: int) -> None:
    """Make transfers, and merge them as if the table had no archive."""
    settings = compactor_settings(fold_min=1).replace(books=("book/*",))
    plain = world.world.instance("plain", settings=settings)
    async with world.ledger() as ledger:
        for number in numbers:
            await Book(BOOK, ledger).transfer([("cash", "EUR", -number), ("old", "EUR", number)])
        await world.merge(by=plain)


async def wrong_in(world: ArchivedWorld) -> list[ArchiveFault]:
    """Check the archive of a world."""
    wrong: list[ArchiveFault] = []
    places = ReplicatedPlace([world.place])
    check = ArchiveCheck(world.world.regions.replicas, HOME, places, wrong.append)
    await check.run([BOOK])
    assert check.entries
    return wrong


async def balances(world: ArchivedWorld, target: World | None = None, **asked: Any) -> Balances:
    """Return the balances that home shows of the book, in another table if one is given."""
    if target is None:
        async with world.ledger(HOME) as ledger:
            return await Book(BOOK, ledger).balances(max_age=0, **asked)
    given = GivenConnections(store=target.regions.replicas[HOME], archive=[world.place])
    services = Services.of(clock=world.world.clock)
    async with Ledger(world.settings, region=HOME, given=given, services=services) as ledger:
        return await Book(BOOK, ledger).balances(max_age=0, **asked)


def altered(world: ArchivedWorld, account: str) -> None:
    """Move 1 EUR to an account in the net of every region, with a digest that fits."""
    for region in REGIONS:
        table = world.world.regions.replicas[region].table
        (item,) = [one for one in table.items() if "merged" in one]
        there = net_of(item)
        sums = books.AccountSums()
        sums.add(books.accounts_of(there))
        sums.move([Leg("cash", "EUR", Decimal(-1)), Leg(account, "EUR", Decimal(1))])
        wrong = net_item(replace(there, accounts=books.packed(sums.accounts())), BOOK)
        table.set((BOOK, item["sk"]["S"]), wrong)


async def test_an_archived_book_is_whole() -> None:
    """Each segment's balances are those before it and its transfers."""
    world = archived_world()
    for number in range(3):
        await transferred(world, number + 1, number + 2)
    assert await wrong_in(world) == []


async def test_a_region_that_is_behind_a_merge_is_right_by_its_own_segment() -> None:
    """Its net is of a part of the chain; whole books are there on both sides."""
    world = archived_world()
    await transferred(world, 1, 2)
    world.world.regions.pause(HOME, WEST)
    await transferred(world, 3)
    nets = [await read_net(world.world.regions.replicas[region], BOOK) for region in (HOME, WEST)]
    assert books.accounts_of(nets[0]) != books.accounts_of(nets[1])
    assert await wrong_in(world) == []


async def test_other_balances_in_a_net_are_named() -> None:
    """With what the archive comes to, though digest and sum are right."""
    world = archived_world()
    await transferred(world, 1, 2, 3)
    altered(world, "customer/1")
    (fault,) = await wrong_in(world)
    assert "balances differ: 'cash' in EUR: after segment 1 -6, what followed -7" in fault.text
    assert "'customer/1' in EUR: after segment 1 1, what followed 2" in fault.text


@pytest.mark.parametrize("older", [(), (5, 6)], ids=["from the first", "begun later"])
async def test_a_fold_that_lost_legs_is_named(
    older: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a header's balances are not those before it with its lines."""
    world = archived_world()
    if older:
        await merged_without_archive(world, *older)
    await transferred(world, 1)
    kept = books.AccountSums.move
    monkeypatch.setattr(books.AccountSums, "move", lambda *_: None)
    await transferred(world, 2)
    monkeypatch.setattr(books.AccountSums, "move", kept)
    await transferred(world, 3)
    (fault,) = await wrong_in(world)
    assert "'cash' in EUR: after segment 1 " in fault.text


async def test_what_the_first_segment_did_not_move_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chain without a base begins with no balance."""
    world = archived_world()
    monkeypatch.setattr(books.AccountSums, "move", lambda *_: None)
    await transferred(world, 2)
    monkeypatch.undo()
    (fault,) = await wrong_in(world)
    assert "'cash' in EUR: before all transfers 2, must be 0" in fault.text


@pytest.mark.parametrize("older", [(), (5, 6)], ids=["from the first", "begun later"])
async def test_a_rebuilt_book_has_the_balances_that_it_had(older: tuple[int, ...]) -> None:
    """Now and at each moment since the archive began, also those of before."""
    world, target = archived_world(), World()
    if older:
        await merged_without_archive(world, *older)
    made = await transferred(world, 1, 2) + await transferred(world, 3, 4, 5)
    places = ReplicatedPlace([world.place])
    drawn = Random(1)  # noqa: S311 (repeatable)
    home = target.regions.replicas[HOME]
    await Rebuild(home, places, world.settings, target.clock.now(), drawn).run()
    before, after = await balances(world), await balances(world, target)
    assert before.assets == after.assets
    assert before.of("old", "EUR") == sum(older)
    assert books.accounts_of(await read_net(home, BOOK)) == before.assets
    for number, entry in enumerate(made):
        assert entry.at is not None
        for table in (None, target):
            found = await balances(world, table, at=entry.at)
            assert found.of("cash", "EUR") == -sum(older) - sum(range(1, number + 1))
            assert found.of("old", "EUR") == sum(older)


async def test_an_erasure_takes_the_note_and_leaves_metadata_and_legs() -> None:
    """As `ledger archive erase` says."""
    world = archived_world()
    made, *_ = await transferred(world, 1, 2)
    home, places = world.world.regions.replicas[HOME], ReplicatedPlace([world.place])
    assert await erase_notes(home, places, BOOK, [made.id], shards=1) == 1
    assert await wrong_in(world) == []
    async with world.ledger() as ledger:
        first, *_ = [entry async for entry in Book(BOOK, ledger).history()]
    assert (first.note, first.metadata, first.legs) == (None, made.metadata, made.legs)


def transfer(number: int, amount: int = 5, account: str = "bob", **more: Any) -> Item:
    """Return the item of a transfer written an hour ago."""
    at = START - timedelta(hours=1) + timedelta(seconds=number)
    legs = (Leg(account, "EUR", Decimal(amount)), Leg("cash", "EUR", Decimal(-amount)))
    return entry_item(Entry(BOOK, str(entry_id(at, number)), Decimal(0), legs=legs, **more))


def put(world: ManualWorld, item: Item, *regions: str) -> None:
    """Put an item into regions."""
    for region in regions:
        world.replicas[region].table.set((item["pk"]["S"], item["sk"]["S"]), item)


async def found_in(world: ManualWorld) -> list[CollectionFinding]:
    """Verify the book."""
    found: list[CollectionFinding] = []
    settings = Settings(home=HOME, regions={region: {} for region in REGIONS}, books=["book/*"])
    clock = ManualClock(START, instant=True)
    await Verification(world.replicas, settings, clock, found.append).counters([BOOK])
    return found


def net_with(*items: Item) -> Item:
    """Return a net that has merged transfers."""
    sums = books.AccountSums()
    for item in items:
        sums.move(books.legs_in(item["legs"]))
    named = [parsed for item in items if (parsed := ids.parse(item["sk"]["S"]))]
    made = net_of(net(BOOK, 0, named, count=len(items)))
    return net_item(replace(made, accounts=books.packed(sums.accounts())), BOOK)


async def test_regions_that_are_alike_have_no_finding() -> None:
    """Merged in one, and not yet in the others; metadata and legs are compared, too."""
    world = three_regions()
    for number in range(3):
        put(world, transfer(number, metadata={"a": "b"}), *REGIONS)
    put(world, net_with(transfer(0), transfer(1)), HOME)
    assert await found_in(world) == []


async def test_the_accounts_that_differ_are_named() -> None:
    """By what each region comes to; the sum of the changes is 0 in all of them."""
    world = three_regions()
    put(world, transfer(0), HOME, WEST)
    put(world, transfer(0, account="eve", metadata={"a": "b"}), SOUTH)
    one, two = await found_in(world)
    assert (one.kind, two.kind, two.is_damage) == ("differs", "accounts", True)
    assert "metadata: us-east-1 none" in one.text
    assert f"'bob' in EUR: {HOME} 5, {WEST} 5, {SOUTH} 0" in two.text
    assert f"'eve' in EUR: {HOME} 0, {WEST} 0, {SOUTH} 5" in two.text
    assert "'cash'" not in two.text


async def test_a_net_that_does_not_balance_is_damage() -> None:
    """In the region that shows it: no transfer makes one."""
    world = three_regions()
    put(world, transfer(0), *REGIONS)
    right = net_of(net_with(transfer(0)))
    wrong = replace(right, accounts=books.packed({"EUR": {"bob": Decimal(5)}}))
    put(world, net_item(wrong, BOOK), SOUTH)
    (found,) = await found_in(world)
    assert (found.kind, found.regions) == ("damaged", (SOUTH,))
    assert "the balances of each asset must sum to 0, got EUR 5" in found.text
    put(world, net_item(replace(right, accounts=b"x"), BOOK), SOUTH)
    (found,) = await found_in(world)
    assert (found.kind, found.regions) == ("damaged", (SOUTH,))
    assert "are damaged" in found.text


def test_differences_beyond_the_first_are_counted() -> None:
    """A line stays a line."""
    some = {"EUR": {f"a{number:02}": Decimal(1) for number in range(25)}}
    said = books.unlike({"one": some, "two": {}})
    assert said.count("two 0") == books.UNLIKE_SHOWN_MAX
    assert said.endswith("; 15 more")


async def journal_of(world: ArchivedWorld, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the journal that the command writes at home."""
    file = io.StringIO()
    monkeypatch.setattr(Ledger, "open", lambda *_, **__: world.ledger(HOME))
    make = partial(export._writer, ExportForm.JOURNAL, None, 0, ExitStack())
    monkeypatch.setattr(export, "utf8_output", lambda: file)
    await export._export(world.settings, HOME, [BOOK], ExportForm.JOURNAL, make)
    return file.getvalue()


def sums_of(journal: str) -> dict[tuple[str, str], Decimal]:
    """Return what the lines of a journal add up to, by account and asset, without zeros."""
    found = defaultdict[tuple[str, str], Decimal](Decimal)
    for line in journal.splitlines():
        if line.startswith("    "):
            account, amount = line.strip().split("  ")
            number, asset = amount.split(" ")
            found[account, asset] = amounts.EXACT.add(found[account, asset], Decimal(number))
    return {name: amount for name, amount in found.items() if amount}


@pytest.mark.parametrize("older", [(), (5, 6)], ids=["from the first", "begun later"])
async def test_a_journal_comes_to_the_balances(
    older: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the archive began later: the balances of then are its first transaction."""
    world = archived_world()
    if older:
        await merged_without_archive(world, *older)
    await transferred(world, 1, 2)
    await transferred(world, 3)
    async with world.ledger() as ledger:
        await Book(BOOK, ledger).transfer([("cash", "EUR", -4), ("bob", "EUR", 4)])
    world.replicate()
    journal = await journal_of(world, monkeypatch)
    first = journal.partition("\n\n")[0].splitlines()
    if older:
        assert first[0].endswith("(opening) balances of 2 transfers from before the archive")
        assert first[1:] == ["    cash  -11 EUR", "    old  11 EUR"]
    assert len(journal.split("\n\n")) - 1 == 4 + bool(older)
    found = await balances(world)
    assert sums_of(journal) == {
        (account, asset): balance
        for asset, there in found.assets.items()
        for account, balance in there.items()
    }


async def test_a_journal_waits_for_what_arrives_from_before_the_archive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where balances and list are not of the same transfers, nothing is written."""
    world = archived_world()
    await merged_without_archive(world, 5, 6)
    await transferred(world, 1)
    kept = Book.balances

    async def with_another(book: Book, **asked: Any) -> Balances:
        found = await kept(book, **asked)
        return replace(found, transfers=found.transfers + 1)

    monkeypatch.setattr(Book, "balances", with_another)
    with pytest.raises(StateConflict, match="are being deleted, or arrive"):
        await journal_of(world, monkeypatch)


async def test_accounts_that_cannot_be_read_are_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The segment that has them; the others are compared as before."""
    world = archived_world()
    await transferred(world, 1)
    await transferred(world, 2)
    await transferred(world, 3)
    kept: Callable[[Segment], books.Accounts] = vars(Segment)["balances"].fget

    def unreadable(segment: Segment) -> books.Accounts:
        if segment.number == 2:
            raise ValueError("accounts cannot be read")
        return kept(segment)

    monkeypatch.setattr(Segment, "balances", property(unreadable))
    (fault,) = await wrong_in(world)
    assert fault.text == "the accounts of segment 2: accounts cannot be read"
