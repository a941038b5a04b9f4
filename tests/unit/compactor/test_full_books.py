"""A book whose accounts have no room: what a pass says of it, and that nothing is lost."""

from datetime import timedelta
from decimal import Decimal

import pytest
from support.compacting import SETTLE, Instance, World, compactor_settings
from support.ledgers import HOME, WEST

from compactor.observation import ReadExtent, observe
from compactor.pass_terms import rules_of
from compactor.preview import explain_preview
from compactor.report import CompactorReport
from compactor.status import print_status, status_in
from ledger.core import books
from ledger.core.entry import entry_id, entry_item
from ledger.core.values import Entry, Leg

BOOK = "book/shop"


def instance(world: World) -> Instance:
    """Start a compactor of a table with books."""
    return world.instance(settings=compactor_settings(fold_min=1).replace(books=("book/*",)))


async def transferred(world: World, *numbers: int) -> None:
    """Make a transfer to an account of each number, which settles."""
    for number in numbers:
        made = entry_id(world.clock.now() + timedelta(milliseconds=number), number)
        legs = (Leg("cash", "EUR", Decimal(-1)), Leg(f"customer/{number}", "EUR", Decimal(1)))
        world.regions.put(WEST, entry_item(Entry(BOOK, str(made), Decimal(0), WEST, legs=legs)))
    world.regions.deliver()
    await world.clock.advance(SETTLE + 1)


async def passed(world: World, one: Instance, passes: int = 3) -> CompactorReport:
    """Do some passes, and return the report of the last."""
    reports = [await world.run_once(one) for _ in range(passes)]
    assert reports[-1].is_success
    return reports[-1]


async def reasons(world: World, one: Instance) -> str:
    """Return why a pass would do nothing more with the book, as `compactor plan` says."""
    settings = one.compactor.settings
    rules, now = rules_of(settings), world.clock.now()
    observed = await observe(
        world.regions.replicas,
        BOOK,
        home=HOME,
        clock=world.clock,
        extent=ReadExtent.of(rules, BOOK, now=now),
    )
    return "; ".join(explain_preview(observed, rules, settings, now=now).reasons)


async def test_a_search_says_how_large_the_accounts_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the largest book, in bytes, as the net has them; by it folds are larger."""
    world = World()
    one = instance(world)
    await transferred(world, *range(30))
    await passed(world, one)
    report = await passed(world, one, passes=1)
    net = world.shown(HOME, BOOK).net
    assert net is not None
    assert net.accounts is not None
    assert report.accounts_bytes == len(net.accounts)
    assert one.metric("compactor_book_accounts_bytes_max") == len(net.accounts)
    assert one.metric("compactor_books_full") == 0
    assert report.books_full == []
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_A_FOLD", 10)
    await transferred(world, 1)
    assert (await passed(world, one)).folds == 0
    least = len(net.accounts) // 10
    said = f"1 settled entries are fewer than fold_min ({least}, for accounts of this size)"
    assert said in await reasons(world, one)


async def test_a_full_book_is_reported_and_counts_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the report, the metric and the status, until accounts have come to 0."""
    world = World()
    one = instance(world)
    await transferred(world, 1)
    await passed(world, one)
    net = world.shown(HOME, BOOK).net
    assert net is not None
    monkeypatch.setattr(books, "ACCOUNTS_BYTES_MAX", len(books.packed(books.accounts_of(net))))
    await transferred(world, 2, 3)
    for _ in range(2):  # as long as it is
        report = await passed(world, one)
        assert report.books_full == [BOOK]
        assert one.metric("compactor_books_full") == 1
    assert "1 full books, whose transfers stay unmerged" in report.sentence()
    shown = world.shown(HOME, BOOK)
    assert (shown.net, len(shown.entries)) == (net, 2)
    said = "the accounts of the book have no room for those of 2 settled transfers"
    assert said in await reasons(world, one)
    status = await status_in(one.stores, one.compactor.settings)
    print_status(status, now=world.clock.now())
    assert "full books" in " ".join(capsys.readouterr().out.split())
    monkeypatch.undo()
    report = await passed(world, one)
    assert report.books_full == []
    assert one.metric("compactor_books_full") == 0
    net = world.shown(HOME, BOOK).net
    assert books.accounts_of(net)["EUR"]["cash"] == -3
