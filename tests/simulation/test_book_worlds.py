"""Worlds in which all writers keep books, and what judges them."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from proof.simulator.book_audit import BookAudit
from proof.simulator.book_mutants import has_little_room, loses_books, signs_books
from proof.simulator.book_plan import BOOKS, Amounts, added, keeps_books, moved
from proof.simulator.run import run_seed

from ledger.core import books, keys
from ledger.core.entry import net_item
from ledger.core.ids import EntryId
from ledger.core.values import Leg, NetChange
from ledger.reads.balances import Balances

BOOK, HERE, THERE = BOOKS[0], "here", "there"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


class Said:
    """What an audit finds wrong; `shows` lets a region show these items alone."""

    def __init__(self, *, bytes_max: int = 0) -> None:
        self.rules: list[str] = []
        self.audit = BookAudit(
            lambda rule, _text: self.rules.append(rule), frozenset(), float, bytes_max
        )

    def shows(self, region: str, *items: dict[str, Any]) -> list[str]:
        """Return what is wrong by then."""
        self.audit.changed(region, BOOK, {item["sk"]["S"]: item for item in items})
        return self.rules

    def reads(self, amounts: Amounts, *, transfers: int) -> list[str]:
        """Return what is wrong with a read in `HERE`."""
        assets = dict[str, dict[str, Decimal]]()
        for (asset, account), amount in amounts.items():
            assets.setdefault(asset, {})[account] = Decimal(amount)
        read = self.audit.read_begins(HERE, BOOK, staleness=0.0)
        found = Balances(BOOK, assets, NOW, HERE, transfers, NOW)
        self.audit.read_ended(read, found, "reader")
        return self.rules


def legs_of(amounts: Amounts) -> list[Leg]:
    """Return amounts as the legs of a transfer."""
    return [Leg(account, asset, Decimal(amount)) for (asset, account), amount in amounts.items()]


def entry(number: int, *, factor: int = 1, **said: str) -> dict[str, Any]:
    """Return the item of a transfer; with another factor it moves something else."""
    legs = [leg._replace(amount=leg.amount * factor) for leg in legs_of(moved(BOOK, number))]
    texts = {name: {"S": text} for name, text in said.items()}
    sort_key = str(EntryId(number + 1, 7 + (factor < 0)))
    item = {"pk": {"S": BOOK}, "sk": {"S": sort_key}, "change": {"N": "0"}, **texts}
    return {**item, "legs": books.legs_attribute(legs)}


def net(*numbers: int, named: bool = True) -> dict[str, Any]:
    """Return the item of a net that keeps what these transfers moved."""
    sums = books.AccountSums()
    for number in numbers:
        sums.move(legs_of(moved(BOOK, number)))
    merged = tuple(EntryId(number + 1, 7) for number in numbers) if named else ()
    kept = books.packed(sums.accounts())
    until = str(EntryId(1, 7))
    change = NetChange(Decimal(0), len(numbers), merged, "v", until, HERE, accounts=kept)
    return dict(net_item(change, keys.partition_key(BOOK, 0)))


def test_what_a_region_shows_counts_once() -> None:
    """A transfer beside the net that counts it, and after its delete; but not twice, or not."""
    seen = Said()
    assert not seen.shows(HERE, entry(0), entry(1))
    assert not seen.shows(HERE, entry(0), entry(1), net(0))
    assert not seen.shows(HERE, net(0, 1, named=False))
    assert seen.shows(HERE, net(0, named=False)) == ["P1"]
    other = Said()
    other.shows(HERE, entry(0))
    assert other.shows(HERE, entry(0), net(0, named=False)) == ["P1"]


def test_a_transfer_that_nobody_made_is_wrong() -> None:
    """And a reversal of something else; the right one takes back what its transfer moved."""
    assert "P1" in Said().shows(HERE, entry(0, factor=3))
    seen, first = Said(), entry(0)
    seen.shows(HERE, first)
    assert not seen.shows(HERE, first, entry(0, factor=-1, reverses=first["sk"]["S"]))
    assert "once" in Said().shows(HERE, first, entry(0, factor=-1, reverses="another"))


def test_a_net_over_its_bound_is_wrong() -> None:
    """In whichever region it is shown."""
    seen = Said(bytes_max=20)
    seen.shows(HERE, entry(0))
    assert seen.shows(HERE, entry(0), net(0)) == ["bound"]


@pytest.mark.parametrize(
    ("counted", "transfers", "wrong"),
    [
        ((0, 1), 2, []),
        ((0,), 1, ["P1"]),
        ((0, 1, 1), 3, ["P1"]),
        ((0, 1, 2), 3, ["P1"]),
        ((0, 1), 3, ["P1"]),
    ],
)
def test_a_read_counts_what_has_reached_its_region(
    counted: tuple[int, ...], transfers: int, wrong: list[str]
) -> None:
    """Each once, and nothing that is elsewhere alone."""
    seen = Said()
    seen.shows(HERE, entry(0), entry(1))
    seen.shows(THERE, entry(0), entry(1), entry(2))
    amounts = added([moved(BOOK, number) for number in counted])
    assert seen.reads(amounts, transfers=transfers) == wrong


def test_a_read_of_half_a_transfer_is_wrong() -> None:
    """By P6, whatever it counts."""
    seen = Said()
    seen.shows(HERE, entry(0))
    half = {place: amount for place, amount in moved(BOOK, 0).items() if place[1] != "cash"}
    assert "P6" in seen.reads(half, transfers=1)


def test_at_rest_regions_agree_and_all_is_merged() -> None:
    """Where a net has room; and what was refused is nowhere."""
    seen = Said()
    seen.shows(HERE, entry(0))
    table = {BOOK: {entry(0)["sk"]["S"]: entry(0)}}
    seen.audit.refused([(BOOK, 0)])
    seen.audit.check_rest({HERE: table, THERE: {}})
    assert {*seen.rules} == {"P2", "P3", "P4"}
    tight = Said(bytes_max=20)
    tight.shows(HERE, entry(0))
    tight.audit.check_rest({HERE: table})
    assert not tight.rules


def test_a_share_of_worlds_has_books() -> None:
    """Some of them with little room, signed nets, or a region that is lost."""
    chosen = [seed for seed in range(2000) if keeps_books(seed)]
    assert 500 < len(chosen) < 700
    for kind, least in ((has_little_room, 150), (signs_books, 40), (loses_books, 20)):
        assert sum(map(kind, chosen)) > least, kind


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_worlds_with_books_hold() -> None:
    """One of each kind."""
    for kind in (has_little_room, signs_books, loses_books):
        seed = next(seed for seed in range(1000) if keeps_books(seed) and kind(seed))
        assert run_seed(seed).violation is None
