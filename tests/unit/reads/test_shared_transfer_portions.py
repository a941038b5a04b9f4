"""Items that many transfers share are read a few in each turn of the event loop."""

import base64
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from support.ledgers import HOME

from ledger.core import books, transfers
from ledger.core.entry import Item, entry_id, entry_item
from ledger.core.fold import Portions
from ledger.core.parts import parts_text
from ledger.core.values import Entry
from ledger.reads import collection
from ledger.reads.archive.segments import Line
from ledger.reads.collection import SHARED_WEIGHT, TRANSFERS_PORTION, ReadProgress
from ledger.reads.feed.page import FillingPage
from ledger.reads.past_totals import LINES_AT_ONCE, _moved
from ledger.store.reads import Page
from ledger.testing.clock import START

SALES = [
    books.checked_legs([("cash", "EUR", -n), (f"customer/{n}", "EUR", n)]) for n in range(1, 41)
]


def an_entry(number: int, *, is_shared: bool) -> Entry:
    """Return an item of a book: of one transfer, or of forty."""
    id_ = str(entry_id(START + timedelta(seconds=number), number))
    if is_shared:
        text = parts_text(SALES)
        return Entry("book", id_, Decimal(0), HOME, count=len(SALES), parts=text)
    return Entry("book", id_, Decimal(0), HOME, legs=SALES[0])


def turns_of(items: Sequence[Item]) -> tuple[int, books.Accounts]:
    """Return in how many portions a page is read, and what it comes to."""
    progress = ReadProgress("book", keys_max=10_000, with_legs=True)
    found = turns(progress.take(Page(tuple(items), None, 0.0)))
    balances = books.AccountSums()
    assert progress._collection.legs is not None
    for legs in progress._collection.legs.values():
        balances.move(legs)
    return found, balances.accounts()


def turns(work: Portions[object]) -> int:
    """Run a calculation; return in how many turns it is done."""
    number = 1
    while True:
        try:
            next(work)
        except StopIteration:
            return number
        number += 1


def test_a_page_is_read_by_what_its_items_take() -> None:
    """One that many transfers share counts as several; nothing is left out at a border."""
    plain = [entry_item(an_entry(number, is_shared=False)) for number in range(250)]
    shared = [entry_item(an_entry(number, is_shared=True)) for number in range(250, 275)]
    found, balances = turns_of([*plain, *shared])
    assert found >= 250 / TRANSFERS_PORTION + 25 * SHARED_WEIGHT / TRANSFERS_PORTION
    assert balances["EUR"]["customer/1"] == 250 + 25
    assert balances["EUR"]["customer/40"] == 25 * 40
    assert turns_of(plain[:99])[0] == 1
    assert turns_of([])[0] == 1
    assert (
        len(next(iter(collection._portions_of(shared[:10])))) == TRANSFERS_PORTION / SHARED_WEIGHT
    )


def test_archived_transfers_are_added_and_taken_back_a_few_at_once() -> None:
    """A balance at a moment adds those before it, or takes back all since the archive began."""
    item = entry_item(an_entry(1, is_shared=True))
    lines = [
        Line(item["sk"]["S"], Decimal(0), count=40, other={"legs": packed_as_text(item)})
        for _ in range(3 * LINES_AT_ONCE)
    ]
    sums = books.AccountSums()
    assert turns(_moved(lines, sums)) > 3
    assert sums.accounts()["EUR"]["customer/2"] == 2 * len(lines)
    assert turns(_moved(lines, sums, back=True)) > 3
    assert sums.accounts() == {}
    assert turns(_moved(lines, None)) == 1


def packed_as_text(item: Item) -> dict[str, str]:
    """Return the legs of an item as an archive has them."""
    return {"B": base64.b64encode(item["legs"]["B"]).decode()}


def test_a_page_of_a_feed_is_full_by_the_legs_of_all_transfers() -> None:
    """As if each had an item of its own."""
    one, apart = FillingPage(1_000), FillingPage(1_000)
    one.take(an_entry(1, is_shared=True))
    for legs in SALES:
        apart.take(Entry("book", str(entry_id(START, 1)), Decimal(0), HOME, legs=legs))
    assert len(one.entries) == len(apart.entries) == len(SALES)
    assert one._bytes == apart._bytes
    assert transfers.is_text(an_entry(1, is_shared=True).parts)
